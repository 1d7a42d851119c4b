"""Counts the imports of a repository's own files, and lists those that lead to no file."""

from __future__ import annotations

from dataclasses import dataclass

from gapwatch.design.source.ir import from_module, line_of
from gapwatch.design.source.program import Program, import_target, statements


@dataclass(frozen=True)
class OwnImports:
    """Imports that mean a file of the repository.

    Attributes:
        resolved: Number of those that lead to a file.
        lost: `path:line: name` of each that leads to none, though the path of some file, or its first part, fits.
    """

    resolved: int
    lost: tuple[str, ...]

    @property
    def rate(self) -> float:
        """Share of those that lead to a file; below 0.95 many edges are missing."""
        total = self.resolved + len(self.lost)
        return self.resolved / total if total else 1.0


def own_imports(program: Program) -> OwnImports:
    """Count the imports whose name, or whose path's ending, some file or folder has; those of tests do not count."""
    index = program.index
    tops = {module.parts[0] for module in index.modules} | index.root_aliases
    resolved, lost = 0, []
    for module, ir, file in zip(index.modules, program.irs, program.files, strict=True):
        for function in ir.functions if ir is not None and file is not None and not file.tags else ():
            for s in statements(function.body):
                if s[0] == "from":
                    named = [from_module(s)]
                elif s[0] == "import":
                    named = [(0, dotted) for dotted, _ in s[2]]
                else:
                    continue
                for level, dotted in named:
                    if import_target(index, module.index, level, dotted) is not None:
                        resolved += 1
                    elif level or dotted.partition(".")[0] in tops or index.fitting(tuple(dotted.split("."))):
                        lost.append(f"{module.path}:{line_of(s)}: {'.' * level}{dotted}")
    return OwnImports(resolved, tuple(lost))
