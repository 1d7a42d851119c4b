"""Tables that an export has, with their Arrow schemas.

    by commit   rows never change: appended, those after the last exported commit
    by hour     `ticks`: upkeep joins rows and late data adds some, so an hour is replaced as a whole
    whole       small tables without a commit number: replaced when they change

The text of traces (`samples`) and the tables of the program itself are not exported: they shall not outlive retention.
"""

from __future__ import annotations

import pyarrow as pa

from gapwatch.sinks.store.schema import KEPT_TABLES, ROW_TABLES

#: Tables whose rows belong to a commit and never change. `offsets` is last: an export that has it has the others.
BY_COMMIT = (
    "gaps", "session_ticks", "ledger", "dead_letters", "shifts", "alerts", "incidents", "judge_calls", "offsets",
)  # fmt: skip
BY_HOUR = "ticks"
WHOLE = ("store", "portfolios", "metrics", "policies", "templates", "facts", "overrides", "annotations")
EXPORTED = (*WHOLE, BY_HOUR, *BY_COMMIT)

#: First column of each table: the id of the store, its time of creation.
KEEPER = "keeper"
#: Column of `ticks`: hour of event time, `2026-03-22T12`, or NO_HOUR. A partition of the table.
HOUR = "hour"
NO_HOUR = "none"


def stored_schema(table: str) -> pa.Schema:
    """Return the columns of a table of the store; JSON is text."""
    if table not in KEPT_TABLES:
        return ROW_TABLES[table]
    schema, is_stamped = KEPT_TABLES[table]
    last = [pa.field("kept_at", pa.timestamp("us"))] if is_stamped else []
    return pa.schema([pa.field("seq", pa.int64()), *schema, *last])


def exported_schema(table: str) -> pa.Schema:
    """Return the columns of an exported table."""
    first = [pa.field(KEEPER, pa.string())]
    if table == BY_HOUR:
        first.append(pa.field(HOUR, pa.string()))
    return pa.schema([*first, *stored_schema(table)])


def exported_rows(table: str, keeper: str, batch: pa.RecordBatch, hour: str | None = None) -> pa.RecordBatch:
    """Return rows of a store as rows of an exported table.

    Args:
        table: Name of the table.
        keeper: Id of the store.
        batch: Rows with the columns of `stored_schema`, and perhaps with DuckDB's own types.
        hour: Hour of the rows, for the table by hour.
    """
    schema = exported_schema(table)
    given = {name: pa.array([value] * batch.num_rows, pa.string()) for name, value in ((KEEPER, keeper), (HOUR, hour))}
    columns = []
    for field in schema:
        if field.name in given and field.name not in batch.schema.names:
            columns.append(given[field.name])
            continue
        column = batch.column(field.name)
        if isinstance(column.type, pa.BaseExtensionType):
            column = column.storage
        columns.append(column.cast(field.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)
