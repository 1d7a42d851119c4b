"""JSON documents with their spelling: odd numbers, repeated keys, escapes, white space."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TypeAlias

#: JSON as it will be spelled: `Pairs` may repeat a key, `Spelled` is taken as it stands.
Shape: TypeAlias = "str | bool | Spelled | Pairs | list[Shape] | None"


@dataclass(frozen=True)
class Spelled:
    """A number, by its spelling."""

    text: str


@dataclass(frozen=True)
class Pairs:
    """An object."""

    members: tuple[tuple[str, Shape], ...]


@dataclass(frozen=True)
class Style:
    """How a document is written down."""

    ascii_only: bool = True
    space: str = ""


PLAIN = Style()


def spell(shape: Shape, style: Style = PLAIN) -> str:
    """JSON text of a shape."""
    if isinstance(shape, Spelled):
        return shape.text
    if isinstance(shape, Pairs):
        members = (f"{spell(key, style)}:{style.space}{spell(value, style)}" for key, value in shape.members)
        return "{" + f",{style.space}".join(members) + style.space + "}"
    if isinstance(shape, list):
        return "[" + f",{style.space}".join(spell(item, style) for item in shape) + "]"
    if isinstance(shape, str):
        has_surrogate = any("\ud800" <= character <= "\udfff" for character in shape)
        return json.dumps(shape, ensure_ascii=style.ascii_only or has_surrogate)
    return json.dumps(shape)
