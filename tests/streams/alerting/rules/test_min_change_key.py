"""The key alert.min_change: nonsense is refused at its line, and every value reaches the detectors."""

from __future__ import annotations

import pytest

from gapwatch.scorers.errors import PortfolioError
from gapwatch.scorers.loading.load import parse_portfolio
from gapwatch.streams.alerting.rules.alert_rule import AlertRule, rules_of

TEXT = """
gapwatch: 1
portfolio: p
version: 1
pipeline: shop
components: [{id: agent, role: ai_core, kind: llm}]
metrics:
  - {name: n, component: agent, claim: {form: check, field: output, present: true}}
  - name: m
    component: agent
    claim: {%s}
    alert: {severity: ticket%s}
"""
CHECK, RATIO = "form: check, field: output, present: true", "form: ratio, numerator: n, denominator: n"
LINE = len(TEXT.splitlines())


def rule_of(change: str, claim: str = CHECK) -> AlertRule:
    (rule,) = rules_of([parse_portfolio(TEXT % (claim, change))])
    return rule


def test_without_the_key_a_change_of_a_quarter_and_of_one_point_is_worth_telling() -> None:
    rule = rule_of("")

    assert (rule.min_factor, rule.min_share) == (1.25, 0.01)
    assert AlertRule.from_json(rule.as_json()) == rule
    older = {name: value for name, value in rule.as_json().items() if not name.startswith("min_")}
    assert AlertRule.from_json({**older, "min_ratio": None, "min_bad_per_hour": None}) == rule


def test_each_part_of_the_key_reaches_the_detectors() -> None:
    rule = rule_of(", min_change: {factor: 2}")
    assert (rule.min_factor, rule.min_share) == (2.0, 0.01)
    rule = rule_of(", min_change: {share: 0.001}")
    assert (rule.min_factor, rule.min_share) == (1.25, 0.001)


@pytest.mark.parametrize(
    ("change", "claim", "named"),
    [
        ("{factor: 0.8}", CHECK, "factor"),
        ("{share: 1}", CHECK, "share"),
        ("{share: 0.5}", CHECK, "hardly ever told"),
        ("{share: -0.01}", CHECK, "share"),
        ("{points: 1}", CHECK, "points"),
        ("{factor: 2}", RATIO, "no effect"),
    ],
)
def test_nonsense_is_refused_at_its_line(change: str, claim: str, named: str) -> None:
    with pytest.raises(PortfolioError) as refused:
        rule_of(f", min_change: {change}", claim)

    assert named in str(refused.value)
    assert f":{LINE}:" in str(refused.value)
