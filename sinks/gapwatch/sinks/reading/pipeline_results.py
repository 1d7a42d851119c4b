"""Results of one pipeline in a store, over all lanes and times: rates, values, states, the worst traces."""

from __future__ import annotations

from dataclasses import dataclass

import duckdb

from gapwatch.sinks.store.rate_interval import rates_sql


@dataclass(frozen=True)
class MetricRate:
    """The failure rate of a metric.

    Attributes:
        units: Traces that are good or bad.
        unknown: Traces that could not be decided.
        unknown_share: Their weighted share; None where there is no trace.
        rate: Share of bad ones among `units`, weighted; None where there are none, as for the limits.
        lower: Lower limit of its 95 % interval.
        upper: Upper limit.
    """

    units: int
    unknown: int
    unknown_share: float | None
    rate: float | None
    lower: float | None
    upper: float | None


@dataclass(frozen=True)
class FailingTrace:
    """A trace on which metrics fail.

    Attributes:
        trace_id: Its id.
        release: Of the pipeline that made it.
        failing: Rows that fail.
        metrics: Names of the metrics that fail, in order.
    """

    trace_id: str
    release: str | None
    failing: int
    metrics: list[str]


def metric_rates(con: duckdb.DuckDBPyConnection, pipeline: str) -> dict[str, MetricRate]:
    """Return the failure rates of a pipeline by metric."""
    sql = f"""SELECT metric, units, unknown, unknown_share, rate, "lower", "upper"
        FROM ({rates_sql("metric", "pipeline = $p")})"""
    return {metric: MetricRate(*row) for metric, *row in con.execute(sql, {"p": pipeline}).fetchall()}


def value_cells(con: duckdb.DuckDBPyConnection, pipeline: str, metric: str) -> list[tuple[int, int]]:
    """Return the numbers that a metric measured, one a trace: cells of their histogram with counts, ascending."""
    return con.execute(
        """SELECT cell.key AS cell, sum(cell.value)::BIGINT AS n
        FROM (SELECT unnest(map_entries(histogram)) AS cell FROM ticks
            WHERE pipeline = ? AND metric = ? AND level = 'unit' AND facet = 'all')
        GROUP BY ALL ORDER BY 1""",
        [pipeline, metric],
    ).fetchall()


def judged_spans(con: duckdb.DuckDBPyConnection, pipeline: str) -> dict[str, dict[str, int]]:
    """Return by metric how many spans are in which state of the ledger."""
    states: dict[str, dict[str, int]] = {}
    for metric, state, n in con.execute(
        """SELECT metric, state, sum(n)::BIGINT FROM ledger WHERE pipeline = ? AND metric IS NOT NULL
        GROUP BY ALL""",
        [pipeline],
    ).fetchall():
        states.setdefault(metric, {})[state] = n
    return states


def record_states(con: duckdb.DuckDBPyConnection, pipeline: str) -> dict[str, int]:
    """Return how many records came to which state, those included that are of no pipeline."""
    return dict(
        con.execute(
            """SELECT state, sum(n)::BIGINT FROM ledger
            WHERE metric IS NULL AND (pipeline = ? OR pipeline IS NULL) GROUP BY ALL""",
            [pipeline],
        ).fetchall()
    )


def seen_components(con: duckdb.DuckDBPyConnection, pipeline: str) -> set[str | None]:
    """Return the components of which a span met a metric; None for the trace."""
    rows = con.execute("SELECT DISTINCT component FROM ticks WHERE pipeline = ?", [pipeline]).fetchall()
    return {component for (component,) in rows}


def worst_traces(con: duckdb.DuckDBPyConnection, pipeline: str, limit: int) -> list[FailingTrace]:
    """Return the traces on which the most metrics fail, the worst first.

    Args:
        con: Of a store.
        pipeline: Whose traces.
        limit: Most traces.
    """
    rows = con.execute(
        """SELECT trace_id, any_value("release") AS "release", count(*) AS failing,
            list(DISTINCT metric ORDER BY metric) AS metrics
        FROM gaps WHERE pipeline = ? AND outcome = 'fail' GROUP BY trace_id
        ORDER BY len(metrics) DESC, failing DESC, trace_id LIMIT ?""",
        [pipeline, limit],
    ).fetchall()
    return [FailingTrace(*row) for row in rows]
