"""Warnings about a portfolio that loads but may do less than its author thinks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gapwatch.scorers.loading.metric_rules import asked_tiers
from gapwatch.scorers.loading.problems import nearest
from gapwatch.scorers.portfolio.bounded_quantity import can_fail
from gapwatch.scorers.portfolio.claim import JudgedClaim, LabelClaim, RatioClaim
from gapwatch.scorers.portfolio.component import Component
from gapwatch.scorers.portfolio.metric import Metric
from gapwatch.scorers.portfolio.polarity import direction_in_force, is_cascade
from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.scorers.portfolio.predicate import Predicate, field_predicates
from gapwatch.scorers.printable import shown

#: Words of bad bands. A scale that begins with one of them was probably written worst first.
_BAD_WORDS = frozenset(
    ("bad", "very bad", "poor", "very poor", "worst", "terrible", "fail", "failed", "no", "never", "wrong", "incorrect",
     "false", "none", "low", "very low", "unacceptable", "unhelpful", "disagree", "strongly disagree")
)  # fmt: skip


@dataclass(frozen=True)
class Caution:
    """Warning about one part of a portfolio.

    Attributes:
        about: Name of the metric, component or question; "" for the portfolio.
        text: The likely oversight, and how to mend it.
    """

    about: str
    text: str


def portfolio_warnings(portfolio: Portfolio) -> list[Caution]:
    """Return the warnings about a portfolio, in the order of the file."""
    found = list(_coverage(portfolio))
    names = [metric.name for metric in portfolio.metrics]
    by_id = {component.id: component for component in portfolio.components}
    for metric in portfolio.metrics:
        texts = [
            *_alerts(portfolio, metric),
            *_direction(portfolio, metric),
            *_tiers(metric, by_id.get(metric.component or "")),
        ]
        texts += _scale(metric)
        texts += [_no_metric("monitors", name, names) for name in metric.monitors if name not in names]
        found += [Caution(metric.name, text) for text in texts]
    for question in portfolio.questions:
        unknown = [name for name in question.decides if name not in names]
        found += [Caution(question.id, _no_metric("decides", name, names)) for name in unknown]
    return found


def _no_metric(key: str, name: str, names: list[str]) -> str:
    close = nearest(name, names)
    return f"{key} names {name}, but this portfolio has no such metric" + (f"; did you mean {close}?" if close else "")


def _coverage(portfolio: Portfolio) -> Iterator[Caution]:
    if not portfolio.metrics:
        yield Caution("", "no metrics: nothing is monitored")
        return
    watched = portfolio.with_members(
        metric.component for metric in portfolio.metrics if not isinstance(metric.claim, RatioClaim)
    )
    for component in portfolio.components:
        if component.id not in watched:
            yield Caution(shown(component.id), "no metric: this component is not monitored")
    if all(metric.alert is None or _only_a_ratio(metric) for metric in portfolio.metrics):
        yield Caution(
            "",
            "no metric asks for an alert: nobody will be told; write alert: {severity: page}, or ticket, into those"
            " whose failure somebody must know of",
        )


def _only_a_ratio(metric: Metric) -> bool:
    return isinstance(metric.claim, RatioClaim) and metric.threshold is None


def _alerts(portfolio: Portfolio, metric: Metric) -> Iterator[str]:
    direction = direction_in_force(metric, portfolio.facts)
    if metric.alert is None:
        if "alert" in metric.targets:
            yield "targets names alert, but the metric has no key alert, so it never alerts"
    elif metric.threshold is None and isinstance(metric.claim, RatioClaim):
        yield "a ratio alerts by its threshold only: give it one, or alert on its numerator or denominator"
    elif (
        metric.threshold is None
        and not can_fail(metric.claim)
        and (direction is None or direction.of == "failure_rate")
    ):
        missing = {"measure": "a limit", "label": "a bad label"}.get(metric.claim.form, "pass_at")
        yield f"it can never fail, so it never alerts: give the claim {missing}, or direction.of another quantity"


def _direction(portfolio: Portfolio, metric: Metric) -> Iterator[str]:
    direction = metric.direction
    fact = portfolio.direction_fact(metric)
    if fact is not None and direction is None:
        return
    if fact is not None and direction is not None and direction.verdict == "unverified":
        yield f"the fact {shown(fact.id)} says {fact.better}: write that into direction, with verdict: verified"
        return
    if not is_cascade(metric) or (direction is not None and direction.verdict == "verified"):
        return
    questions = [question for question in portfolio.questions if metric.name in question.decides]
    if questions:
        asked = "; ".join(f"{shown(question.id)}: {shown(question.text, 200)}" for question in questions[:3])
        yield f"its direction (which way is better) is not verified; answer this question: {asked}"
    else:
        where = f", component: {metric.component}" if metric.component is not None else ""
        yield (
            "its direction (which way is better) is not verified, and no question asks for it; add a fact"
            f" {{kind: direction, metric: {metric.name}{where}, better: lower or higher, ...}}"
        )


def _scale(metric: Metric) -> Iterator[str]:
    """Warn about an ascending scale: of numbers the highest counts as the best, of words the first."""
    if not isinstance(metric.claim, JudgedClaim) or isinstance(metric.claim.rubric.scale, dict):
        return
    bands = metric.claim.rubric.scale
    numbers = [band for band in bands if not isinstance(band, str)]
    where, listed = "claim.rubric.scale", ", ".join(f"{b:g}" if isinstance(b, float) else shown(b) for b in bands)
    if numbers and numbers == sorted(numbers):
        worth = ", ".join(f'"{band:g}": {score:g}' for band, score in zip(numbers, reversed(numbers), strict=True))
        yield (
            f"{where} [{listed}]: the highest number counts as the best, here {numbers[-1]:g};"
            f" if {numbers[0]:g} is the best, write the worth of each: {{{worth}}}"
        )
    words = [band.strip().casefold() for band in bands if isinstance(band, str)]
    if words and (words[0] in _BAD_WORDS or _rise(words)):
        back = ", ".join(shown(band) for band in reversed(bands))
        yield f"{where} [{listed}]: the first word counts as the best, here {shown(bands[0])}; did you mean [{back}]?"


def _rise(words: list[str]) -> bool:
    try:
        numbers = [float(word) for word in words]
    except ValueError:
        return False
    return numbers == sorted(numbers)


def _tiers(metric: Metric, component: Component | None) -> Iterator[str]:
    if component is None or not component.tiers:
        return
    known = [tier.id for tier in component.tiers]
    for tier in sorted({tier for tier in _named_tiers(metric) if tier not in known}):
        close = nearest(tier, known)
        text = f"the component {shown(component.id)} has no tier {shown(tier)}"
        yield text + (f"; did you mean {close}?" if close else "")
    by_rule = [tier.id for tier in component.tiers if tier.by == "rule"]
    if isinstance(metric.claim, JudgedClaim) and by_rule and not _mentions_tier(metric.when):
        listed = ", ".join(map(shown, by_rule))
        yield (
            f"it also judges tiers that a rule answers ({listed}):"
            " leave them out with when: {field: tier, one_of: [...]}"
        )


def _named_tiers(metric: Metric) -> Iterator[str]:
    if metric.when is not None:
        yield from asked_tiers(metric.when)
    if isinstance(metric.claim, LabelClaim) and metric.claim.field.text == "tier":
        yield from metric.claim.labels or ()


def _mentions_tier(predicate: Predicate | None) -> bool:
    return predicate is not None and any(part.field.text == "tier" for part, _, _ in field_predicates(predicate))
