"""Tables of reports in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

#: Most characters of a cell.
_MOST = 160


def markdown_table(titles: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table; texts are shortened to 160 characters, and none of them is read as Markdown or HTML.

    Args:
        titles: Names of the columns.
        rows: Cells by row.
    """
    lines = [f"| {' | '.join(titles)} |", f"| {' | '.join('---' for _ in titles)} |"]
    lines += [f"| {' | '.join(_cell(cell) for cell in row)} |" for row in rows]
    return "\n".join(lines) + "\n"


def _cell(value: object) -> str:
    text = " ".join(str(value).split())
    text = text if len(text) <= _MOST else text[: _MOST - 1] + "…"
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")
