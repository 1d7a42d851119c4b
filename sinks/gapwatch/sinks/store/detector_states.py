"""Writes and reads the detectors' state of a lane, its monitored series, and the partitions that commits waited for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import NamedTuple

import duckdb

from gapwatch.sinks.store.row_inserts import insert_row, insert_rows
from gapwatch.sinks.store.series_columns import SERIES_COLUMNS, SeriesNames, series_values
from gapwatch.sinks.store.transaction import Step, StoreTransaction


class WatchedRow(NamedTuple):
    """The monitoring state of one quantity of a series, a row of `watched`.

    Attributes:
        series: Names of the series.
        kind: Monitored quantity: rate, sessions, unknown, numbers or labels.
        phase: unwatched (not monitored), learning, blind, calm, suspect, noticed, ticket or page.
        direction: Direction that is bad: up, down or unverified.
        units: Number of units of the baseline.
        rate: Failure rate of the baseline.
        evidence_log10: log10 of the evidence for a change in the bad direction.
        ticket_log10: log10 of the evidence that opens a ticket.
        page_log10: log10 of the evidence that pages.
        smallest_ratio: Minimum detectable change in one day of units, as a ratio after / before.
        month_ratio: The same within 30 days of units.
        is_blind: Whether the minimum of one day is larger than the portfolio allows.
        last_unit_at: Start of the last tick with a unit, naive UTC.
        expected_false_alarms: Upper bound on the expected number of false alarms so far.
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
    month_ratio: float | None
    is_blind: bool
    last_unit_at: datetime | None
    expected_false_alarms: float


@dataclass(frozen=True, kw_only=True)
class BoundState:
    """The state of one bound in its window.

    Attributes:
        quantity: Bounded quantity, such as p95, or share of a label.
        operator: Comparison that must hold: <, <=, > or >=.
        bound: The bound, in `unit`.
        unit: Unit of the quantity; share for shares.
        window_seconds: Length of the window.
        min_units: Traces in the window below which the bound is not checked.
        state: broken, held, undecided or too_few.
        value: The quantity in the window; None where it is not known.
        lower: Lower confidence limit; None where there is none.
        upper: Upper confidence limit; None where there is none.
        units: Number of decided traces in the window.
        last_unit_at: Start of the last tick with a unit, naive UTC.
    """

    quantity: str
    operator: str
    bound: float
    unit: str
    window_seconds: int
    min_units: int
    state: str
    value: float | None
    lower: float | None
    upper: float | None
    units: int
    last_unit_at: datetime


@dataclass(frozen=True, kw_only=True)
class WatchedBoundRow(BoundState):
    """The state of one bound of a series, a row of `watched_bounds`."""

    series: SeriesNames


def last_detectors(con: duckdb.DuckDBPyConnection, lane: str) -> tuple[bytes, int] | None:
    """Return the last stored state of a lane's detectors and the number of its commit; None if there is none."""
    rows = con.execute(
        'SELECT "data", seq FROM internal.detector_snapshots WHERE lane = ? ORDER BY seq DESC, kept_at DESC LIMIT 1',
        [lane],
    ).fetchall()
    return (bytes(rows[0][0]), int(rows[0][1])) if rows else None


def lanes_with_detectors(con: duckdb.DuckDBPyConnection) -> list[str]:
    """Return the lanes that have a stored state of detectors, sorted."""
    return [
        lane
        for (lane,) in con.execute("SELECT DISTINCT lane FROM internal.detector_snapshots ORDER BY lane").fetchall()
    ]


def write_detectors(
    con: duckdb.DuckDBPyConnection, seq: int, lane: str, folded_until: datetime, state: bytes, now: datetime
) -> None:
    """Replace the stored state of a lane's detectors.

    Args:
        con: Connection with an open transaction.
        seq: Number of the commit.
        lane: Lane of the detectors.
        folded_until: End of the last tick that the detectors have counted, naive UTC.
        state: Serialized state.
        now: Current time, naive UTC.
    """
    con.execute("DELETE FROM internal.detector_snapshots WHERE lane = ?", [lane])
    row = {"seq": seq, "lane": lane, "folded_until": folded_until, "data": state, "kept_at": now}
    insert_row(con, "detector_snapshots", row)


def write_watched_rows(con: duckdb.DuckDBPyConnection, lane: str, seq: int, rows: Sequence[WatchedRow]) -> None:
    """Replace the stored monitored series of a lane, in a transaction."""
    con.execute("DELETE FROM watched WHERE lane = ?", [lane])
    columns = ("seq", *SERIES_COLUMNS, *WatchedRow._fields[1:])
    insert_rows(con, "watched", columns, [(seq, *series_values(lane, row.series), *row[1:]) for row in rows])


def write_watched_bounds(con: duckdb.DuckDBPyConnection, lane: str, seq: int, rows: Sequence[WatchedBoundRow]) -> None:
    """Replace the stored bounds of a lane, in a transaction."""
    con.execute("DELETE FROM watched_bounds WHERE lane = ?", [lane])
    states = [field.name for field in fields(BoundState)]
    values = [(seq, *series_values(lane, row.series), *(getattr(row, name) for name in states)) for row in rows]
    insert_rows(con, "watched_bounds", ("seq", *SERIES_COLUMNS, *states), values)


def waiting_step(lane: str, partitions: Sequence[str]) -> Step:
    """Return the step that records which partitions held back the event time of a lane at a commit."""
    columns = ("seq", "lane", "partition")

    def record(transaction: StoreTransaction) -> None:
        rows = [(transaction.seq, lane, partition) for partition in partitions]
        insert_rows(transaction.con, "waited_for", columns, rows)

    return record
