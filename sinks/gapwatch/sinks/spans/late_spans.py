"""Late spans, as the store has them: each came over OTLP after its trace was closed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import duckdb

from gapwatch.sinks.store.row_inserts import insert_rows
from gapwatch.sinks.store.store import Store

#: Rows that are kept of each source, and rows above that at which the oldest are deleted.
KEPT_ROWS, _MORE_ROWS = 10_000, 2_000
_COLUMNS = ("source", "trace_id", "span_id", "service", "delay", "gap", "recorded_at")


@dataclass(frozen=True)
class LateSpanRow:
    """Span that came after its trace was closed.

    Attributes:
        trace_id: 32 hexadecimal digits.
        span_id: 16 hexadecimal digits.
        service: Its service.
        delay: Seconds since the trace was closed.
        gap: Seconds since the last span of the trace that came in time.
    """

    trace_id: str
    span_id: str
    service: str
    delay: float
    gap: float


def insert_late_spans(store: Store, source: str, late: Sequence[LateSpanRow]) -> None:
    """Insert late spans, on the writer thread; the oldest are deleted where there are too many.

    Args:
        store: Open for writing.
        source: Name of the source.
        late: Late spans since the last call.

    Raises:
        JobError: The store could not be written.
    """
    if not late:
        return
    now = datetime.now(UTC).replace(tzinfo=None)
    rows = [(source, one.trace_id, one.span_id, one.service, one.delay, one.gap, now) for one in late]

    def insert(con: duckdb.DuckDBPyConnection) -> None:
        insert_rows(con, "late_spans", _COLUMNS, rows)
        (kept,) = con.execute("SELECT count(*) FROM late_spans WHERE source = ?", [source]).fetchone() or (0,)
        if kept > KEPT_ROWS + _MORE_ROWS:
            con.execute(
                """DELETE FROM late_spans WHERE source = $source AND rowid NOT IN (SELECT rowid FROM late_spans
                    WHERE source = $source ORDER BY recorded_at DESC, rowid DESC LIMIT $n)""",
                {"source": source, "n": KEPT_ROWS},
            )

    store.change("storing late spans", insert)
