"""Questions to the store about watched series: how many are in which phase, which are left out, what each shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gapwatch.sinks.reading.query_answer import ask
from gapwatch.sinks.store.store_reader import StoreReader


@dataclass(frozen=True)
class PhaseCount:
    """The watched series in one phase.

    Attributes:
        phase: Its name.
        n: How many.
        expected: Bound on the false alarms of all of them so far; None where none is known.
    """

    phase: str
    n: int
    expected: float | None


@dataclass(frozen=True)
class LeftOut:
    """What is not watched of a metric, although it comes."""

    component: str | None
    metric: str
    kind: str


@dataclass(frozen=True)
class SeenMetric:
    """A metric of which there are ticks.

    Attributes:
        pipeline: Whose metric it is.
        component: Id of the component; None for the trace.
        metric: Its name.
        is_decided: A trace was good or bad by it.
    """

    pipeline: str
    component: str | None
    metric: str
    is_decided: bool


@dataclass(frozen=True)
class WatchedStanding:
    """How one watched series stands.

    Attributes:
        component: Id of the component; None for the trace.
        metric: Its name.
        kind: What of it is watched.
        phase: How it stands.
        direction: up, down or unverified: which way is bad.
        rate: Of the baseline; None where it has none.
        units: Of the baseline.
        smallest_ratio: Smallest growth that a day of units would show; None where nothing would show.
        is_blind: That is more than the portfolio allows.
        evidence_log10: log10 of the evidence towards bad; None without any.
        limit_log10: log10 of the smallest evidence that raises an alert.
    """

    component: str | None
    metric: str
    kind: str
    phase: str
    direction: str
    rate: float | None
    units: int
    smallest_ratio: float | None
    is_blind: bool
    evidence_log10: float | None
    limit_log10: float


def phase_counts(con: StoreReader, lane: str | None) -> list[PhaseCount]:
    """Return how many series are in each phase, by its name; `lane` None for all lanes.

    Raises:
        JobError: The store cannot be read.
    """
    where, values = _of_lane("WHERE", lane)
    sql = f"""SELECT phase, count(*) AS n, sum(expected_false_alarms) AS expected FROM watched {where}
        GROUP BY ALL ORDER BY 1"""
    return [PhaseCount(**row) for row in ask(con, sql, values).objects()]


def left_out(con: StoreReader, lane: str | None) -> list[LeftOut]:
    """Return what comes and is not watched; `lane` None for all lanes.

    Raises:
        JobError: The store cannot be read.
    """
    where, values = _of_lane("AND", lane)
    sql = f"SELECT DISTINCT component, metric, kind FROM watched WHERE phase = 'unwatched' {where} ORDER BY ALL"
    return [LeftOut(**row) for row in ask(con, sql, values).objects()]


def seen_metrics(con: StoreReader, lane: str | None) -> list[SeenMetric]:
    """Return the metrics of which there are ticks; `lane` None for all lanes.

    Raises:
        JobError: The store cannot be read.
    """
    where, values = _of_lane("AND", lane)
    sql = f"""SELECT pipeline, component, metric, bool_or(level = 'unit' AND outcome IN ('good', 'bad')) AS is_decided
        FROM ticks WHERE facet = 'all' {where} GROUP BY ALL"""
    return [SeenMetric(**row) for row in ask(con, sql, values).objects()]


def watched_standings(con: StoreReader, lane: str | None) -> list[WatchedStanding]:
    """Return how each watched series stands, in the order in which they came; `lane` None for all lanes.

    Raises:
        JobError: The store cannot be read.
    """
    where, values = _of_lane("WHERE", lane)
    sql = f"""SELECT component, metric, kind, phase, direction, rate, units, smallest_ratio, is_blind, evidence_log10,
            least(coalesce(ticket_log10, 999), coalesce(page_log10, 999)) AS limit_log10
        FROM watched {where} ORDER BY pipeline, environment, rowid"""
    return [WatchedStanding(**row) for row in ask(con, sql, values).objects()]


def _of_lane(keyword: str, lane: str | None) -> tuple[str, list[Any]]:
    return (f"{keyword} lane = ?", [lane]) if lane is not None else ("", [])
