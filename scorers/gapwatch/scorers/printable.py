"""Makes any value safe to print: printable characters only, of bounded length."""

from __future__ import annotations


def shown(value: object, limit: int = 60) -> str:
    """Return a value as an error message shows it: printable, on one line, about `limit` characters at most."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    text = value if isinstance(value, str) else repr(value)
    text = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text[: limit + 1])
    return text if len(text) <= limit else text[:limit] + "..."


def shown_lines(text: str, lines: int = 20, limit: int = 2000) -> str:
    """Return the first lines of a text of another program, each as `shown` returns it."""
    return "\n".join(shown(line, limit) for line in text[: lines * limit].split("\n")[:lines])
