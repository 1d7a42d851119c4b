"""Lower case as DuckDB's `lower` has it: one code point to one, without context."""

from __future__ import annotations


def lower(text: str) -> str:
    """Lower each code point by itself; one whose lower case is longer takes the first of it (`İ` is `i`)."""
    return "".join(character.lower()[0] for character in text)
