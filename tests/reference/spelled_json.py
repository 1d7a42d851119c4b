"""Writes JSON documents with unusual spelling: odd numbers, repeated keys, escapes, white space."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TypeAlias

#: JSON as it will be spelled: `Pairs` may repeat a key, `Spelled` is taken as it stands.
Shape: TypeAlias = "str | bool | Spelled | Pairs | list[Shape] | None"


@dataclass(frozen=True)
class Spelled:
    """Number, by its spelling."""

    text: str


@dataclass(frozen=True)
class Pairs:
    """Object, as pairs of key and value."""

    members: tuple[tuple[str, Shape], ...]


@dataclass(frozen=True)
class Style:
    """Style in which a document is written.

    Attributes:
        ascii_only: Escape what is not ASCII.
        space: After colons and commas.
        space_before: Before colons.
        escaped_keys: Spell every character of a key as an escape.
    """

    ascii_only: bool = True
    space: str = ""
    space_before: str = ""
    escaped_keys: bool = False


PLAIN = Style()


def spell(shape: Shape, style: Style = PLAIN) -> str:
    """Return the JSON text of a shape."""
    if isinstance(shape, Spelled):
        return shape.text
    if isinstance(shape, Pairs):
        colon = f"{style.space_before}:{style.space}"
        members = (f"{_spell_key(key, style)}{colon}{spell(value, style)}" for key, value in shape.members)
        return "{" + f",{style.space}".join(members) + style.space + "}"
    if isinstance(shape, list):
        return "[" + f",{style.space}".join(spell(item, style) for item in shape) + "]"
    if isinstance(shape, str):
        has_surrogate = any("\ud800" <= character <= "\udfff" for character in shape)
        return json.dumps(shape, ensure_ascii=style.ascii_only or has_surrogate)
    return json.dumps(shape)


def _spell_key(key: str, style: Style) -> str:
    if not style.escaped_keys:
        return spell(key, style)
    units = key.encode("utf-16-be", "surrogatepass")
    return '"' + "".join(f"\\u{units[i]:02x}{units[i + 1]:02X}" for i in range(0, len(units), 2)) + '"'
