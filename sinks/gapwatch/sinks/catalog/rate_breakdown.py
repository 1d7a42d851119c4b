"""Query of failure rates by release, model, tier or component, over periods of event time, or by latest verdicts."""

from __future__ import annotations

from gapwatch.scorers.judges.ensemble import ENSEMBLE
from gapwatch.scorers.slices.tables import SOURCE
from gapwatch.sinks.catalog.views import DIMENSIONS, component_rates_sql, rates_by_sql

#: Breakdowns, as options name them.
BREAKDOWNS = (*DIMENSIONS, "component")
#: Periods, as options name them, and the SQL of their begin.
PERIODS = {
    "hour": "date_trunc('hour', bucket)::TIMESTAMP",
    "day": "date_trunc('day', bucket)::TIMESTAMP",
    "week": "date_trunc('week', bucket)::TIMESTAMP",
    "all": "NULL::TIMESTAMP",
}
_SPAN = f"{', '.join(name for name, _ in SOURCE)}, span_index, metric, metric_version"
#: Units of judged metrics as rows like those of `ticks`, by the latest verdict on each span: of a person, of a judge
#: that was asked again, or else the first. Epochs are summed. Every row of a judge is stored until retention, so that
#: rows can be counted. Members of an ensemble are left out, as in `ticks`.
LATEST_UNITS = f"""(
    WITH judged AS (
        SELECT * FROM verdicts WHERE judge IS NOT NULL
        QUALIFY judge = '{ENSEMBLE}' OR NOT bool_or(judge = '{ENSEMBLE}') OVER (PARTITION BY {_SPAN})
    )
    SELECT lane, pipeline, environment, component, metric, metric_version, judge, NULL::VARCHAR AS epoch,
        time_bucket(INTERVAL 30 seconds, max(event_at)) AS bucket, 'unit' AS level, 'all' AS facet,
        CASE WHEN bool_or(outcome = 'fail') THEN 'bad' WHEN bool_or(outcome IN ('pass', 'warn')) THEN 'good'
            WHEN bool_or(outcome = 'error') THEN 'error' ELSE 'unknown' END AS outcome,
        max(p_evaluated) AS p, 1 AS n
    FROM judged
    GROUP BY source_topic, source_partition, source_offset, lane, pipeline, environment, component, metric,
        metric_version, judge)"""


def breakdown_sql(by: str | None, per: str, where: str = "true") -> str:
    """Return SQL for failure rates, ordered by component, metric, period and value; components by their worst metric.

    Args:
        by: One of `BREAKDOWNS`; None for all traces together.
        per: A key of `PERIODS`.
        where: SQL condition that selects the ticks.

    Returns:
        A SELECT. Without `by` component its columns are those of the view `rates_by`, otherwise those of
        `component_rates`; the period is named by `per`, and left out for `all`.
    """
    period = "EXCLUDE (period)" if per == "all" else f'RENAME (period AS "{per}")'
    if by == "component":
        rows = f"SELECT * {period} FROM ({component_rates_sql(PERIODS[per], where)})"
        return rows + f" ORDER BY pipeline, environment, {_order(per)} worst_rate DESC NULLS LAST, component"
    rows = f"SELECT * {period} FROM ({rates_by_sql(PERIODS[per], where)}) WHERE dimension = '{by or 'all'}'"
    return rows + f' ORDER BY pipeline, environment, component NULLS FIRST, metric, judge, {_order(per)} "value"'


def _order(per: str) -> str:
    return "" if per == "all" else f'"{per}" NULLS FIRST,'
