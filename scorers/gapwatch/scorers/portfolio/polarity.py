"""Better direction of a metric: from a fact, from the portfolio, or from the claim's own words."""

from __future__ import annotations

from collections.abc import Iterable

from gapwatch.scorers.portfolio.claim import (
    CheckClaim,
    Claim,
    CompositeClaim,
    FeedbackClaim,
    JudgedClaim,
    LabelClaim,
    MeasureClaim,
)
from gapwatch.scorers.portfolio.direction import Direction, is_cascade_name
from gapwatch.scorers.portfolio.fact import Fact
from gapwatch.scorers.portfolio.metric import Metric
from gapwatch.scorers.portfolio.predicate import field_predicates

#: Evidence of a direction that the claim itself gives.
BY_THE_CLAIM = "the claim itself"


def is_cascade(metric: Metric) -> bool:
    """Return whether a metric is of the cascade family: by its name, or by its key `alert.cascade`."""
    return is_cascade_name(metric.name) or (metric.alert is not None and metric.alert.cascade)


def is_about_ways(metric: Metric) -> bool:
    """Return whether a metric says which way a step went: one of the cascade family, or a claim about the tier."""
    return is_cascade(metric) or _is_about_tier(metric.claim)


def _is_about_tier(claim: Claim) -> bool:
    if isinstance(claim, CheckClaim):
        return any(part.field.text == "tier" for part, _, _ in field_predicates(claim.predicate))
    return isinstance(claim, LabelClaim) and claim.field.text == "tier"


def direction_fact(metric: Metric, facts: Iterable[Fact]) -> Fact | None:
    """Return the latest fact about a metric's direction, or None where there is none."""
    mine = [
        fact for fact in facts if fact.kind == "direction" and fact.metric == metric.name and same_owner(fact, metric)
    ]
    return max(mine, key=lambda fact: fact.moment, default=None)


def same_owner(fact: Fact, metric: Metric) -> bool:
    """Return whether a fact and a metric can be about one component; one without a component fits any."""
    return fact.component is None or metric.component is None or fact.component == metric.component


def implied_direction(metric: Metric) -> Direction | None:
    """Return the direction that the words of a claim give, or None where a person must say it.

    A check that must hold, a label that is listed as bad, a limit, and a pass mark each say which traces fail, and
    fewer failing traces are better. A metric of the cascade family and a claim about the tier say only which route was
    taken: whether that route is worse is known to people alone.
    """
    if is_cascade(metric) or missing_words(metric.claim):
        return None
    return Direction(better="lower", verdict="verified", evidence=BY_THE_CLAIM)


def missing_words(claim: Claim) -> str:
    """Return the reason why a claim does not say by itself which direction is better; empty where it does."""
    if isinstance(claim, CheckClaim):
        return "the tier says which route was taken, not whether it is worse" if _is_about_tier(claim) else ""
    if isinstance(claim, LabelClaim):
        if claim.bad and _is_about_tier(claim):
            return "the tier says which route was taken, not whether it is worse"
        return "" if claim.bad else "the claim lists no label as bad"
    if isinstance(claim, MeasureClaim):
        return "" if claim.limit is not None else "a number without a limit is neither good nor bad"
    if isinstance(claim, CompositeClaim):
        return "" if claim.pass_at is not None else "the claim has no pass_at"
    return (
        ""
        if isinstance(claim, JudgedClaim | FeedbackClaim)
        else f"a claim of the form {claim.form} does not say what is bad"
    )


def moved_quantity(metric: Metric) -> str:
    """Return the quantity that a fact about a metric's direction is about, where the portfolio names none."""
    claim = metric.claim
    never_fails = (isinstance(claim, MeasureClaim) and claim.limit is None) or (
        isinstance(claim, CompositeClaim) and claim.pass_at is None
    )
    return "mean" if never_fails else "failure_rate"


def direction_in_force(metric: Metric, facts: Iterable[Fact]) -> Direction | None:
    """Return the better direction of a metric; None where nothing says it.

    The latest fact wins over the portfolio, except for one that knows no better direction. The portfolio wins over the
    claim's own words.
    """
    fact = direction_fact(metric, facts)
    written = metric.direction
    if fact is not None and fact.better in ("lower", "higher"):
        of = written.of if written is not None else moved_quantity(metric)
        evidence = written.evidence if written is not None else None
        return Direction(better=fact.better, of=of, verdict="verified", fact=fact.id, evidence=evidence)
    # A person who says that neither direction is better wins over the words of the claim.
    return written if written is not None or fact is not None else implied_direction(metric)
