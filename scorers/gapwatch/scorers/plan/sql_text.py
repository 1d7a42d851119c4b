"""How texts and numbers of a stranger become SQL: quoted, or not at all."""

from __future__ import annotations

from collections.abc import Iterable


def literal(text: str) -> str:
    """Return the SQL expression of a text; a NUL character cannot stand in SQL and is joined in."""
    parts = ["'" + part.replace("'", "''") + "'" for part in text.split("\x00")]
    return parts[0] if len(parts) == 1 else "(" + " || chr(0) || ".join(parts) + ")"


def identifier(name: str) -> str:
    """Return the name as a quoted SQL identifier; it must not hold NUL."""
    return '"' + name.replace('"', '""') + '"'


def double(value: float) -> str:
    """Return a finite number as a DOUBLE expression with every bit of it."""
    return f"{float(value)!r}::DOUBLE"


def literals(texts: Iterable[str]) -> str:
    """Return a comma-separated list of text literals."""
    return ", ".join(literal(text) for text in texts)
