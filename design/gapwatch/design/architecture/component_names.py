"""Names components: an identifier for the portfolio and a title."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from gapwatch.design.architecture.material import Unit

#: Generic names of files and folders, which need the name of the folder above.
_EMPTY = frozenset(
    [
        "__init__", "main", "app", "utils", "util", "helpers", "helper", "core", "base", "common", "src",
        "lib", "code", "services", "service", "implementations", "providers", "models", "types", "internal",
        "server", "backend", "api",
    ]
)  # fmt: skip
#: Share of a group's units that must lie in one folder for it to name them.
_MOST = 0.6


def identifier_of(group: list[Unit], main: Unit, folders: Counter[str]) -> str:
    """Return the name of a group: that of its class, its file or its folder.

    Args:
        group: Units of one component.
        main: The unit nearest to a model.
        folders: Units of all groups by folder.
    """
    sinks = {u.path for u in group if u.distance == 0}
    folder = _folder_of_most(group, folders)
    if len({u.path for u in group}) == 1 and len(group) > 2 and sum(u.distance == 0 for u in group) != 1:
        # Several classes of one file: the file names the group, not one of the classes.
        words = _place(main.path)
    elif len(group) > 4 and folder:
        words = _place(folder)
    elif len(sinks) == 1 and sum(u.distance == 0 for u in group) > 2:
        words = _place(main.path)
    elif "#" in main.key:
        words = _place(main.path)
        job = main.name if main.name != "flow" else ""
        words = words if job in words else f"{words}_{job}"
    else:
        words = main.name
    return snake(words) or "code"


def count_folders(units: Iterable[Unit]) -> Counter[str]:
    """Return the number of units below each folder, at any depth."""
    out: Counter[str] = Counter()
    for unit in units:
        parts = unit.path.split("/")[:-1]
        out.update("/".join(parts[: depth + 1]) for depth in range(len(parts)))
    return out


def _folder_of_most(group: list[Unit], folders: Counter[str]) -> str:
    """Return the innermost folder that holds most of a group and little else, or an empty text."""
    mine = count_folders(group)
    fitting = [f for f, count in mine.items() if count >= _MOST * len(group) and count * 2 > folders[f]]
    return max(fitting, key=lambda f: (f.count("/"), f), default="")


def parts_of(group: list[Unit]) -> str:
    """Return the names of the four heaviest units of a large group, and the number of the others."""
    names: dict[str, None] = {}
    for unit in sorted(group, key=lambda u: (-u.weight, u.key)):
        names[_place(unit.path) if "#" in unit.key else unit.name] = None
    shown = list(names)[:4]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def _place(path: str) -> str:
    """Return the last part of a path; a generic name gets the folder before it."""
    parts = path.removesuffix(".py").split("/")
    last = parts[-1]
    if last not in _EMPTY or len(parts) < 2:
        return last
    before = next((p for p in reversed(parts[:-1]) if p not in _EMPTY), parts[-2])
    return before if last == "__init__" else f"{before}_{last}"


def snake(name: str) -> str:
    """Return a name in lower_snake_case, at most 40 characters."""
    # `OpenAI` and `LanceDB` are one word each.
    name = re.sub(r"(?<=[a-z])(AI|DB|QA|QL)(?![a-z])", lambda m: m.group(1).lower(), name)
    text = re.sub(r"([a-z0-9])([A-Z])|([A-Z]+)(?=[A-Z][a-z])", r"\1\3_\2", name)
    return re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")[:40].lstrip("0123456789_")


def unique(name: str, used: set[str]) -> str:
    """Return a name that `used` does not hold yet, numbered if necessary, and add it."""
    made, number = name, 2
    while made in used:
        made, number = f"{name}_{number}", number + 1
    used.add(made)
    return made


def title_of(identifier: str) -> str:
    """Return an identifier as a title."""
    return identifier.replace("_", " ").capitalize()
