"""The better direction of a metric: what a claim's own words say, and what only a person can say."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest

from gapwatch.scorers.checking.json_schema import portfolio_schema
from gapwatch.scorers.errors import PortfolioError
from gapwatch.scorers.portfolio.polarity import BY_THE_CLAIM, direction_in_force
from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.streams.alerting.rules.alert_rule import AlertRule, rules_of
from tests.scorers.judges.rubrics import judged_metric, portfolio_of

CHECK = {"form": "check", "field": "output", "present": True}
MEASURE = {"form": "measure", "field": "latency", "unit": "seconds"}
LABEL = {"form": "label", "field": "attributes.ending"}
TIER = {"form": "label", "field": "tier", "labels": ["primary", "fallback"], "bad": ["fallback"]}
PARTS = {"form": "composite", "parts": {"part": 1.0}}


def paging(claim: dict[str, Any], name: str = "m", **more: Any) -> Portfolio:
    part = {"name": "part", "component": "c", "concern": "quality", "claim": CHECK}
    metric = {"name": name, "component": "c", "concern": "quality", "claim": claim, "alert": {"severity": "page"}}
    facts = more.pop("facts", [])
    return portfolio_of(part, {**metric, **more}, facts=facts)


def rule_of(portfolio: Portfolio) -> AlertRule:
    (rule,) = rules_of([portfolio])
    return rule


def fact(better: str, metric: str = "m") -> dict[str, Any]:
    return {"id": "f", "kind": "direction", "metric": metric, "better": better, "by": "maria", "at": "2026-11-02"}


@pytest.mark.parametrize(
    "claim",
    [
        CHECK,
        {**LABEL, "bad": ["error"]},
        {**MEASURE, "limit": {"max": 2.0}},
        {**MEASURE, "limit": {"min": 2.0}},
        {**PARTS, "pass_at": 0.5},
        judged_metric()["claim"],
    ],
    ids=["check", "bad label", "maximum", "minimum", "composite", "judge"],
)
def test_a_claim_that_says_what_fails_pages_by_its_own_words(claim: dict[str, Any]) -> None:
    portfolio = paging(claim)
    direction = direction_in_force(portfolio.metrics[1], portfolio.facts)

    assert direction is not None
    assert (direction.better, direction.verdict, direction.evidence) == ("lower", "verified", BY_THE_CLAIM)
    rule = rule_of(portfolio)
    assert rule.may_page and rule.bad_side == 1


def test_numbers_short_of_their_limit_open_tickets_only() -> None:
    rule = rule_of(paging({**MEASURE, "limit": {"min": 2.0}}))

    assert rule.number_side == -1
    assert rule.pages_on("rate") and not rule.pages_on("numbers")


@pytest.mark.parametrize(
    ("claim", "why"),
    [
        (MEASURE, "a number without a limit is neither good nor bad"),
        (LABEL, "a label that is never bad"),
        (TIER, "the tier says which route was taken"),
        ({"form": "check", "field": "tier", "one_of": ["primary", "cache"]}, "the tier says which route was taken"),
        (PARTS, "the claim has no pass_at"),
        ({"form": "python", "scorer": "polite", "fields": ["output"]}, "does not say what is bad"),
    ],
    ids=["number", "label", "tier label", "tier check", "composite", "python"],
)
def test_a_page_that_only_a_person_can_justify_is_refused(claim: dict[str, Any], why: str) -> None:
    with pytest.raises(PortfolioError) as refused:
        paging(claim)

    (problem,) = refused.value.problems
    assert problem.key == "metrics[1].alert.severity"
    assert why in problem.message
    assert bool(problem.fact) == (claim is not LABEL)  # no fact makes a label fail that is never bad


@pytest.mark.parametrize("claim", [MEASURE, TIER, PARTS], ids=["number", "tier", "composite"])
@pytest.mark.parametrize("better", ["lower", "higher"])
def test_a_fact_alone_lets_it_page(claim: dict[str, Any], better: str) -> None:
    rule = rule_of(paging(claim, facts=[fact(better)]))
    side = 1 if better == "lower" else -1

    kind, found = ("rate", rule.bad_side) if claim is TIER else ("numbers", rule.number_side)
    assert (rule.pages_on(kind), found) == (True, side)


def test_a_fact_alone_lets_a_cascade_page_and_without_one_it_is_refused() -> None:
    claim = {**LABEL, "bad": ["declined"]}
    assert rule_of(paging(claim, "refusal_rate", facts=[fact("lower", "refusal_rate")])).may_page

    with pytest.raises(PortfolioError) as refused:
        paging(claim, "refusal_rate")
    (problem,) = refused.value.problems
    assert problem.key == "metrics[1].alert.severity"
    assert "kind: direction, metric: refusal_rate, better: LOWER OR HIGHER" in problem.fact


def test_a_person_who_knows_no_better_direction_wins_over_the_words_of_the_claim() -> None:
    with pytest.raises(PortfolioError, match=r"nothing says which way is better|never pages"):
        paging(CHECK, facts=[fact("unknown")])


def test_a_direction_that_is_written_as_unverified_stays_so() -> None:
    with pytest.raises(PortfolioError) as refused:
        paging(CHECK, direction={"better": "lower"})

    (problem,) = refused.value.problems
    assert "without the key direction the claim's own words verify it" in problem.expected


def test_the_schema_refuses_a_fact_whose_author_is_not_filled_in() -> None:
    validator = jsonschema.Draft202012Validator(portfolio_schema())
    top = {"gapwatch": 1, "portfolio": "p", "version": 1, "pipeline": "p", "components": [], "metrics": []}

    assert validator.is_valid({**top, "facts": [fact("lower")]})
    for by in ("WHO SAYS SO", "YOU", "TODO", "?"):
        assert not validator.is_valid({**top, "facts": [{**fact("lower"), "by": by}]})


@pytest.mark.parametrize("by", ["YOU", "todo", "nobody", "?", "???", "<name>", " N/A ", "tbd.", "—", "Who says so"])
def test_a_fact_whose_author_is_a_placeholder_verifies_no_direction(by: str) -> None:
    with pytest.raises(PortfolioError) as refused:
        paging(CHECK, facts=[{**fact("lower"), "by": by}])

    (problem,) = refused.value.problems
    assert (problem.key, problem.expected) == ("facts[0].by", "the name of the person who says so")
    assert problem.message.endswith("is not the name of a person")


@pytest.mark.parametrize("by", ["maria", "Dr. No", "Wei You", "李", "team payments", "a", "noone@example.com", "4711"])
def test_a_fact_by_a_person_is_accepted(by: str) -> None:
    assert paging(CHECK, facts=[{**fact("lower"), "by": by}]).facts[0].by == by
