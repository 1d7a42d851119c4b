"""A component that stands for several: what is refused, and that its metrics break down by member."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gapwatch.scorers.checking.warnings import portfolio_warnings
from gapwatch.scorers.errors import PortfolioError
from gapwatch.scorers.loading.load import parse_portfolio
from tests.gapwatch_command import gapwatch

PORTFOLIO = """gapwatch: 1
portfolio: shop
version: 1
pipeline: shop
components:
- {id: plan, kind: llm}
- {id: answer, kind: llm}
- {id: search, kind: tool}
- {id: model_calls, kind: llm, members: [plan, answer]}
metrics:
- name: finish_reason
  component: model_calls
  claim: {form: label, field: attributes.finish_reason, bad: [length]}
  alert: {severity: ticket}
"""


@pytest.mark.parametrize(
    ("members", "because"),
    [
        ("[plan, anser]", "anser"),
        ("[plan, plan]", "defined twice"),
        ("[model_calls]", "has members itself"),
    ],
)
def test_members_are_other_components_each_once(members: str, because: str) -> None:
    with pytest.raises(PortfolioError, match=because):
        parse_portfolio(PORTFOLIO.replace("[plan, answer]", members))


def test_members_are_monitored_by_what_stands_for_them() -> None:
    assert [caution.about for caution in portfolio_warnings(parse_portfolio(PORTFOLIO))] == ["search"]


def test_rates_break_down_by_member(tmp_path: Path) -> None:
    def span(component: str, reason: str) -> dict[str, object]:
        # Its own tier is no dimension of a metric over components.
        return {"span_id": component, "component": component, "tier": "x", "attributes": {"finish_reason": reason}}

    traces = [
        {
            "trace_id": f"t{n}",
            "pipeline": "shop",
            "timestamp": 1774166400 + n,
            "spans": [span("plan", "stop"), span("search", "length"), span("answer", "length" if n % 4 else "stop")],
        }
        for n in range(40)
    ]
    claim = "{form: check, field: trace.count(model_calls), range: {max: 1}}"
    counted = f"- {{name: too_many_calls, scope: trace, claim: {claim}}}\n"
    (tmp_path / "p.yaml").write_text(PORTFOLIO + counted)
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(trace) + "\n" for trace in traces))
    store = tmp_path / "s.duckdb"

    ran = gapwatch("replay", "--portfolio", tmp_path / "p.yaml", tmp_path / "t.jsonl", "--store", store)
    rates = gapwatch("rates", "--store", store, "--by", "tier", "--format", "json").json()
    whole = {r["metric"]: r for r in gapwatch("rates", "--store", store, "--format", "json").json()}

    assert ran.status == 0 and "component search: has no metric" in ran.out and "component plan" not in ran.out
    assert [(r["component"], r["value"], r["units"], r["bad"]) for r in rates if r["metric"] == "finish_reason"] == [
        ("model_calls", "answer", 40, 30),
        ("model_calls", "plan", 40, 0),
    ]
    assert (whole["finish_reason"]["units"], whole["finish_reason"]["bad"]) == (40, 30)
    # Each trace has two spans of the members; a group has none of its own.
    assert (whole["too_many_calls"]["units"], whole["too_many_calls"]["bad"]) == (40, 40)
