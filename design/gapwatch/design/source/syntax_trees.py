"""Parses Python with tree-sitter, which is imported only here; any bytes give a tree."""

from __future__ import annotations

import functools
import importlib.metadata
from typing import TYPE_CHECKING

from gapwatch.scorers.errors import UsageError

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

__all__ = ["Node", "grammar_versions", "parse_python"]

#: Error message if the extra `design` is not installed.
_MISSING = "reading source code needs tree-sitter, which is not installed; run pip install 'gapwatch[design]'"


@functools.cache
def _python_parser() -> Parser:
    try:
        import tree_sitter
        import tree_sitter_python
    except ImportError as error:
        raise UsageError(_MISSING) from error
    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_python.language()))


def parse_python(source: bytes) -> Node:
    """Return the root node of any byte string; syntax errors are nodes of the tree, never exceptions."""
    return _python_parser().parse(source).root_node


@functools.cache
def grammar_versions() -> dict[str, str]:
    """Return name and version of the parser and its grammar, for the key of the cache."""
    return {name: importlib.metadata.version(name) for name in ("tree-sitter", "tree-sitter-python")}
