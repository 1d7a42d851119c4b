"""Names every file and resolves imports to files.

A file may have several names: a package below `src`, a workspace member below `packages/x`, a folder that is itself
the package given as root. A wrong resolution loses every edge between two files, so every report states the share of
the repository's own imports that lead to a file.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gapwatch.design.source.scan import module_path

_STDLIB = frozenset(sys.stdlib_module_names)
#: An unknown top name counts as the root if at least so many imports use it and this share of them resolves.
_ALIAS_MIN_IMPORTS = 2
_ALIAS_MIN_SHARE = 0.6


@dataclass(slots=True)
class Module:
    """A file, or a folder without a package file (a namespace package).

    Attributes:
        index: Position in `ModuleIndex.modules`.
        name: Dotted name relative to the root, unique.
        path: Path of the file; empty for a namespace.
        parts: Parts of the name before it was made unique.
        package: Parts of the folder whose members `from . import x` names.
        is_package: Whether it is a package.
        children: Index of each module below it, by the last part of its name.
    """

    index: int
    name: str
    path: str
    parts: tuple[str, ...]
    package: tuple[str, ...]
    is_package: bool
    children: dict[str, int] = field(default_factory=dict)


class ModuleIndex:
    """All modules under a root, and the resolution of imports between them.

    Args:
        paths: Paths of the files, sorted.
        root_name: Name of the root folder, for imports that spell it out.
        libraries: First parts of names that mean a library, whatever folders of the repository are called.
        declared: Folder of each package that the project file keeps under another name.

    Attributes:
        modules: All modules.
        by_parts: Index by parts of the name.
        root_aliases: Names under which the code imports the root itself.
    """

    def __init__(
        self,
        paths: Iterable[str],
        root_name: str,
        libraries: frozenset[str] = frozenset(),
        declared: Mapping[str, tuple[str, ...]] | None = None,
    ) -> None:
        self._libraries = libraries
        self._declared = declared or {}
        #: Dotted names of what is imported, and of all folders above it.
        self._imported: set[str] = set()
        self.modules: list[Module] = []
        self.by_parts: dict[tuple[str, ...], int] = {}
        self.root_aliases: set[str] = set()
        self._by_top: dict[str, list[int]] = {}
        #: Modules by the last part of their name, for imports that no rule explains.
        self._by_last: dict[str, list[int]] = {}
        #: Top folders that imports name by their path under the root.
        self._spelled_out: set[str] = set()
        self._required: frozenset[str] = frozenset()
        self._cache: dict[tuple[int, str], int | None] = {}
        used: set[str] = set()
        for path in paths:
            parts = module_path(path)
            is_package = path == "__init__.py" or path.endswith("/__init__.py")
            name = _unique(".".join(parts), used)
            package = parts if is_package else parts[:-1]
            if path == "__init__.py":
                package = ()
            module = Module(len(self.modules), name, path, parts, package, is_package)
            self.modules.append(module)
            key = package if is_package else parts
            if is_package or key not in self.by_parts:
                self.by_parts[key] = module.index
        self._add_namespaces(used)
        self._link()
        if any(module.path == "__init__.py" for module in self.modules):
            self.root_aliases.add(root_name)

    def _add_namespaces(self, used: set[str]) -> None:
        for module in list(self.modules):
            for length in range(len(module.parts) - 1, 0, -1):
                folder = module.parts[:length]
                if folder in self.by_parts:
                    continue
                name = _unique(".".join(folder), used)
                made = Module(len(self.modules), name, "", folder, folder, True)
                self.modules.append(made)
                self.by_parts[folder] = made.index

    def _link(self) -> None:
        for parts, index in self.by_parts.items():
            if not parts:
                continue
            parent = self.by_parts.get(parts[:-1])
            if parent is not None:
                self.modules[parent].children[parts[-1]] = index
            module = self.modules[index]
            self._by_last.setdefault(parts[-1], []).append(index)
            # Imports also start in folders without a package file: `src`, a workspace member, a script's folder.
            above = self.by_parts.get(parts[:-1])
            if len(parts) == 1 or above is None or not self.modules[above].path:
                self._by_top.setdefault(parts[-1], []).append(module.index)

    def learn_root_name(self, imported: Iterable[str], required: frozenset[str] = frozenset()) -> None:
        """Find the name under which the code imports the root, if the folder has another name.

        Args:
            imported: Dotted names of all absolute imports, with repetitions.
            required: First parts of the names of what is installed beside the repository; it has none of them.
        """
        imported = list(imported)
        self._required = required
        self._unlearn_libraries(imported)
        seen, fitting = Counter[str](), Counter[str]()
        for dotted in imported:
            top, _, rest = dotted.partition(".")
            parts = dotted.split(".")
            self._imported.update(".".join(parts[:length]) for length in range(1, len(parts) + 1))
            if rest and (top, rest.split(".")[0]) in self.by_parts:
                self._spelled_out.add(top)
            if top in _STDLIB | self._libraries or top in self._by_top or top in required or not rest:
                continue
            inside = tuple(rest.split("."))
            seen[top] += 1
            # The last part may be a name in a module; a library may have a first part of its own here, such as `core`.
            fitting[top] += inside in self.by_parts or (len(inside) > 1 and inside[:-1] in self.by_parts)
        for top, count in seen.items():
            if count >= _ALIAS_MIN_IMPORTS and fitting[top] >= _ALIAS_MIN_SHARE * count:
                self.root_aliases.add(top)

    def _unlearn_libraries(self, imported: list[str]) -> None:
        """Take a library's name for the repository's own where most imports of it fit files here (`agents`, say)."""
        libraries, seen, fitting = self._libraries, Counter[str](), Counter[str]()
        self._libraries = frozenset()
        for dotted in imported:
            parts = tuple(dotted.split("."))
            if parts[0] in libraries and len(parts) > 1:
                seen[parts[0]] += 1
                fitting[parts[0]] += bool(self.fitting(parts))
        own = {top for top, count in seen.items() if fitting[top] >= _ALIAS_MIN_SHARE * count}
        self._libraries = libraries - own

    def resolve(self, importer: int, dotted: str) -> int | None:
        """Return the module of an absolute import, or None if it lies outside the repository."""
        key = (importer, dotted)
        if key not in self._cache:
            self._cache[key] = self._resolve(self.modules[importer], tuple(dotted.split(".")))
        return self._cache[key]

    def _resolve(self, importer: Module, parts: tuple[str, ...]) -> int | None:
        found = self.by_parts.get(parts)
        if found is not None and found != importer.index and (self.modules[found].path or len(parts) > 1):
            return found
        best, best_common = None, -1
        for top in self._by_top.get(parts[0], ()):
            candidate = self.by_parts.get(self.modules[top].parts + parts[1:])
            if candidate is None or not self._may_mean(importer, self.modules[top], parts[0]):
                continue
            common = _common(importer.parts, self.modules[candidate].parts)
            if common > best_common and candidate != importer.index:
                best, best_common = candidate, common
        if best is not None:
            return best
        if parts[0] in self._declared:
            return self.by_parts.get(self._declared[parts[0]] + parts[1:])
        if parts[0] in self.root_aliases:
            stripped = self.by_parts.get(parts[1:])
            if stripped is not None:
                return stripped
        if found is not None:
            return found if self._may_mean(importer, self.modules[found], parts[0]) else None
        return self._by_path_ending(importer, parts) or self._beside(importer, parts)

    def _beside(self, importer: Module, parts: tuple[str, ...]) -> int | None:
        """Return the file of a name of one part beside the importer or above it, in a folder that is started from.

        A package file that lies in such a folder by mistake makes it no package: nothing imports it by its name.
        """
        if len(parts) != 1 or parts[0] in _STDLIB | self._libraries | self._required:
            return None
        for length in range(len(importer.parts) - 1, 0, -1):
            folder = importer.parts[:length]
            found = self.by_parts.get(folder + parts)
            if found is not None and found != importer.index and self.modules[found].path:
                return None if self._is_imported(folder) else found
        return None

    def _by_path_ending(self, importer: Module, parts: tuple[str, ...]) -> int | None:
        """Return the nearest file whose path ends with a dotted name of two parts or more; None where two are as near.

        Such a name starts in a folder that the way of starting the program puts on the path, which no file says.
        """
        fitting = self.fitting(parts)
        near = [_common(importer.parts, self.modules[index].parts) for index in fitting]
        best = [index for index, common in zip(fitting, near, strict=True) if common == max(near)]
        return best[0] if len(best) == 1 and best[0] != importer.index else None

    def fitting(self, parts: tuple[str, ...]) -> list[int]:
        """Return the modules whose path ends with a dotted name; none for one part, the standard library, a library."""
        if len(parts) < 2 or parts[0] in _STDLIB or parts[0] in self._libraries:
            return []
        found = self._by_last.get(parts[-1], ())
        return [index for index in found if self.modules[index].parts[-len(parts) :] == parts]

    def _may_mean(self, importer: Module, top: Module, name: str) -> bool:
        folder = top.parts[:-1]
        if not folder:
            # If the code imports its root by name, a folder without a package file is not importable by its own name:
            # `import httpx` beside `product/httpx/pool.py` means the library.
            return not self.root_aliases or bool(top.path) or name in self._spelled_out
        if importer.parts[:-1] == folder:
            # A script imports its neighbours first, except a module of the standard library from inside a package.
            return name not in _STDLIB or not (importer.is_package or self._is_imported(folder))
        if importer.parts[: len(folder)] == folder and name not in _STDLIB and name not in self._libraries:
            # A folder further up that is no package holds what the program is started from.
            return True
        return top.is_package and bool(top.path) and name not in _STDLIB

    def _is_imported(self, folder: tuple[str, ...]) -> bool:
        """Return whether some import names a folder, as it does a package without a file of its own."""
        return any(".".join(folder[first:]) in self._imported for first in range(len(folder)))

    def relative(self, importer: int, level: int, dotted: str) -> tuple[int | None, tuple[str, ...]]:
        """Resolve `from ..x import y`.

        Args:
            importer: Index of the importing module.
            level: Number of leading dots.
            dotted: Name after the dots; may be empty.

        Returns:
            Index of the module (None if there is none) and its parts.
        """
        package = self.modules[importer].package
        if level - 1 > len(package):
            return None, ()
        base = package[: len(package) - (level - 1)]
        parts = base + tuple(part for part in dotted.split(".") if part)
        return self.by_parts.get(parts), parts


def _unique(name: str, used: set[str]) -> str:
    made, number = name, 2
    while made in used:
        made, number = f"{name}~{number}", number + 1
    used.add(made)
    return made


def _common(left: tuple[str, ...], right: tuple[str, ...]) -> int:
    count = 0
    for a, b in zip(left, right, strict=False):
        if a != b:
            break
        count += 1
    return count
