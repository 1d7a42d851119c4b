"""Ledger of spans: each span and log record that came over OTLP is in exactly one state.

The assembly keeps the counts in its own journal, and the store has a copy, as differences between two writes: what was
not written before a kill is written after the start.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

import duckdb

from gapwatch.sinks.store.row_inserts import insert_rows
from gapwatch.sinks.store.store import Store

#: Item (`span`, `log_record`, `span_event`), state and cause. The cause may be empty.
SpanKey = tuple[str, str, str]
_COLUMNS = ("source", "item", "state", "cause", "n", "recorded_at")


def insert_span_counts(store: Store, source: str, counts: Mapping[SpanKey, int]) -> None:
    """Bring the ledger of spans of a store up to the counts of the assembly, on the writer thread.

    Args:
        store: Open for writing.
        source: Name of the source.
        counts: Counts since the first start of the source, `consumed` and `pending` included.

    Raises:
        JobError: The store could not be written.
    """
    now = datetime.now(UTC).replace(tzinfo=None)

    def insert(con: duckdb.DuckDBPyConnection) -> None:
        rows = con.execute(
            "SELECT item, state, cause, sum(n)::BIGINT FROM span_ledger WHERE source = ? GROUP BY ALL", [source]
        ).fetchall()
        known: dict[SpanKey, int] = {(item, state, cause): n for item, state, cause, n in rows}
        changed = {key: counts.get(key, 0) - known.get(key, 0) for key in counts.keys() | known.keys()}
        insert_rows(con, "span_ledger", _COLUMNS, [(source, *key, n, now) for key, n in changed.items() if n])

    store.change("storing the ledger of spans", insert)
