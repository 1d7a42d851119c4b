"""Says where the module that a patch adds must lie for each file, and how the file imports it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path

from gapwatch.design.source.lower import RECORDER
from gapwatch.design.source.regular_file import read_regular
from gapwatch.design.source.scan import MAX_FILE_BYTES

_IMPORT = re.compile(r"^[ \t]*(?:from[ \t]+(\w[\w.]*)[ \t]+import[ \t]+(.*)|import[ \t]+(\w[\w.]*))", re.M)


def recorder_of(root: Path, path: str, tree: ast.Module, imported: AbsoluteImports) -> tuple[str, str]:
    """Return where the module must lie for a file, and the statement that imports it in the style of the file.

    Args:
        root: The repository.
        path: The file.
        tree: Its syntax.
        imported: What the files of the repository import.
    """
    folder = Path(path).parent
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            return (folder / f"{RECORDER}.py").as_posix(), f"from . import {RECORDER}"
    ways: dict[tuple[str, str], int] = {}
    for dotted in dict.fromkeys(_absolute_imports(tree)):
        first = dotted.partition(".")[0]
        if first == root.resolve().name and _leads(root.resolve().parent, dotted):
            return f"{RECORDER}.py", f"from {first} import {RECORDER}"
        for base in (folder, *folder.parents):
            # In a package `agents` is a library, whatever file of that name lies beside.
            is_package = any(f"{folder.name}.{name}" in imported.names for name in (first, Path(path).stem))
            is_own = imported.is_own(base, first) and (dotted != first or _gives(root / base / first, tree))
            if (root / base / first).is_dir() and _leads(root / base, dotted) and is_own:
                way = (base / first / f"{RECORDER}.py").as_posix(), f"from {first} import {RECORDER}"
            elif (root / base / f"{first}.py").is_file() and base == folder and dotted == first and not is_package:
                way = (base / f"{RECORDER}.py").as_posix(), f"import {RECORDER}"
            else:
                continue
            explained = (_leads(root / base, other) for other in set(_absolute_imports(tree)))
            ways.setdefault(way, sum(explained))
            break
    if ways:
        # A library may be called as a folder beside is: most imports of the file begin where the program does.
        return max(ways, key=lambda way: ways[way])
    return _by_importers(root, path, imported)


def _by_importers(root: Path, path: str, imported: AbsoluteImports) -> tuple[str, str]:
    """Return the module of a file that imports nothing of its own program, by the way in which others import it."""
    folder, stem = Path(path).parent, Path(path).stem
    parts = Path(path).with_suffix("").parts
    for position in range(len(parts) - 1):
        is_own = imported.is_own(Path(*parts[:position]), parts[position])
        if ".".join(parts[position:]) in imported.names and is_own:
            where = Path(*parts[: position + 1])
            return (where / f"{RECORDER}.py").as_posix(), f"from {parts[position]} import {RECORDER}"
    beside = (f"from .{stem} import", f"from . import {stem}")
    above = (f"from .{folder.name}.{stem} import", f"from .{folder.name} import {stem}")
    for where, relative in ((folder, beside), (folder.parent, above)):
        for other in sorted((root / where).glob("*.py")):
            if any(words in _text(other) for words in relative):
                return (folder / f"{RECORDER}.py").as_posix(), f"from . import {RECORDER}"
    if (root / folder / "__init__.py").exists():
        top = folder
        while top.parent != top and (root / top.parent / "__init__.py").exists() and top.parent != Path():
            top = top.parent
        return (top / f"{RECORDER}.py").as_posix(), f"from {top.name} import {RECORDER}"
    return (folder / f"{RECORDER}.py").as_posix(), f"import {RECORDER}"


def _text(path: Path) -> str:
    try:
        return read_regular(path, MAX_FILE_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""


class AbsoluteImports:
    """The dotted names that the files of a repository import absolutely, read when they are first asked for."""

    def __init__(self, root: Path, paths: Iterable[str]) -> None:
        self._root, self._paths = root, paths

    @cached_property
    def names(self) -> set[str]:
        """The names: of modules, and of what is taken from them."""
        return self._found[0]

    def is_own(self, base: Path, top: str) -> bool:
        """Return whether a name stands for a folder or a file of the program, and not for a library called the same.

        Args:
            base: Folder from which the program would import it, relative to the root.
            top: The name, without dots.
        """
        modules = [m for m in self._found[1] if m.startswith(f"{top}.")]
        return 2 * sum(_leads(self._root / base, m) for m in modules) >= len(modules)

    @cached_property
    def _found(self) -> tuple[set[str], set[str]]:
        """All names, and those of modules alone."""
        found: set[str] = set()
        modules: set[str] = set()
        for path in self._paths:
            for line in _IMPORT.finditer(_text(self._root / path)):
                module, names = line[1] or line[3], line[2] or ""
                modules.add(module)
                found.update(f"{module}.{name.strip()}" for name in names.split(",") if name.strip().isidentifier())
        return found | modules, modules


def _absolute_imports(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and not node.level and node.module:
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def _gives(folder: Path, tree: ast.Module) -> bool:
    """Return whether a folder is what a file imports by its name: a package, or one with the modules that it takes."""
    if (folder / "__init__.py").is_file():
        return True
    taken = [n for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) and n.module == folder.name and not n.level]
    return bool(taken) and all(_leads(folder, alias.name) for node in taken for alias in node.names)


def _leads(base: Path, dotted: str) -> bool:
    path = base.joinpath(*dotted.split("."))
    return path.with_suffix(".py").is_file() or path.is_dir()
