"""Lower case as DuckDB's `lower` has it: one code point to one, without context."""

from __future__ import annotations


def lower(text: str) -> str:
    """Return the text with each code point lowered by itself; of a longer lower case the first one (`İ` is `i`)."""
    return "".join(character.lower()[0] for character in text)
