"""Queries of monitored series: counts by phase, series that are not monitored, and the state of each series."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from gapwatch.sinks.reading.query_answer import ask
from gapwatch.sinks.store.detector_states import BoundState
from gapwatch.sinks.store.store_reader import StoreReader


@dataclass(frozen=True)
class PhaseCount:
    """Number of series in one phase.

    Attributes:
        phase: Name of the phase.
        n: Number of series.
        expected: Upper bound on the expected false alarms of all of them so far; None if not known.
    """

    phase: str
    n: int
    expected: float | None


@dataclass(frozen=True)
class LeftOut:
    """A quantity of a metric that has data but is not monitored."""

    component: str | None
    metric: str
    kind: str


@dataclass(frozen=True)
class SeenMetric:
    """A metric with ticks.

    Attributes:
        pipeline: Pipeline of the metric.
        component: Id of the component; None for the whole trace.
        metric: Name of the metric.
        is_decided: Whether it decided any trace as good or bad.
    """

    pipeline: str
    component: str | None
    metric: str
    is_decided: bool


@dataclass(frozen=True)
class WatchedStanding:
    """State of one monitored series.

    Attributes:
        pipeline: Pipeline of the series.
        environment: Environment of the series.
        component: Id of the component; None for the whole trace.
        metric: Name of the metric.
        kind: Monitored quantity: rate, sessions, unknown, numbers or labels.
        phase: unwatched (not monitored), learning, blind, calm, suspect, noticed, ticket or page.
        direction: Direction that is bad: up, down or unverified.
        rate: Failure rate of the baseline; None without one.
        units: Number of units of the baseline.
        smallest_ratio: Minimum detectable change in one day of units, after / before; None if none is detectable.
        month_ratio: The same within 30 days of units; None if none is detectable.
        is_blind: Whether the minimum of one day is larger than the portfolio allows.
        evidence_log10: log10 of the evidence for a change in the bad direction; None without evidence.
        limit_log10: log10 of the smallest evidence that opens an alert.
    """

    pipeline: str
    environment: str
    component: str | None
    metric: str
    kind: str
    phase: str
    direction: str
    rate: float | None
    units: int
    smallest_ratio: float | None
    month_ratio: float | None
    is_blind: bool
    evidence_log10: float | None
    limit_log10: float


@dataclass(frozen=True)
class OpenSessions:
    """Sessions of one series that have not ended, so that no detector has counted them.

    Attributes:
        pipeline: Pipeline of the series.
        environment: Environment of the series.
        component: Id of the component; None for the whole trace.
        metric: Name of the metric.
        sessions: Number of open sessions.
        failed: Number of those with a bad trace.
        units: Number of their decided traces.
        share: Mean over the open sessions of their share of bad traces so far: what they would count as if they ended.
        baseline: Mean of the same over the sessions of the baseline; None without one.
    """

    pipeline: str
    environment: str
    component: str | None
    metric: str
    sessions: int
    failed: int
    units: int
    share: float
    baseline: float | None


@dataclass(frozen=True, kw_only=True)
class BoundRow(BoundState):
    """State of one bound in its window, with the names of its series; component None for the whole trace."""

    pipeline: str
    environment: str
    component: str | None
    metric: str


@dataclass(frozen=True)
class SessionOpenings:
    """First minutes of the sessions of one series.

    Attributes:
        pipeline: Pipeline of the series.
        environment: Environment of the series.
        component: Id of the component; None for the whole trace.
        metric: Name of the metric.
        recent: Number of sessions that began of late.
        recent_bad: Sum over them of their share of bad traces in their first minutes.
        earlier: Number of sessions of the day before them.
        earlier_bad: The same sum over these.
    """

    pipeline: str
    environment: str
    component: str | None
    metric: str
    recent: int
    recent_bad: float
    earlier: int
    earlier_bad: float


def phase_counts(con: StoreReader, lane: str | None) -> list[PhaseCount]:
    """Return the number of series in each phase, ordered by name; `lane` None for all lanes.

    Raises:
        JobError: The store cannot be read.
    """
    where, values = _of_lane("WHERE", lane)
    sql = f"""SELECT phase, count(*) AS n, sum(expected_false_alarms) AS expected FROM watched {where}
        GROUP BY ALL ORDER BY 1"""
    return [PhaseCount(**row) for row in ask(con, sql, values).objects()]


def left_out(con: StoreReader, lane: str | None) -> list[LeftOut]:
    """Return the quantities that have data but are not monitored; `lane` None for all lanes.

    Raises:
        JobError: The store cannot be read.
    """
    where, values = _of_lane("AND", lane)
    sql = f"SELECT DISTINCT component, metric, kind FROM watched WHERE phase = 'unwatched' {where} ORDER BY ALL"
    return [LeftOut(**row) for row in ask(con, sql, values).objects()]


def seen_metrics(con: StoreReader, lane: str | None) -> list[SeenMetric]:
    """Return the metrics with ticks; `lane` None for all lanes.

    Raises:
        JobError: The store cannot be read.
    """
    where, values = _of_lane("AND", lane)
    sql = f"""SELECT pipeline, component, metric, bool_or(level = 'unit' AND outcome IN ('good', 'bad')) AS is_decided
        FROM ticks WHERE facet = 'all' {where} GROUP BY ALL"""
    return [SeenMetric(**row) for row in ask(con, sql, values).objects()]


def foreign_records(con: StoreReader, lane: str | None) -> tuple[int, list[str]]:
    """Return how many records are of pipelines without a portfolio, and the portfolios' pipelines.

    The number is 0 where a single record is of a portfolio's pipeline. `lane` None for all lanes.

    Raises:
        JobError: The store cannot be read.
    """
    where, values = _of_lane("AND", lane)
    sql = f"""SELECT coalesce(sum(n) FILTER (state = 'foreign'), 0)::BIGINT AS foreign_n,
            coalesce(sum(n) FILTER (state IN ('read', 'duplicate')), 0)::BIGINT AS own_n
        FROM ledger WHERE metric IS NULL {where}"""
    counted = ask(con, sql, values).objects()[0]
    names = ask(con, "SELECT DISTINCT pipeline FROM portfolios ORDER BY 1").objects()
    return 0 if counted["own_n"] else counted["foreign_n"], [row["pipeline"] for row in names]


def watched_standings(con: StoreReader, lane: str | None) -> list[WatchedStanding]:
    """Return the state of each monitored series, in the order in which they came; `lane` None for all lanes.

    Raises:
        JobError: The store cannot be read.
    """
    where, values = _of_lane("WHERE", lane)
    sql = f"""SELECT pipeline, environment, component, metric, kind, phase, direction, rate, units, smallest_ratio,
            month_ratio, is_blind, evidence_log10,
            least(coalesce(ticket_log10, 999), coalesce(page_log10, 999)) AS limit_log10
        FROM watched {where} ORDER BY pipeline, environment, rowid"""
    return [WatchedStanding(**row) for row in ask(con, sql, values).objects()]


def watched_bounds(con: StoreReader, lane: str | None) -> list[BoundRow]:
    """Return the state of each bound, in the order in which their series came; `lane` None for all lanes.

    Raises:
        JobError: The store cannot be read.
    """
    where, values = _of_lane("WHERE", lane)
    names = ", ".join(f'"{field.name}"' for field in fields(BoundRow))
    sql = f"SELECT {names} FROM watched_bounds {where} ORDER BY pipeline, environment, rowid"
    return [BoundRow(**row) for row in ask(con, sql, values).objects()]


def open_sessions(con: StoreReader, lane: str | None, *, idle_seconds: int, most_units: int) -> list[OpenSessions]:
    """Return the open sessions of each series that is monitored by sessions; `lane` None for all lanes.

    Args:
        con: Reader of the store.
        lane: Lane, or None.
        idle_seconds: Event time without a trace after which a session ends.
        most_units: Traces after which it ends as well; longer ones are left out.

    Raises:
        JobError: The store cannot be read.
    """
    where, values = _of_lane("AND", lane)
    # A day back is enough: a session with a trace in ten minutes reaches 50 traces in less. One that comes back after
    # its end is another session.
    sql = f"""WITH monitored AS (SELECT lane, pipeline, environment, component, metric, rate
            FROM watched WHERE kind = 'sessions' AND phase <> 'unwatched' {where}),
        latest AS (SELECT lane, pipeline, max(bucket) AS bucket FROM session_ticks WHERE true {where} GROUP BY ALL),
        traces AS (SELECT s.lane, s.pipeline, s.environment, s.component, s.metric, s.session_id, s.bucket,
                sum(s.units)::BIGINT AS units, sum(s.bad)::BIGINT AS bad, any_value(l.bucket) AS latest
            FROM session_ticks s JOIN latest l ON l.lane = s.lane AND l.pipeline = s.pipeline
            WHERE s.bucket > l.bucket - to_hours(24) GROUP BY ALL),
        later AS (SELECT *, lead(bucket, 1, latest) OVER (PARTITION BY lane, pipeline, environment, component, metric,
                session_id ORDER BY bucket) - bucket >= to_seconds(?) AS ends FROM traces),
        parted AS (SELECT *, coalesce(sum(ends::INT) OVER (PARTITION BY lane, pipeline, environment, component, metric,
                session_id ORDER BY bucket ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING), 0) AS part FROM later),
        one AS (SELECT lane, pipeline, environment, component, metric, sum(units)::BIGINT AS units,
                sum(bad)::BIGINT AS bad
            FROM parted WHERE part = 0 GROUP BY lane, pipeline, environment, component, metric, session_id)
        SELECT m.pipeline, m.environment, m.component, m.metric, count(*) AS sessions,
            count(*) FILTER (bad > 0) AS failed, sum(units)::BIGINT AS units, avg(bad / units) AS share,
            any_value(m.rate) AS baseline
        FROM monitored m JOIN one ON one.lane = m.lane AND one.pipeline = m.pipeline
            AND one.environment = m.environment AND one.component IS NOT DISTINCT FROM m.component
            AND one.metric = m.metric
        WHERE units > 0 AND units < ?
        GROUP BY m.pipeline, m.environment, m.component, m.metric ORDER BY ALL"""
    rows = ask(con, sql, [*values, *values, idle_seconds, most_units]).objects()
    return [OpenSessions(**row) for row in rows]


def session_openings(
    con: StoreReader, lane: str | None, *, opening_seconds: int, recent_seconds: int, idle_seconds: int
) -> list[SessionOpenings]:
    """Return what sessions show in their first minutes, of late and before; `lane` None for all lanes.

    Args:
        con: Reader of the store.
        lane: Lane, or None.
        opening_seconds: First part of each session that counts, event time.
        recent_seconds: Sessions that began within so much event time before the newest one are recent.
        idle_seconds: Event time without a trace after which a session ends; what follows is another one.

    Raises:
        JobError: The store cannot be read.

    Source:
        The share of bad traces of sessions that are open cannot be compared with that of sessions that have ended: a
        session that fails early has a large share until its good traces come, so open ones look worse (or better) than
        the same sessions will when they end. Of one age they can: each session that began `opening_seconds` ago or
        more counts once, with the traces of that time alone, whether it has ended or not and whatever came later. No
        outcome decides whether or when a session counts, so in a steady stream the shares of both groups have one mean.
    """
    where, values = _of_lane("AND", lane)
    series = "lane, pipeline, environment, component, metric"
    opening, recent, idle = (f"to_seconds({int(n)})" for n in (opening_seconds, recent_seconds, idle_seconds))
    sql = f"""WITH monitored AS (SELECT {series} FROM watched
            WHERE kind = 'sessions' AND phase <> 'unwatched' {where}),
        latest AS (SELECT lane, pipeline, max(bucket) AS latest FROM session_ticks WHERE true {where} GROUP BY ALL),
        traces AS (SELECT {series}, session_id, bucket, latest, sum(units)::BIGINT AS units, sum(bad)::BIGINT AS bad
            FROM session_ticks JOIN latest USING (lane, pipeline)
            WHERE bucket > latest - to_hours(24) {where} GROUP BY ALL),
        later AS (SELECT *, bucket - lag(bucket) OVER one >= {idle} AS begins FROM traces
            WINDOW one AS (PARTITION BY {series}, session_id ORDER BY bucket)),
        parted AS (SELECT *, sum(coalesce(begins, false)::INT) OVER (PARTITION BY {series}, session_id
            ORDER BY bucket) AS part FROM later),
        begun AS (SELECT *, min(bucket) OVER (PARTITION BY {series}, session_id, part) AS first FROM parted),
        one AS (SELECT {series}, first, any_value(latest) AS latest, sum(bad) / sum(units) AS share FROM begun
            WHERE bucket < first + {opening} AND first + {opening} <= latest
            GROUP BY {series}, session_id, part, first HAVING sum(units) > 0)
        SELECT m.pipeline, m.environment, m.component, m.metric,
            count(*) FILTER (first > latest - {recent}) AS recent,
            coalesce(sum(share) FILTER (first > latest - {recent}), 0)::DOUBLE AS recent_bad,
            count(*) FILTER (first <= latest - {recent}) AS earlier,
            coalesce(sum(share) FILTER (first <= latest - {recent}), 0)::DOUBLE AS earlier_bad
        FROM monitored m JOIN one ON one.lane = m.lane AND one.pipeline = m.pipeline
            AND one.environment = m.environment AND one.component IS NOT DISTINCT FROM m.component
            AND one.metric = m.metric
        GROUP BY m.pipeline, m.environment, m.component, m.metric HAVING recent > 0 ORDER BY ALL"""
    rows = ask(con, sql, [*values, *values, *values]).objects()
    return [SessionOpenings(**row) for row in rows]


def _of_lane(keyword: str, lane: str | None) -> tuple[str, list[Any]]:
    return (f"{keyword} lane = ?", [lane]) if lane is not None else ("", [])
