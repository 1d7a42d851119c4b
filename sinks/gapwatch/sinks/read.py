"""Reads a store into Arrow tables, for pandas, polars and notebooks, also while a process writes it.

from gapwatch.sinks.read import read

rates = read("s.duckdb").rates(by="model")      # a pyarrow.Table
rates.to_pandas()                               # or polars.from_arrow(rates)
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from gapwatch.scorers.errors import StoreError, UsageError
from gapwatch.scorers.loading.problems import nearest
from gapwatch.scorers.printable import shown
from gapwatch.sinks.api.store_address import StorePlace, read_address
from gapwatch.sinks.catalog.rate_breakdown import BREAKDOWNS, PERIODS, breakdown_sql
from gapwatch.sinks.commands.options import reading
from gapwatch.sinks.reading.history import read_only
from gapwatch.sinks.reading.known_names import unknown_name

_BATCH_ROWS = 50_000


class StoreTables:
    """Tables of one store. Each call opens the store and closes it again, so that it sees the latest commit.

    Args:
        place: File of the store, or address of the process that writes it.
    """

    def __init__(self, place: StorePlace) -> None:
        self._place = place

    def sql(self, query: str) -> pa.Table:
        """Return the result of one SELECT.

        Raises:
            UsageError: The query is refused, or fails.
            StoreError: The file is missing or not a store, or another process holds it and does not answer.
        """
        with reading(self._place) as con, read_only(con, query):
            reader = con.sql(query).to_arrow_reader(_BATCH_ROWS)
            return _plain(pa.Table.from_batches(list(reader), reader.schema))

    def rates(self, by: str | None = None, per: str = "day", metric: str | None = None) -> pa.Table:
        """Return weighted failure rates with 95 % confidence intervals.

        Args:
            by: release, model, tier or component; None for all traces together.
            per: hour, day, week or all.
            metric: Only this metric; None for all.

        Raises:
            UsageError: `by` or `per` is none of these, or the store has no such metric.
        """
        for name, value, known in (("by", by, (None, *BREAKDOWNS)), ("per", per, tuple(PERIODS))):
            if value not in known:
                said = ", ".join(str(one) for one in known)
                raise UsageError(f"{name} is {value!r}; write one of {said}")
        self._check_metric(metric)
        where = "true" if metric is None else f"metric = {_text(metric)}"
        return self.sql(breakdown_sql(by, per, where))

    def failing(self, metric: str | None = None, limit: int = 1_000) -> pa.Table:
        """Return the newest traces that fail a metric, with their text as JSON; the view `failing_traces`.

        Raises:
            UsageError: The store has no such metric.
        """
        self._check_metric(metric)
        where = "" if metric is None else f"WHERE metric = {_text(metric)}"
        return self.sql(f"SELECT * FROM failing_traces {where} ORDER BY event_at DESC NULLS LAST LIMIT {int(limit)}")

    def costs(self) -> pa.Table:
        """Return US dollars by day; the view `costs`."""
        return self.sql('SELECT * FROM costs ORDER BY "day", spent_by, metric, judge')

    def alerts(self) -> pa.Table:
        """Return the alerts that are not over; the view `alerts_open`."""
        return self.sql("SELECT * FROM alerts_open ORDER BY found_at DESC, alert_id")

    def _check_metric(self, metric: str | None) -> None:
        if metric is None:
            return
        with reading(self._place) as con:
            why = unknown_name(con, "metric", metric)
        if why:
            raise UsageError(f"metric {shown(metric, 100)}: {why}")


def read(store: str | Path) -> StoreTables:
    """Return the tables of a store.

    Args:
        store: File of the store, or address of the process that writes it, such as `http://127.0.0.1:9464`.

    Raises:
        StoreError: There is no such file.
    """
    if isinstance(store, str) and "://" in store:
        return StoreTables(read_address(store))
    path = Path(store)
    if not path.is_file():
        near = nearest(path.name, sorted(file.name for file in path.parent.glob("*.duckdb")))
        hint = f"did you mean {path.with_name(near)}?" if near else "give the file that `run` or `replay` wrote"
        raise StoreError(f"there is no store {path}; {hint}")
    return StoreTables(path)


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _plain(table: pa.Table) -> pa.Table:
    """Return a table without DuckDB's own types, such as JSON, which becomes text."""
    for i, field in enumerate(table.schema):
        if isinstance(field.type, pa.BaseExtensionType):
            column = pa.chunked_array([chunk.storage for chunk in table.column(i).chunks], field.type.storage_type)
            table = table.set_column(i, field.name, column)
    return table
