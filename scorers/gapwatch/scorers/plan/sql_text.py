"""Quotes texts, names and numbers for SQL."""

from __future__ import annotations

from collections.abc import Iterable


def literal(text: str) -> str:
    """Return the SQL expression of a text; a NUL character, which SQL cannot contain, becomes chr(0)."""
    parts = ["'" + part.replace("'", "''") + "'" for part in text.split("\x00")]
    return parts[0] if len(parts) == 1 else "(" + " || chr(0) || ".join(parts) + ")"


def identifier(name: str) -> str:
    """Return a name without NUL as a quoted SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def double(value: float) -> str:
    """Return a finite number as an exact DOUBLE expression."""
    return f"{float(value)!r}::DOUBLE"


def literals(texts: Iterable[str]) -> str:
    """Return a comma-separated list of text literals."""
    return ", ".join(literal(text) for text in texts)
