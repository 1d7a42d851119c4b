"""Ratios of two sums over traces, such as cost for each correct answer, with a confidence interval, from ticks.

A measure sums one number for each trace, combined as its `per_trace` says; any other metric counts its good traces.
Each trace has the weight 1 / p_evaluated. The variance of a sum over randomly arriving traces is the sum of w^2 x^2
(a compound Poisson process; Horvitz and Thompson, JASA 47, 1952). The ticks do not have the covariance of two metrics,
so the interval is that of the worst case: each sum has limits of 97.5 % (Bonferroni), and the interval goes from lowest
over highest to highest over lowest. It covers at least 95 % if both sums have some tens of traces, and is wide.

If a metric is unknown on a trace, its sum lacks that trace, but the other sum does not. A ratio is therefore given only
if both metrics are known on nearly all traces.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gapwatch.scorers.portfolio.claim import MeasureClaim, RatioClaim
from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.sinks.catalog.rate_interval import UNDECIDED
from gapwatch.sinks.reading.query_answer import ask
from gapwatch.sinks.store.store_reader import StoreReader

#: Quantile of the normal distribution for a two-sided interval of 97.5 %.
_Z = 2.241402727604947
#: Largest weighted share of traces on which a sum may be unknown. Larger: traces without a known price count as free.
MOST_UNKNOWN = 0.05


@dataclass(frozen=True)
class Ratio:
    """A ratio metric.

    Attributes:
        pipeline: Pipeline of the ticks.
        component: Component of the ratio.
        metric: Name of the ratio.
        numerator, denominator: Names of the metrics that are summed.
        numerator_measures, denominator_measures: Whether these sum numbers instead of counting good traces.
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
    """Return SQL for one ratio, one row for each lane, environment and period.

    Args:
        ratio: The ratio.
        period: SQL expression over `bucket`; None for one row over all event time.
        where: SQL condition on lane and bucket that selects the ticks.
        values: Parameters of `where`.

    Returns:
        A SELECT of lane, pipeline, environment, component, metric, period, numerator, denominator, unknown_share
        (the larger of the two), ratio (a denominator of good traces counts as at least 1; null if a denominator of
        numbers is 0, or too much is unknown), lower, upper (null if no limit can be given); and its parameters.
    """
    top, top_squares = _sums(ratio.numerator_measures)
    bottom, bottom_squares = _sums(ratio.denominator_measures)

    def one(number: str, squares: str, name: str) -> str:
        return f"""SELECT lane, environment, {period or "NULL"} AS period, coalesce({number}, 0)::DOUBLE AS {name},
            {_Z} * sqrt(coalesce({squares}, 0)) AS {name}_within,
            coalesce(sum(n / p) FILTER ({UNDECIDED}), 0) / sum(n / p) AS {name}_unknown
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
    """Return the rows of one ratio, with the columns of `ratio_sql`, ordered by lane, environment and period.

    Raises:
        JobError: The store cannot be read.
    """
    sql, parameters = ratio_sql(ratio, period, where, values)
    return ask(con, f"{sql} ORDER BY lane, environment, period NULLS FIRST", parameters).objects()
