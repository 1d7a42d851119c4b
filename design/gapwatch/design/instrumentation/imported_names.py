"""Dotted names of expressions, through the imports of their file and re-exports of the repository's own files."""

from __future__ import annotations

from gapwatch.design.source.ir import Expr, dotted_text, from_module, from_names, import_names, line_of
from gapwatch.design.source.program import Program, import_target, statements

#: Own files through which a name is followed.
_MOST_HOPS = 4


class ImportedNames:
    """Names that each file of a program imports.

    Args:
        program: All files in intermediate form.
    """

    def __init__(self, program: Program) -> None:
        self._program = program
        self._names: list[dict[str, str]] = []
        self._own: list[dict[str, tuple[int, str]]] = []
        self._lines: list[dict[str, int]] = []
        by_module: list[list[int]] = [[] for _ in program.index.modules]
        for info in program.functions:
            by_module[info.module].append(info.number)
        for module, numbers in enumerate(by_module):
            names: dict[str, str] = {}
            own: dict[str, tuple[int, str]] = {}
            lines: dict[str, int] = {}
            for number in numbers:
                for s in statements(program.functions[number].ir.body):
                    if s[0] == "import":
                        for dotted, alias in import_names(s):
                            names[alias or dotted.partition(".")[0]] = dotted if alias else dotted.partition(".")[0]
                            names.setdefault(f"import {dotted}", dotted)
                            lines.setdefault(dotted, line_of(s))
                    elif s[0] == "from":
                        level, dotted = from_module(s)
                        target = import_target(program.index, module, level, dotted)
                        for name, alias in from_names(s) or ():
                            if target is not None:
                                own[alias or name] = target, name
                            else:
                                names[alias or name] = f"{dotted}.{name}"
                                lines.setdefault(f"{dotted}.{name}", line_of(s))
            self._names.append(names)
            self._own.append(own)
            self._lines.append(lines)

    def packages(self, module: int) -> frozenset[str]:
        """Return the dotted names of all libraries that a file imports, and their first two parts."""
        found = set(self._names[module].values())
        firsts = {part for name in found for part in (name.partition(".")[0], ".".join(name.split(".")[:2]))}
        return frozenset(found | firsts)

    def imports(self, module: int) -> dict[str, str]:
        """Return the imported names of a file: name in the file to dotted name."""
        return self._names[module]

    def line(self, module: int, dotted: str) -> int:
        """Return the line at which a file imports a name; 1 if it is not known."""
        return self._lines[module].get(dotted, 1)

    def dotted(self, module: int, e: Expr) -> str:
        """Return the dotted name of an expression, with the imports of its file followed."""
        text = dotted_text(e)
        first, point, rest = text.partition(".")
        bare, call, _ = first.partition("()")
        found = self._followed(module, bare)
        return f"{found}{call}{point}{rest}" if found is not None else text

    def _followed(self, module: int, name: str) -> str | None:
        for _ in range(_MOST_HOPS):
            if name in self._names[module]:
                return self._names[module][name]
            if name not in self._own[module]:
                return None
            module, name = self._own[module][name]
        return None
