"""Makes `docs/store.md`: tables, views and columns of a store, from the comments in its catalog."""

from __future__ import annotations

import duckdb

from gapwatch.sinks.catalog.table_texts import TABLE_TEXTS
from gapwatch.sinks.catalog.view_texts import VIEW_TEXTS
from gapwatch.sinks.store.schema import INTERNAL, INTERNAL_TABLES, creation_statements

_HEAD = """# The store: tables, views and columns

Generated from `sinks/gapwatch/sinks/catalog` by `deploy/docs --write`; a test checks that it is current. The same texts
are comments in every store: `SELECT table_name, column_name, comment FROM duckdb_columns`.

A store is one DuckDB file. `gapwatch history 'SELECT ...' --store S` queries it, also while a run writes it. The DuckDB
command line from 1.2 on reads the file itself, and all views, while no process writes it; for a store in use,
`gapwatch snapshot --store S` writes Parquet files. Times are naive timestamps in UTC. `key`, `value`, `at`, `by`,
`day`, `lower`, `upper`, `text` are SQL keywords: put them in double quotes if DuckDB reports a syntax error. Begin
with the views; [five questions](cookbook.md) shows them at work.

`gapwatch migrate --store S` converts a store of an older version; the old file stays beside it."""


def store_page() -> str:
    """Return the text of `docs/store.md`."""
    with duckdb.connect(":memory:", config={"threads": 1}) as con:
        for statement in creation_statements():
            con.execute(statement)
        columns: dict[str, list[tuple[str, str, str]]] = {}
        for table, name, kind, text in con.execute(
            'SELECT table_name, column_name, data_type, "comment" FROM duckdb_columns() WHERE NOT internal '
            "ORDER BY table_name, column_index"
        ).fetchall():
            columns.setdefault(table, []).append((name, kind, text))
    public = [name for name in TABLE_TEXTS if name not in INTERNAL_TABLES]
    parts = [_HEAD, "## Views"]
    parts += [_section(name, VIEW_TEXTS[name][0], columns[name]) for name in VIEW_TEXTS]
    parts.append("## Tables")
    parts += [_section(name, TABLE_TEXTS[name][0], columns[name]) for name in public]
    parts.append(f"## Tables of the program: the schema `{INTERNAL}`\n\nThey may change with any version.")
    parts += [
        _section(f"{INTERNAL}.{name}", TABLE_TEXTS[name][0], columns[name])
        for name in TABLE_TEXTS
        if name in INTERNAL_TABLES
    ]
    return "\n\n".join(parts) + "\n"


def _section(name: str, text: str, columns: list[tuple[str, str, str]]) -> str:
    rows = "\n".join(f"| `{column}` | {kind} | {said} |" for column, kind, said in columns)
    return f"### `{name}`\n\n{text}\n\n| column | type | meaning |\n| --- | --- | --- |\n{rows}"
