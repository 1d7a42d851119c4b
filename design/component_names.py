"""What components are called: an identifier that a portfolio can keep, and a title."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from design.components import Unit


def identifier_of(group: list[Unit], main: Unit) -> str:
    """Return the name of a group: of its class, its file or its folder."""
    folders = {u.path.rpartition("/")[0] for u in group}
    sinks = {u.path for u in group if u.distance == 0}
    if len(sinks) == 1 and sum(u.distance == 0 for u in group) > 2:
        # Several classes of one file that ask a model: none of them may name them all.
        words = main.path.rpartition("/")[2].removesuffix(".py")
    elif len(group) > 4 and len(folders) == 1 and "/" in main.path:
        words = main.path.split("/")[-2]
    elif "#" in main.key:
        stem = main.path.rpartition("/")[2].removesuffix(".py")
        if stem in ("__init__", "main", "app", "utils", "helpers", "core", "base") and "/" in main.path:
            stem = f"{main.path.split('/')[-2]}_{stem}".removesuffix("___init__")
        job = main.name or "code"
        words = stem if job in stem or (job == "flow" and len(group) > 1) else f"{stem}_{job}"
    else:
        words = main.name
    return snake(words) or "code"


def snake(name: str) -> str:
    """Return a name in lower_snake_case, at most 40 letters."""
    text = re.sub(r"([a-z0-9])([A-Z])|([A-Z]+)(?=[A-Z][a-z])", r"\1\3_\2", name)
    return re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")[:40].lstrip("0123456789_")


def unique(name: str, used: set[str]) -> str:
    """Return a name that is not used yet, and take it."""
    made, number = name, 2
    while made in used:
        made, number = f"{name}_{number}", number + 1
    used.add(made)
    return made


def title_of(identifier: str) -> str:
    """Return an identifier as people write it."""
    return identifier.replace("_", " ").capitalize()
