"""Code of each symbol as a sequence of tokens, without white space and comments.

Comparing tokens tells changed code from code that only moved or was reformatted.
"""

from __future__ import annotations

import bisect
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

from gapwatch.design.callgraph.graph import Symbol
from gapwatch.design.source.scan import Scan
from gapwatch.design.source.syntax_trees import parse_python
from gapwatch.design.stage import Design

if TYPE_CHECKING:
    from gapwatch.design.source.syntax_trees import Node

#: Nodes without meaning for a comparison, and nodes that are compared as one token.
_SILENT = frozenset({"comment", "line_continuation"})
_WHOLE = frozenset({"string"})
#: Brackets in which a comma before the end changes nothing (in a tuple it may).
_LISTS = frozenset({"argument_list", "parameters", "list", "dictionary", "set"})

#: Share of the tokens of the shorter text that the longer one holds in the same order. From here on, code of the same
#: name in another file counts as moved. The shorter text is the base because code that moves usually grows.
MIN_LIKENESS = 0.5

#: Tokens of a text that are compared; the comparison takes quadratic time.
_COMPARED = 1_000

Words = tuple[bytes, ...]


class CodeTexts:
    """The tokens of every symbol of one design, for comparison with another design.

    Args:
        scan: The scan that the design was made from; its file contents are tokenised on demand.
        design: The design whose symbols are looked up.

    Attributes:
        paths: Paths of all files of the scan.
    """

    def __init__(self, scan: Scan, design: Design) -> None:
        self._sources = {f.path: f.source for f in scan.files}
        self._files: dict[str, tuple[list[int], Words, dict[int, int]]] = {}
        self._symbols = {s.id: s for s in design.graph.symbols}
        self._modules = {s.path: s.id for s in design.graph.symbols if s.kind == "module"}
        self._by_unit: dict[str, list[str]] = {}
        for symbol in design.graph.symbols:
            if symbol.kind == "function" and not symbol.tags:
                self._by_unit.setdefault(self._unit(symbol), []).append(symbol.id)
        self.paths = set(self._sources)

    def __contains__(self, symbol: str) -> bool:
        return symbol in self._symbols

    def _unit(self, symbol: Symbol) -> str:
        """Name inside its file, which stays the same when the file moves."""
        return symbol.id.removeprefix(f"{self._modules.get(symbol.path, '')}.")

    def of(self, symbol: str) -> Words | None:
        """Return the tokens of a symbol, its decorators included, or None for an unknown symbol."""
        found = self._symbols.get(symbol)
        if found is None or found.path not in self._sources:
            return None
        if found.path not in self._files:
            self._files[found.path] = _read(self._sources[found.path])
        lines, words, starts = self._files[found.path]
        first = bisect.bisect_left(lines, starts.get(found.line, found.line))
        return words[first : bisect.bisect_right(lines, found.end)]

    def place(self, symbol: str) -> str:
        """Return `path:line` of a symbol, or an empty text for an unknown one."""
        found = self._symbols.get(symbol)
        return f"{found.path}:{found.line}" if found is not None else ""

    def where_now(self, symbol: str, new: CodeTexts) -> str | None:
        """Return the symbol of a newer design that corresponds to a symbol of this one, or None if it is gone.

        The new symbol has the same name inside its file, because that is the name of its span. It may stand in another
        file if that file did not hold it before and its code is alike (`MIN_LIKENESS`).

        Args:
            symbol: Dotted name in this design.
            new: Texts of the newer design.
        """
        if symbol in new:
            return symbol
        mine = self._symbols.get(symbol)
        text = self.of(symbol)
        if mine is None or text is None:
            return None
        likely = [c for c in new._by_unit.get(self._unit(mine), ()) if c not in self]
        rated = [(_likeness(text, new.of(candidate) or ()), candidate) for candidate in sorted(likely)[:20]]
        best, found = max(rated, default=(0.0, ""))
        return found if best >= MIN_LIKENESS else None


def _likeness(one: Words, other: Words) -> float:
    if one == other or not one or not other:
        return float(one == other)
    blocks = SequenceMatcher(None, one[:_COMPARED], other[:_COMPARED], autojunk=False).get_matching_blocks()
    return sum(block.size for block in blocks) / min(len(one), len(other), _COMPARED)


def _read(source: bytes) -> tuple[list[int], Words, dict[int, int]]:
    """Return (line of each token, tokens, line of a definition to the line of its first decorator) of a file."""
    lines: list[int] = []
    words: list[bytes] = []
    starts: dict[int, int] = {}
    pending: list[Node] = [parse_python(source)]
    while pending:
        node = pending.pop()
        if node.type in _SILENT:
            continue
        if node.type == "decorated_definition":
            definition = node.child_by_field_name("definition")
            if definition is not None:
                starts[definition.start_point[0] + 1] = node.start_point[0] + 1
        if node.child_count and node.type not in _WHOLE:
            parts = [child for child in node.children if child.type not in _SILENT]
            if node.type in _LISTS and len(parts) > 2 and parts[-2].type == ",":
                del parts[-2]
            pending.extend(reversed(parts))
        elif node.end_byte > node.start_byte:
            lines.append(node.start_point[0] + 1)
            words.append(source[node.start_byte : node.end_byte])
    return lines, tuple(words), starts
