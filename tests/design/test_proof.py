"""End to end: design a service from its code, emit the requested spans, plant faults, and see each one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb
import pytest

from gapwatch.design.metrics.selection import added_fact
from gapwatch.design.reports.export_portfolio import portfolio_data, portfolio_yaml
from gapwatch.design.source.scan import scan_repository
from gapwatch.design.stage import Design, run_design
from gapwatch.scorers.loading.load import load_portfolio
from gapwatch.streams.batch.replay import replay
from tests.design.rag_run import APP, run_traffic

#: Which metric of the portfolio shows which planted fault.
SHOWN_BY = {
    "prose": "answerer_output_parses",
    "no_citations": "answerer_output_parses",
    "cut": "model_client_finish_reason",
    "large_down": "answerer_fallback_rate",
    "nothing_found": "passage_index_passages_found",
    "store_broken": "question_service_swallowed_errors",
}


@pytest.fixture(scope="module")
def design() -> Design:
    # A parse waits on the shelf until somebody adds it.
    added = added_fact("answerer_output_parses", "maria", "2026-11-29")
    return run_design(scan_repository(APP), goal="answers grounded in the passages", facts=(added,))


@pytest.fixture(scope="module")
def rows(design: Design, tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, str, str, str]]:
    """(case, metric, outcome, reason) of every row that the replay kept."""
    folder = tmp_path_factory.mktemp("proof")
    text = portfolio_yaml(portfolio_data(design), design)
    # Keep every row, so that the test sees passes, too.
    data: dict[str, Any] = portfolio_data(design)
    for metric in data["metrics"]:
        if metric["claim"]["form"] != "ratio":
            metric["sample"] = {"keep": {"fail": 1.0, "pass": 1.0}}
    (folder / "designed.yaml").write_text(text)
    (folder / "portfolio.yaml").write_text(portfolio_yaml(data, design))
    load_portfolio(folder / "designed.yaml")
    traces = run_traffic(design.points, data["pipeline"])
    cases = [(case, trace) for case, found in traces.items() for trace in found]
    (folder / "traces.jsonl").write_text("\n".join(json.dumps(trace) for _, trace in cases) + "\n")
    portfolio = load_portfolio(folder / "portfolio.yaml")
    replay((str(folder / "traces.jsonl"),), [portfolio], folder / "store.duckdb")
    with duckdb.connect(str(folder / "store.duckdb"), read_only=True) as store:
        found = store.execute("SELECT source_offset, metric, outcome, coalesce(reason, '') FROM gaps").fetchall()
    return [(cases[offset][0], metric, outcome, reason) for offset, metric, outcome, reason in found]


def test_most_deterministic_metrics_answer(design: Design, rows: list[tuple[str, str, str, str]]) -> None:
    deterministic = {m.name for m in design.metrics if m.is_exported and m.claim["form"] not in ("ratio", "judge")}
    answering = {metric for _, metric, outcome, _ in rows if outcome in ("pass", "warn", "fail")}

    assert len(deterministic & answering) >= 0.8 * len(deterministic), sorted(deterministic - answering)


@pytest.mark.parametrize("case", sorted(SHOWN_BY))
def test_each_planted_fault_shows_in_its_metric(case: str, rows: list[tuple[str, str, str, str]]) -> None:
    failed = {metric for found, metric, outcome, _ in rows if found == case and outcome == "fail"}
    healthy = {metric for found, metric, outcome, _ in rows if found == "healthy" and outcome == "fail"}

    assert SHOWN_BY[case] in failed
    assert SHOWN_BY[case] not in healthy


def test_a_retried_request_is_counted(rows: list[tuple[str, str, str, str]], design: Design) -> None:
    exhausted = {(case, outcome) for case, metric, outcome, _ in rows if metric == "model_client_retries_exhausted"}

    assert ("blip", "pass") in exhausted
    assert ("large_down", "fail") in exhausted


def test_a_call_of_the_model_that_a_second_attempt_makes_good_is_one_without_a_reply(
    rows: list[tuple[str, str, str, str]],
) -> None:
    unanswered = {(case, outcome) for case, metric, outcome, _ in rows if metric == "model_client_unanswered"}

    assert {("blip", "fail"), ("large_down", "fail"), ("healthy", "pass")} <= unanswered
    assert ("healthy", "fail") not in unanswered


def test_a_swallowed_error_of_the_store_is_seen(rows: list[tuple[str, str, str, str]]) -> None:
    assert ("store_broken", "question_service_swallowed_errors", "fail", "") in rows


def test_every_cited_line_lies_in_the_service(design: Design) -> None:
    for metric in design.metrics:
        for place in metric.places:
            lines = Path(APP, place.path).read_text().splitlines()
            assert 1 <= place.line <= len(lines), (metric.name, place)
