"""Rules about the directions of metrics: how a direction is verified, and what an unverified one may alert on."""

from __future__ import annotations

import math
from datetime import UTC, datetime

import yaml

from gapwatch.scorers.loading.draft import Draft
from gapwatch.scorers.loading.problems import KeyPath, nearest
from gapwatch.scorers.portfolio.author import PLACEHOLDER
from gapwatch.scorers.portfolio.claim import CompositeClaim, LabelClaim, MeasureClaim, RatioClaim
from gapwatch.scorers.portfolio.metric import Metric
from gapwatch.scorers.portfolio.polarity import (
    direction_fact,
    direction_in_force,
    is_cascade,
    missing_words,
    same_owner,
)
from gapwatch.scorers.printable import shown


def check_direction(draft: Draft, metric: Metric, path: KeyPath) -> None:
    """Note every problem of a metric's direction, and of an alert that needs a verified direction."""
    _check_verdict(draft, metric, (*path, "direction"))
    _check_against_fact(draft, metric, (*path, "direction", "better"))
    _check_alert(draft, metric, path)
    _check_min_change(draft, metric, (*path, "alert", "min_change"))


def _check_min_change(draft: Draft, metric: Metric, path: KeyPath) -> None:
    """Note a smallest change that has no effect, or that no change can reach."""
    alert = metric.alert
    if alert is None or "min_change" not in alert.model_fields_set:
        return
    if isinstance(metric.claim, RatioClaim):
        draft.problems.add(
            path, "a ratio alerts by its threshold only, so this has no effect", "a threshold, or no key"
        )
    elif alert.min_change.share >= 0.5:
        # The rarer side of a share is below a half, so it can neither grow nor shrink by as much in both directions.
        message = f"a share that must change by {alert.min_change.share:g} is hardly ever told"
        near = f"{alert.min_change.share / 100:g}"
        draft.problems.add((*path, "share"), message, "a number below 0.5; 0.01 is one percentage point", near)


def _check_verdict(draft: Draft, metric: Metric, path: KeyPath) -> None:
    direction = metric.direction
    if direction is None:
        return
    if direction.fact is not None:
        _check_cited_fact(draft, metric, direction.fact, (*path, "fact"))
    elif direction.verdict == "verified":
        if is_cascade(metric):
            message = "only a fact verifies the direction of a metric of the cascade family; a line of code suggests it"
            draft.problems.add((*path, "fact"), message, "the id of a fact, or verdict: unverified")
        elif not direction.evidence:
            message = "verdict: verified has neither a fact nor evidence"
            draft.problems.add(path, message, "fact: the id of a fact, or evidence: a cited line")


def _check_cited_fact(draft: Draft, metric: Metric, cited: str, path: KeyPath) -> None:
    fact = next((fact for fact in draft.facts if fact.id == cited), None)
    if fact is None:
        ids = [fact.id for fact in draft.facts]
        draft.problems.add(path, f"no fact named {shown(cited)}", "", nearest(cited, ids))
    elif fact.kind != "direction" or fact.metric != metric.name or not same_owner(fact, metric):
        about = f"the direction of {fact.metric}" if fact.kind == "direction" else f"the {fact.kind}"
        draft.problems.add(
            path, f"the fact {shown(cited)} is about {about}", f"a fact about the direction of {metric.name}"
        )


def _check_against_fact(draft: Draft, metric: Metric, path: KeyPath) -> None:
    direction, fact = metric.direction, direction_fact(metric, draft.facts)
    if direction is None or fact is None or direction.better == fact.better:
        return
    if direction.better == "unknown" or (fact.better == "unknown" and direction.verdict == "unverified"):
        return  # the direction claims less than the fact, or suggests one where the fact knows none
    message = f"{direction.better} contradicts the fact {shown(fact.id)} of {shown(fact.by)}, which says {fact.better}"
    draft.problems.add(path, message, "the direction of the fact, or a new fact", f"better: {fact.better}")


def _check_alert(draft: Draft, metric: Metric, path: KeyPath) -> None:
    alert, direction = metric.alert, metric.direction
    in_force = direction_in_force(metric, draft.facts)
    if alert is None or (in_force is not None and in_force.verdict == "verified"):
        return
    severity = (*path, "alert", "severity")
    if is_cascade(metric):
        if alert.severity == "page":
            message = "a metric of the cascade family opens at most a ticket while its direction is unverified"
            fact = _fact_to_write(draft, metric)
            draft.problems.add(severity, message, "ticket or note, or a fact that verifies it", "ticket", fact=fact)
        # A metric without a direction has one mistake, not two: the fact that lets it page gives the direction, too.
        if direction.better != "unknown" if direction is not None else alert.severity != "page":
            message = "a metric of the cascade family that alerts must have better: unknown while it is unverified"
            draft.problems.add(
                (*path, "direction", "better"),
                message,
                "unknown, or a fact that verifies it",
                "direction: {better: unknown}",
            )
    elif alert.severity == "page" and direction is not None:
        message = "a metric with an unverified direction never pages"
        expected = "ticket or note, or a verified direction"
        if not missing_words(metric.claim):
            expected += "; without the key direction the claim's own words verify it"
        draft.problems.add(severity, message, expected, "ticket", fact=_fact_to_write(draft, metric))
    elif metric.threshold is not None:
        return  # a bound says by itself which way is worse; shifts of the metric open a ticket at most
    elif alert.severity == "page" and isinstance(metric.claim, LabelClaim) and not metric.claim.bad:
        message = "a label that is never bad never fails, so it never pages"
        draft.problems.add(severity, message, "ticket or note, or claim.bad: the labels that are bad", "ticket")
    elif alert.severity == "page" and not isinstance(metric.claim, RatioClaim):
        why = missing_words(metric.claim) or "its fact says that neither direction is"
        message = f"nothing says which way is better, so it cannot page: {why}"
        expected = "ticket or note, or a fact, or a threshold"
        if isinstance(metric.claim, MeasureClaim | CompositeClaim):
            expected += ", or claim." + ("limit" if isinstance(metric.claim, MeasureClaim) else "pass_at")
        draft.problems.add(severity, message, expected, "ticket", fact=_fact_to_write(draft, metric))


def _fact_to_write(draft: Draft, metric: Metric) -> str:
    """Return the fact that would verify a direction, as YAML; a person fills in the direction and the name."""
    known = {fact.id for fact in draft.facts}
    ids = (f"f-{metric.name}{end}" for end in ("", *(f"-{number}" for number in range(2, len(known) + 3))))
    fact = {"id": next(name for name in ids if name not in known)}
    if metric.component is not None:
        fact["component"] = metric.component
    fact |= {"kind": "direction", "metric": metric.name, "better": "LOWER OR HIGHER"}
    written = yaml.safe_dump(fact, default_flow_style=True, sort_keys=False, width=math.inf)
    # The date is a text for the loader, with quotes or without.
    return f"- {written.strip().removesuffix('}')}, by: {PLACEHOLDER}, at: {datetime.now(UTC):%Y-%m-%d}}}"
