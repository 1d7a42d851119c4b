"""Ratios: one sum over traces divided by another, such as cost for each answer that holds, from ticks.

A measure sums the number of each trace, folded as its `per_trace` says; everything else sums the traces that are good.
Each trace counts with the weight 1 / p_evaluated. Sums of traces that come at random vary with the sum of w^2 x^2
(a compound Poisson process; Horvitz and Thompson, JASA 47, 1952). How two metrics vary together is not in the ticks, so
the interval is that of the worst case: each sum within limits of 97.5 %, by Bonferroni, lowest over highest and
highest over lowest. It holds 95 % at least where both sums are of some tens of traces, and is wide on purpose.

Where a metric is unknown on a trace, its sum lacks that trace and the other's does not. A ratio is therefore given only
where both are known on nearly all traces.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gapwatch.scorers.portfolio.claim import MeasureClaim, RatioClaim
from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.sinks.reading.query_answer import ask
from gapwatch.sinks.store.store_reader import StoreReader

#: Quantile of the normal distribution for each of two limits of 97.5 %.
_Z = 2.241402727604947
#: Weighted share of traces on which a sum may be unknown. More would say that what has no price is free.
MOST_UNKNOWN = 0.05


@dataclass(frozen=True)
class Ratio:
    """What is divided by what.

    Attributes:
        pipeline: Whose ticks.
        component: Of the ratio.
        metric: Its name.
        numerator, denominator: Names of the metrics that are summed.
        numerator_measures, denominator_measures: Whether these sum numbers, not good traces.
    """

    pipeline: str
    component: str | None
    metric: str
    numerator: str
    denominator: str
    numerator_measures: bool
    denominator_measures: bool


def ratios_of(portfolio: Portfolio) -> list[Ratio]:
    """Return the ratios of a portfolio, in its order."""
    measures = {metric.name for metric in portfolio.metrics if isinstance(metric.claim, MeasureClaim)}
    return [
        Ratio(
            portfolio.pipeline,
            metric.component,
            metric.name,
            metric.claim.numerator,
            metric.claim.denominator,
            metric.claim.numerator in measures,
            metric.claim.denominator in measures,
        )
        for metric in portfolio.metrics
        if isinstance(metric.claim, RatioClaim)
    ]


def _sums(measures: bool) -> tuple[str, str]:
    if measures:
        return "sum(score_sum / p)", "sum(score_sum_squares / (p * p))"
    good = "FILTER (outcome = 'good')"
    return f"sum(n / p) {good}", f"sum(n / (p * p)) {good}"


def ratio_sql(
    ratio: Ratio, period: str | None, where: str = "true", values: Sequence[Any] = ()
) -> tuple[str, list[Any]]:
    """Return SQL for one ratio, one row a lane, environment and period.

    Args:
        ratio: Which.
        period: Expression over `bucket`, or None for all of event time in one.
        where: Which ticks count, of lane and bucket.
        values: Its parameters.

    Returns:
        A SELECT of lane, pipeline, environment, component, metric, period, numerator, denominator, unknown_share
        (the larger one of the two), ratio (good traces below the line are at least 1; null where a sum of numbers
        there is 0, or too much is unknown), lower, upper (null: no limit can be given); and its parameters.
    """
    top, top_squares = _sums(ratio.numerator_measures)
    bottom, bottom_squares = _sums(ratio.denominator_measures)

    def one(number: str, squares: str, name: str) -> str:
        return f"""SELECT lane, environment, {period or "NULL"} AS period, coalesce({number}, 0)::DOUBLE AS {name},
            {_Z} * sqrt(coalesce({squares}, 0)) AS {name}_within,
            coalesce(sum(n / p) FILTER (outcome = 'unknown'), 0) / sum(n / p) AS {name}_unknown
            FROM ticks WHERE level = 'unit' AND facet = 'all' AND pipeline = ? AND metric = ? AND ({where})
            GROUP BY ALL"""

    whole = "denominator" if ratio.denominator_measures else "greatest(denominator, 1)"
    sql = f"""
        SELECT lane, ? AS pipeline, environment, ? AS component, ? AS metric, period, numerator, denominator,
            unknown_share,
            CASE WHEN unknown_share <= {MOST_UNKNOWN} THEN numerator / nullif({whole}, 0) END AS ratio,
            CASE WHEN unknown_share <= {MOST_UNKNOWN} AND denominator > denominator_within THEN least(
                (numerator - numerator_within) / (denominator + denominator_within),
                (numerator - numerator_within) / (denominator - denominator_within)) END AS "lower",
            CASE WHEN unknown_share <= {MOST_UNKNOWN} AND denominator > denominator_within THEN greatest(
                (numerator + numerator_within) / (denominator - denominator_within),
                (numerator + numerator_within) / (denominator + denominator_within)) END AS "upper"
        FROM (
            SELECT coalesce(a.lane, b.lane) AS lane, coalesce(a.environment, b.environment) AS environment,
                coalesce(a.period, b.period) AS period, coalesce(numerator, 0) AS numerator,
                coalesce(numerator_within, 0) AS numerator_within, coalesce(denominator, 0) AS denominator,
                coalesce(denominator_within, 0) AS denominator_within,
                greatest(coalesce(numerator_unknown, 0), coalesce(denominator_unknown, 0)) AS unknown_share
            FROM ({one(top, top_squares, "numerator")}) AS a
            FULL JOIN ({one(bottom, bottom_squares, "denominator")}) AS b
            ON a.lane = b.lane AND a.environment IS NOT DISTINCT FROM b.environment
                AND a.period IS NOT DISTINCT FROM b.period)"""
    names = [ratio.pipeline, ratio.component, ratio.metric]
    of = [[ratio.pipeline, name, *values] for name in (ratio.numerator, ratio.denominator)]
    return sql, [*names, *of[0], *of[1]]


def ratio_rows(
    con: StoreReader, ratio: Ratio, period: str | None, where: str = "true", values: Sequence[Any] = ()
) -> list[dict[str, Any]]:
    """Ask for one ratio; its rows as `ratio_sql` has them, in order.

    Raises:
        JobError: The store cannot be read.
    """
    sql, parameters = ratio_sql(ratio, period, where, values)
    return ask(con, f"{sql} ORDER BY lane, environment, period NULLS FIRST", parameters).objects()
