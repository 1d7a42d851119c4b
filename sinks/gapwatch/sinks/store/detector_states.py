"""Writes and reads the detectors' state of a lane, its watched series, and what each commit waited for."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

import duckdb

from gapwatch.sinks.store.series_columns import SeriesNames, series_values
from gapwatch.sinks.store.transaction import Step, StoreTransaction


class WatchedRow(NamedTuple):
    """What is watched of one series, a row of `watched`.

    Attributes:
        series: Its names.
        kind: What of it is watched.
        phase: How it stands.
        direction: up, down or unverified: which way is bad.
        units: Of the baseline.
        rate: Of the baseline.
        evidence_log10: log10 of the evidence towards bad.
        ticket_log10: log10 of what a ticket needs.
        page_log10: log10 of what a page needs.
        smallest_ratio: Smallest growth that a day of units would show.
        is_blind: That is more than the portfolio allows.
        last_unit_at: Begin of the last tick with a unit, naive UTC.
        expected_false_alarms: Bound on the false alarms to expect so far.
    """

    series: SeriesNames
    kind: str
    phase: str
    direction: str
    units: int
    rate: float | None
    evidence_log10: float | None
    ticket_log10: float | None
    page_log10: float | None
    smallest_ratio: float | None
    is_blind: bool
    last_unit_at: datetime | None
    expected_false_alarms: float


def last_detectors(con: duckdb.DuckDBPyConnection, lane: str) -> tuple[bytes, int] | None:
    """Return the last state of a lane's detectors and the number of its commit; None where none was written."""
    rows = con.execute(
        'SELECT "data", seq FROM detector_snapshots WHERE lane = ? ORDER BY seq DESC, kept_at DESC LIMIT 1', [lane]
    ).fetchall()
    return (bytes(rows[0][0]), int(rows[0][1])) if rows else None


def lanes_with_detectors(con: duckdb.DuckDBPyConnection) -> list[str]:
    """Return the lanes whose detectors have a state in the store, sorted."""
    return [lane for (lane,) in con.execute("SELECT DISTINCT lane FROM detector_snapshots ORDER BY lane").fetchall()]


def write_detectors(
    con: duckdb.DuckDBPyConnection, seq: int, lane: str, folded_until: datetime, state: bytes, now: datetime
) -> None:
    """Write the state of a lane's detectors in the place of the last one.

    Args:
        con: In a transaction.
        seq: Number of the commit.
        lane: Of the detectors.
        folded_until: End of the last tick that they have taken in, naive UTC.
        state: As bytes.
        now: Naive UTC.
    """
    con.execute("DELETE FROM detector_snapshots WHERE lane = ?", [lane])
    con.execute("INSERT INTO detector_snapshots VALUES (?, ?, ?, ?, ?)", [seq, lane, folded_until, state, now])


def write_watched_rows(con: duckdb.DuckDBPyConnection, lane: str, seq: int, rows: Sequence[WatchedRow]) -> None:
    """Write the watched series of a lane in the place of the last ones, in a transaction."""
    con.execute("DELETE FROM watched WHERE lane = ?", [lane])
    values = [[seq, *series_values(lane, row.series), *row[1:]] for row in rows]
    if values:
        # One statement: a row each costs a millisecond each.
        unnested = ", ".join("unnest(?)" for _ in values[0])
        con.execute(f"INSERT INTO watched SELECT {unnested}", [list(column) for column in zip(*values, strict=True)])


def waiting_step(lane: str, partitions: Sequence[str]) -> Step:
    """Return the step that records which partitions held back the event time of a lane at a commit."""

    def record(transaction: StoreTransaction) -> None:
        transaction.con.execute(
            "INSERT INTO waited_for SELECT ?, ?, unnest(?)", [transaction.seq, lane, list(partitions)]
        )

    return record
