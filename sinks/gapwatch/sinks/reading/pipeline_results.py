"""Queries of the results of one pipeline over all lanes and times: rates, values, states, worst traces."""

from __future__ import annotations

from dataclasses import dataclass

import duckdb

from gapwatch.sinks.catalog.rate_interval import rates_sql


@dataclass(frozen=True)
class MetricRate:
    """The failure rate of a metric.

    Attributes:
        units: Number of good and bad traces.
        unknown: Number of traces that the metric could not decide.
        errors: Number of traces without a verdict because a judge or scorer failed.
        unknown_share: Weighted share of undecided traces; None without traces.
        rate: Weighted share of bad traces among `units`, 0 to 1; None without units, as are the limits.
        lower: Lower limit of its 95 % confidence interval.
        upper: Upper limit of its 95 % confidence interval.
    """

    units: int
    unknown: int
    errors: int
    unknown_share: float | None
    rate: float | None
    lower: float | None
    upper: float | None

    @property
    def undecided(self) -> int:
        """Number of traces without a decision: unknown or error."""
        return self.unknown + self.errors


@dataclass(frozen=True)
class FailingTrace:
    """A trace with failing metrics.

    Attributes:
        trace_id: Id of the trace.
        release: Release of the pipeline that made it.
        failing: Number of failing rows.
        metrics: Names of the failing metrics, sorted.
    """

    trace_id: str
    release: str | None
    failing: int
    metrics: list[str]


def metric_rates(con: duckdb.DuckDBPyConnection, pipeline: str) -> dict[str, MetricRate]:
    """Return the failure rates of a pipeline by metric."""
    sql = f"""SELECT metric, units, unknown, errors, unknown_share, rate, "lower", "upper"
        FROM ({rates_sql("metric", "pipeline = $p")})"""
    return {metric: MetricRate(*row) for metric, *row in con.execute(sql, {"p": pipeline}).fetchall()}


def value_cells(con: duckdb.DuckDBPyConnection, pipeline: str, metric: str) -> list[tuple[int, int]]:
    """Return the histogram of the numbers that a metric measured, one for each trace: (cell, count), ascending."""
    return con.execute(
        """SELECT cell.key AS cell, sum(cell.value)::BIGINT AS n
        FROM (SELECT unnest(map_entries(histogram)) AS cell FROM ticks
            WHERE pipeline = ? AND metric = ? AND level = 'unit' AND facet = 'all')
        GROUP BY ALL ORDER BY 1""",
        [pipeline, metric],
    ).fetchall()


def judged_spans(con: duckdb.DuckDBPyConnection, pipeline: str) -> dict[str, dict[str, int]]:
    """Return the number of spans by metric and state of the ledger."""
    states: dict[str, dict[str, int]] = {}
    for metric, state, n in con.execute(
        """SELECT metric, state, sum(n)::BIGINT FROM ledger WHERE pipeline = ? AND metric IS NOT NULL
        GROUP BY ALL""",
        [pipeline],
    ).fetchall():
        states.setdefault(metric, {})[state] = n
    return states


def record_states(con: duckdb.DuckDBPyConnection, pipeline: str) -> dict[str, int]:
    """Return the number of records by state, records without a pipeline included."""
    return dict(
        con.execute(
            """SELECT state, sum(n)::BIGINT FROM ledger
            WHERE metric IS NULL AND (pipeline = ? OR pipeline IS NULL) GROUP BY ALL""",
            [pipeline],
        ).fetchall()
    )


def seen_components(con: duckdb.DuckDBPyConnection, pipeline: str) -> set[str | None]:
    """Return the components with a span to which a metric applied; None stands for the whole trace."""
    rows = con.execute("SELECT DISTINCT component FROM ticks WHERE pipeline = ?", [pipeline]).fetchall()
    return {component for (component,) in rows}


def worst_traces(con: duckdb.DuckDBPyConnection, pipeline: str, limit: int) -> list[FailingTrace]:
    """Return the traces with the most failing metrics, the worst first.

    Args:
        con: Connection to a store.
        pipeline: Pipeline of the traces.
        limit: Largest number of traces.
    """
    rows = con.execute(
        """SELECT trace_id, any_value("release") AS "release", count(*) AS failing,
            list(DISTINCT metric ORDER BY metric) AS metrics
        FROM gaps WHERE pipeline = ? AND outcome = 'fail' GROUP BY trace_id
        ORDER BY len(metrics) DESC, failing DESC, trace_id LIMIT ?""",
        [pipeline, limit],
    ).fetchall()
    return [FailingTrace(*row) for row in rows]
