"""Query of failure rates by release, model, tier or component, over periods of event time."""

from __future__ import annotations

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
