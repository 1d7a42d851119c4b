from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from gapwatch.scorers.errors import JobError
from gapwatch.scorers.loading.load import load_portfolio, parse_portfolio
from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.scorers.slices.selection import fixed_selection
from gapwatch.sinks.store.store import Store
from tests.paths import EXAMPLE_PORTFOLIO


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "s.duckdb", create=True) as opened:
        yield opened


def register(store: Store, portfolio: Portfolio) -> None:
    store.register(portfolio, fixed_selection([portfolio]).rows())


def test_a_portfolio_its_metrics_and_its_policy_are_recorded_once(store: Store) -> None:
    portfolio = load_portfolio(EXAMPLE_PORTFOLIO)
    for _ in range(2):
        register(store, portfolio)

    assert store.query("SELECT portfolio_sha, portfolio, version, pipeline, yaml FROM portfolios") == [
        (portfolio.sha, "airline-agent", 3, "airline-agent", EXAMPLE_PORTFOLIO.read_text(encoding="utf-8"))
    ]
    assert store.query("SELECT metric, metric_version, claim FROM metrics ORDER BY ALL") == sorted(
        (metric.name, metric.version, metric.claim.form) for metric in portfolio.metrics
    )
    assert store.query("SELECT count(*) FROM policies") == [(len(fixed_selection([portfolio]).rows()),)]


def test_the_row_of_a_metric_explains_it(store: Store) -> None:
    register(store, load_portfolio(EXAMPLE_PORTFOLIO))
    [(concern, expected, evidence, direction)] = store.query(
        "SELECT concern, expected, evidence, direction FROM metrics WHERE metric = 'answer_parses'"
    )
    assert concern == "reliability"
    assert "/citations" in expected
    assert json.loads(evidence) == {"code": ["src/agent.py:61-74 parses_json", "src/agent.py:61"], "facts": []}
    assert json.loads(direction) == {
        "better": "lower", "of": "failure_rate", "verdict": "verified", "evidence": "src/agent.py:61",
    }  # fmt: skip


def test_the_fact_that_confirms_a_direction_is_named(store: Store) -> None:
    register(store, load_portfolio(EXAMPLE_PORTFOLIO))
    [(evidence, direction)] = store.query("SELECT evidence, direction FROM metrics WHERE metric = 'fallback_rate'")
    [fact] = json.loads(evidence)["facts"]
    assert (fact["id"], fact["by"], fact["at"]) == ("f-agent-cascade", "maria", "2026-11-02")
    assert json.loads(direction)["fact"] == "f-agent-cascade"


CASCADE = """
gapwatch: 1
portfolio: p
version: 1
pipeline: p
components: [{id: c, role: ai_core, kind: llm}]
edges: []
metrics:
  - name: refusal_rate
    component: c
    claim: {form: label, field: attributes.kind, labels: [answer, refusal], bad: [refusal]}
"""


def test_an_answer_in_a_file_of_facts_renews_what_a_metric_says(store: Store, tmp_path: Path) -> None:
    path, facts = tmp_path / "p.yaml", tmp_path / "facts.yaml"
    path.write_text(CASCADE)
    facts.write_text(
        "facts:\n"
        "  - {id: f, component: c, kind: direction, metric: refusal_rate, better: lower, by: ann, at: 2026-11-20}\n"
    )
    for portfolio in (load_portfolio(path), load_portfolio(path), load_portfolio(path, facts)):
        register(store, portfolio)

    said = [row[0] and json.loads(row[0]) for row in store.query("SELECT direction FROM metrics ORDER BY recorded_at")]
    assert said == [None, {"of": "failure_rate", "better": "lower", "verdict": "verified", "fact": "f"}]
    assert store.query("SELECT count(*) FROM portfolios") == [(1,)]


def test_a_policy_that_holds_from_an_offset_is_a_row_of_its_own(store: Store) -> None:
    portfolio = parse_portfolio(CASCADE)
    row = {
        "policy": "p1", "lane": "live", "source_topic": "traces", "source_partition": 0, "portfolio_sha": portfolio.sha,
        "metric": "refusal_rate", "stratum": None, "p_evaluated": 1.0, "p_kept": {"fail": 0.5}, "cause": "flood",
    }  # fmt: skip
    for at in (100, 200, 200):
        store.register(portfolio, [{**row, "from_offset": at}])
    assert store.query("SELECT from_offset, p_kept, cause, recorded_at IS NOT NULL FROM policies ORDER BY ALL") == [
        (100, '{"fail": 0.5}', "flood", True),
        (200, '{"fail": 0.5}', "flood", True),
    ]


def test_a_registration_that_fails_leaves_nothing(store: Store) -> None:
    portfolio = load_portfolio(EXAMPLE_PORTFOLIO)
    with pytest.raises(JobError, match="registering a portfolio failed"):
        store.register(portfolio, [{"policy": "p", "p_evaluated": "much"}])
    assert store.query("SELECT (SELECT count(*) FROM portfolios), (SELECT count(*) FROM metrics)") == [(0, 0)]
    register(store, portfolio)
