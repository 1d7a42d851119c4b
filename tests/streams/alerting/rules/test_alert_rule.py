"""Alert rules: in the cascade family only the answer of a person gives a direction."""

from __future__ import annotations

import pytest

from gapwatch.scorers.loading.load import parse_portfolio
from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.streams.alerting.rules.alert_rule import rules_of

FAMILY = (
    "tier_hit_rate", "fallback_depth", "fallback_rate", "cache_hit_rate", "retry_count", "retry_success_rate",
    "refusal_rate", "escalation_rate", "rag_hit_rate",
)  # fmt: skip
_TEXT = """
gapwatch: 1
portfolio: p
version: 1
pipeline: shop
components: [{{id: agent, role: ai_core, kind: llm}}]
questions: [{{id: q-1, component: agent, text: "Which way?", decides: [{name}]}}]
facts: [{facts}]
metrics:
  - name: {name}
    component: agent
    claim: {{form: label, field: tier, labels: [a, b], bad: [b]}}
    direction: {{better: unknown}}
    alert: {{severity: ticket}}
"""


def said(name: str, better: str | None) -> Portfolio:
    fact = f"{{id: f, kind: direction, component: agent, metric: {name}, better: {better}, by: maria, at: 2026-03-01}}"
    return parse_portfolio(_TEXT.format(name=name, facts="" if better is None else fact))


@pytest.mark.parametrize("name", FAMILY)
@pytest.mark.parametrize(("better", "side"), [(None, 0), ("unknown", 0), ("lower", 1), ("higher", -1)])
def test_the_family_has_a_bad_side_by_a_fact_alone(name: str, better: str | None, side: int) -> None:
    (rule,) = rules_of([said(name, better)])

    assert (rule.is_cascade, rule.bad_side, rule.question, rule.may_page) == (True, side, "q-1", False)
