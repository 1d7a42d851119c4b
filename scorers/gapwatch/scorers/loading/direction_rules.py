"""Rules about the directions of metrics: how a direction is verified, and what an unverified one may alert on."""

from __future__ import annotations

from gapwatch.scorers.loading.draft import Draft
from gapwatch.scorers.loading.problems import KeyPath, nearest
from gapwatch.scorers.portfolio.metric import Metric
from gapwatch.scorers.portfolio.polarity import direction_fact, is_cascade, same_owner
from gapwatch.scorers.printable import shown


def check_direction(draft: Draft, metric: Metric, path: KeyPath) -> None:
    """Note every problem of a metric's direction, and of an alert that needs a verified direction."""
    _check_verdict(draft, metric, (*path, "direction"))
    _check_against_fact(draft, metric, (*path, "direction", "better"))
    _check_alert(draft, metric, path)


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
    direction, alert = metric.direction, metric.alert
    if alert is None or (direction is not None and direction.verdict == "verified"):
        return
    if is_cascade(metric):
        if alert.severity == "page":
            message = "a metric of the cascade family opens at most a ticket while its direction is unverified"
            draft.problems.add(
                (*path, "alert", "severity"), message, "ticket or note, or a fact that verifies it", "ticket"
            )
        if direction is None or direction.better != "unknown":
            message = "a metric of the cascade family that alerts must have better: unknown while it is unverified"
            draft.problems.add(
                (*path, "direction", "better"),
                message,
                "unknown, or a fact that verifies it",
                "direction: {better: unknown}",
            )
    elif direction is not None and alert.severity == "page":
        message = "a metric with an unverified direction never pages"
        draft.problems.add((*path, "alert", "severity"), message, "ticket or note, or a verified direction", "ticket")
