"""Each key that the schema allows in `alert` is refused at its line, or changes the rule that the watch holds."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gapwatch.scorers.errors import PortfolioError
from gapwatch.scorers.loading.load import parse_portfolio
from gapwatch.streams.alerting.rules.alert_rule import AlertRule, rules_of
from tests.paths import ROOT

KEYS: dict[str, dict[str, Any]] = json.loads(
    (ROOT / "deploy/schemas/portfolio.schema.json").read_text(encoding="utf-8")
)["$defs"]["Alert"]["properties"]
CLAIMS = {
    "check": "form: check, field: output, format: json",
    "measure": "form: measure, field: latency, unit: seconds, limit: {max: 9}",
    "label": "form: label, field: attributes.intent, labels: [a, b, c], bad: [c]",
    "ratio": "form: ratio, numerator: n, denominator: d",
}
TEXT = """
gapwatch: 1
portfolio: p
version: 1
pipeline: shop
components: [{{id: agent, role: ai_core, kind: llm}}]
metrics:
  - {{name: n, component: agent, claim: {{form: measure, field: latency, unit: seconds}}}}
  - {{name: d, component: agent, claim: {{form: check, field: output, present: true}}}}
  - name: m
    component: agent
    claim: {{{claim}}}
    {direction}
    {threshold}
    alert: {alert}
"""
LINE = len(TEXT.splitlines())
BOUND = "threshold: {of: ratio, operator: '<=', value: 3}"
#: What only a page has.
OF_PAGES = ("min_ratio", "min_bad_per_hour")


def rule(claim: str, alert: dict[str, Any], threshold: str = "", pages: bool = False) -> AlertRule:
    direction = "" if pages else "direction: {better: unknown}"
    text = TEXT.format(claim=CLAIMS[claim], alert=json.dumps(alert), threshold=threshold, direction=direction)
    return next(one for one in rules_of([parse_portfolio(text)]) if one.metric == "m")


def other_value(key: str) -> Any:
    """Return a value of a key that is allowed and not its default."""
    one = KEYS[key]
    kinds = [one, *one.get("anyOf", ())]
    if any("enum" in kind for kind in kinds):
        return next(
            value for kind in kinds for value in kind.get("enum", ()) if value not in ("page", one.get("default"))
        )
    if key == "min_change":
        return {"factor": 3.0}
    return True if any(kind.get("type") == "boolean" for kind in kinds) else 7.5


@pytest.mark.parametrize("claim", list(CLAIMS))
@pytest.mark.parametrize("key", list(KEYS))
def test_each_key_changes_what_is_held_or_is_refused_at_its_line(claim: str, key: str) -> None:
    bound = BOUND if claim == "ratio" else ""
    try:
        changed = rule(claim, {key: other_value(key)}, bound)
    except PortfolioError as refused:
        assert [(one.line, one.key) for one in refused.problems] == [(LINE, f"metrics[2].alert.{key}")]
        assert claim == "ratio" or key in OF_PAGES
        return
    assert changed != rule(claim, {}, bound)


@pytest.mark.parametrize("claim", ["check", "measure", "label"])
@pytest.mark.parametrize("key", OF_PAGES)
def test_what_only_a_page_has_changes_the_rule_of_a_page(claim: str, key: str) -> None:
    page = {"severity": "page"}
    assert rule(claim, page | {key: other_value(key)}, pages=True) != rule(claim, page, pages=True)


def test_a_ratio_that_could_never_alert_is_refused() -> None:
    with pytest.raises(PortfolioError) as refused:
        rule("ratio", {"severity": "ticket"})
    (problem,) = refused.value.problems
    assert (problem.line, problem.key) == (LINE, "metrics[2].alert")
    assert "it has none" in problem.message and "threshold" in problem.expected
