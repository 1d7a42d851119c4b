"""No import circles: neither files nor folders import each other in a ring, however an import is hidden.

Imports inside functions and under `TYPE_CHECKING` count, too: what they hide from a tool still needs both files to be
read together.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from importlib.util import resolve_name
from pathlib import Path

ROOT = Path(__file__).parents[1]

#: Folders from which the names of modules begin, and the packages of each.
SOURCE_ROOTS = {ROOT / root: ("gapwatch",) for root in ("scorers", "sinks", "streams", "streams/publisher", "design")}

#: Module to file; a package has the name of its `__init__.py`.
FILES = {
    ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__"): path
    for root, packages in SOURCE_ROOTS.items()
    for package in packages
    for path in sorted((root / package).rglob("*.py"))
}


def _imported(module: str, path: Path) -> Iterator[str]:
    """The names that a file imports: `from x import y` may mean a module x.y or a name in x."""
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            source = resolve_name("." * node.level + (node.module or ""), package)
            for alias in node.names:
                yield name if (name := f"{source}.{alias.name}") in FILES else source


@cache
def _imports() -> dict[str, set[str]]:
    return {module: {name for name in _imported(module, path) if name in FILES} for module, path in FILES.items()}


def test_files_do_not_import_each_other_in_a_ring() -> None:
    # Raises CycleError, which names the ring.
    TopologicalSorter(_imports()).prepare()


def _room(path: Path) -> Path:
    """The folder of a file; the file itself where it lies beside folders, as the ground and the roof of them do."""
    has_folders = any(path.parent.glob("*/*.py"))
    return path if has_folders else path.parent


def test_folders_do_not_import_each_other_in_a_ring() -> None:
    rooms: dict[Path, set[Path]] = {}
    for module, names in _imports().items():
        room = _room(FILES[module])
        rooms.setdefault(room, set()).update({_room(FILES[name]) for name in names} - {room})

    TopologicalSorter(rooms).prepare()
