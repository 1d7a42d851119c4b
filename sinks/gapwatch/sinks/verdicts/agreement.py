"""Agreement of judges with each other and with people, by metric."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from gapwatch.scorers.judges.agreement import Estimate, Pair, cohens_kappa, f1, kappa, share
from gapwatch.scorers.judges.ensemble import ENSEMBLE
from gapwatch.sinks.store.store_reader import StoreReader

#: Name of the people who overrode a judge.
HUMAN = "human"
_PLACE = "lane, source_topic, source_partition, source_offset, span_index, metric, metric_version"
# A judge answers equal inputs from its cache: copies of one answer are no further evidence of agreement. People's
# outcomes count once for each answer as well; that of a copy counts where they judged only copies.
_PAIRS = f"""WITH said AS (
        SELECT {_PLACE}, judge, scored_outcome AS said, CASE WHEN overridden THEN outcome END AS human,
            coalesce(judge_input_sha, concat_ws('/', {_PLACE})) AS inputs,
            coalesce(json_extract_string(row_evidence, '$.cached') = 'true', false) AS is_copy
        FROM verdicts WHERE judge IS NOT NULL AND scored_outcome IN ('pass', 'warn', 'fail')
    ), reviewed AS (
        SELECT * FROM said WHERE human IN ('pass', 'warn', 'fail')
        QUALIFY NOT is_copy
            OR row_number() OVER (PARTITION BY metric, metric_version, judge, inputs ORDER BY is_copy, {_PLACE}) = 1
    )
    SELECT a.metric, a.judge, b.judge, a.said, b.said, count(*) FROM said a JOIN said b USING ({_PLACE})
    WHERE a.judge < b.judge AND a.judge <> '{ENSEMBLE}' AND b.judge <> '{ENSEMBLE}' AND NOT (a.is_copy AND b.is_copy)
    GROUP BY ALL
    UNION ALL
    SELECT metric, judge, NULL, said, human, count(*) FROM reviewed GROUP BY ALL"""

#: Judges with a verdict; the ensemble is none of them.
_DECIDED = f"""SELECT count(DISTINCT (metric, judge)) FROM gaps
    WHERE judge <> '{ENSEMBLE}' AND outcome IN ('pass', 'warn', 'fail')"""
_ERRORS = f"""SELECT split_part(reason, ':', 1) AS why, count(*) AS n FROM gaps
    WHERE judge <> '{ENSEMBLE}' AND outcome = 'error' GROUP BY ALL ORDER BY n DESC, why"""


@dataclass(frozen=True)
class Agreement:
    """Agreement of two raters on the same spans.

    Attributes:
        metric: Name of the metric.
        first: A judge.
        second: Another judge, or `human`.
        same: Share of spans with the same outcome, 0 to 1.
        kappa: Cohen's kappa, -1 to 1.
        f1: F1 of the judge's fails against the person's, 0 to 1; None between judges.
    """

    metric: str
    first: str
    second: str
    same: Estimate
    kappa: Estimate
    f1: Estimate | None


def pairs_of(con: StoreReader) -> dict[tuple[str, str, str], Counter[Pair]]:
    """Return pairs of outcomes on the same spans, by (metric, first, second): judges first, then judge and people."""
    found: dict[tuple[str, str, str], Counter[Pair]] = {}
    for metric, first, second, a, b, n in con.execute(_PAIRS).fetchall():
        found.setdefault((metric, first, second or HUMAN), Counter())[a, b] += n
    return dict(sorted(found.items(), key=lambda item: (item[0][2] == HUMAN, item[0])))


def agreements(con: StoreReader) -> Iterator[Agreement]:
    """Yield the agreement of each pair of judges, then of each judge with people, ordered by name."""
    for (metric, first, second), counts in pairs_of(con).items():
        pairs = sorted(counts.elements())
        same = share(sum(a == b for a, b in pairs), len(pairs))
        yield Agreement(metric, first, second, same, kappa(pairs), f1(pairs) if second == HUMAN else None)


def why_no_agreement(con: StoreReader) -> str:
    """Return a sentence that says why no two raters can be compared."""
    errors = con.execute(_ERRORS).fetchall()
    failed = sum(n for _, n in errors)
    reasons = ", ".join(f"{n:,} {reason}" for reason, n in errors)
    ((judges,),) = con.execute(_DECIDED).fetchall()
    if judges:
        also = f" {failed:,} other requests ended in an error ({reasons})." if failed else ""
        return (
            f"{judges} judge{'s' if judges > 1 else ''} decided, each span by one alone, and nobody has overridden a "
            f"verdict: there are no two raters to compare.{also} Let a second judge of the metric decide the same "
            "spans, or review verdicts with `gapwatch override`"
        )
    if failed:
        return (
            f"no judge has decided: {failed:,} request{'s' if failed > 1 else ''} ended in an error ({reasons}); "
            "`gapwatch history \"SELECT metric, judge, reason FROM gaps WHERE outcome = 'error'\" --store S` shows "
            "each reason in full"
        )
    ((asked,),) = con.execute("SELECT count(*) FROM metrics WHERE claim IN ('judge', 'compare')").fetchall()
    if asked:
        return "no judge has decided yet: `gapwatch judge run --store S --judges J` answers what waits"
    return "no judge is set: no metric of the portfolios in this store has the form judge"


def kappas(con: StoreReader) -> dict[tuple[str, ...], float]:
    """Return Cohen's kappa by (metric, first, second), for the pairs for which it is defined."""
    found = {key: cohens_kappa(list(counts.elements())) for key, counts in pairs_of(con).items()}
    return {key: value for key, value in found.items() if not math.isnan(value)}
