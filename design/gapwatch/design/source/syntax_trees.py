"""Tree-sitter lives here and nowhere else: bytes in, a concrete syntax tree out, whatever the bytes are."""

from __future__ import annotations

import functools
import importlib.metadata
from typing import TYPE_CHECKING

from gapwatch.scorers.errors import UsageError

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

__all__ = ["Node", "grammar_versions", "parse_python"]

#: Where the extra is missing, the one sentence that says what to do.
_MISSING = "reading source code needs tree-sitter, which is not installed; install gapwatch[design]"


@functools.cache
def _python_parser() -> Parser:
    try:
        import tree_sitter
        import tree_sitter_python
    except ImportError as error:
        raise UsageError(_MISSING) from error
    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_python.language()))


def parse_python(source: bytes) -> Node:
    """Return the root of the tree of any byte string; errors are nodes in it, never exceptions."""
    return _python_parser().parse(source).root_node


@functools.cache
def grammar_versions() -> dict[str, str]:
    """Name and version of the parser and of each grammar, for the record of a run and the key of the cache."""
    return {name: importlib.metadata.version(name) for name in ("tree-sitter", "tree-sitter-python")}
