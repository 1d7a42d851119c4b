"""COMMENT ON statements for every table, view and column."""

from __future__ import annotations

from collections.abc import Callable

from gapwatch.sinks.catalog.table_texts import SHARED, TABLE_TEXTS
from gapwatch.sinks.catalog.view_texts import VIEW_TEXTS


def column_texts(block: str) -> dict[str, str]:
    """Return the texts of columns, in order, from a block in the form of `table_texts`.

    Raises:
        KeyError: A column without a text of its own is not in `SHARED`.
    """
    texts: dict[str, str] = {}
    own = ""
    for line in block.splitlines():
        name, colon, text = line.strip().partition(": ")
        if colon and name.isidentifier():
            own, texts[name] = name, text
        elif line.startswith(" " * 12):  # a text that goes on
            texts[own] += " " + line.strip()
        else:
            texts.update((shared, SHARED[shared]) for shared in line.split())
    return texts


def comment_statements(qualified: Callable[[str], str]) -> list[str]:
    """Return the statements that comment all tables, views and columns.

    Args:
        qualified: Returns the name of a table with its schema.
    """
    statements = []
    for kind, texts in (("TABLE", TABLE_TEXTS), ("VIEW", VIEW_TEXTS)):
        for name, (text, block) in texts.items():
            statements.append(f"COMMENT ON {kind} {qualified(name)} IS {_quoted(text)}")
            statements += [
                f'COMMENT ON COLUMN {qualified(name)}."{column}" IS {_quoted(said)}'
                for column, said in column_texts(block).items()
            ]
    return statements


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
