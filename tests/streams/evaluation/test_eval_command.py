"""`gapwatch eval` runs the example projects, gates a build, and gives the number that production gives."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest
import yaml

from gapwatch.sinks.read import read
from tests.gapwatch_command import gapwatch
from tests.paths import ROOT
from tests.streams.judges.model_server import HttpAnswer, served, verdict

EXAMPLES = ROOT / "deploy" / "examples"
#: Scores counted by hand on the data sets of the example projects.
EXPECTED = {
    "rag_qa": {"citation_support": 1.0, "context_precision": 0.5, "context_recall": 1.0},
    "chat": {},
    "classification": {"accuracy": 0.75, "f1_macro": 7 / 9},
    "tool_calling": {"tool_success_rate": 0.5, "invalid_tool_call_rate": 0.25, "wrong_tool": 0.25},
}


@pytest.mark.parametrize("project", EXPECTED)
def test_an_example_project_runs_and_meets_its_gate(project: str, tmp_path: Path) -> None:
    found = tmp_path / "run.json"

    ran = gapwatch("eval", EXAMPLES / project / "evaluate.yaml", "--json", found)

    assert (ran.status, ran.err) == (0, "")
    run = json.loads(found.read_text())
    scores = {result["metric_id"]: result["score"] for result in run["metric_results"]}
    assert {name: scores[name] for name in EXPECTED[project]} == pytest.approx(EXPECTED[project])
    assert run["errors"] == 0


def _config(tmp_path: Path, project: str, **changed: Any) -> Path:
    config: dict[str, Any] = yaml.safe_load((EXAMPLES / project / "evaluate.yaml").read_text())
    config["dataset"] = str(EXAMPLES / project / config["dataset"])
    path = EXAMPLES / project / "evaluate.yaml"
    (tmp_path / path.name).write_text(yaml.safe_dump({**config, **changed}))
    for module in (EXAMPLES / project).glob("*.py"):
        (tmp_path / module.name).write_text(module.read_text())
    return tmp_path / path.name


def test_judges_answer_and_their_rate_is_that_of_the_store(tmp_path: Path) -> None:
    def answer(body: dict[str, Any], _headers: dict[str, str]) -> HttpAnswer:
        # Written before the run: what hands over to a colleague does not help.
        return verdict(body, "Poor" if "colleague" in body["messages"][-1]["content"] else "Excellent")

    store, found = tmp_path / "s.duckdb", tmp_path / "run.json"
    with served(answer) as server:
        llm = {"base_url": server.base_url, "api_key": "dummy", "model": "small"}
        ran = gapwatch("eval", _config(tmp_path, "chat", llm=llm), "--store", store, "--json", found)

    assert ran.status == 0, ran.err
    run = json.loads(found.read_text())
    result = next(one for one in run["metric_results"] if one["metric_id"] == "helpfulness_llm_judge")
    assert result["score"] == pytest.approx(2 / 3)
    odd = next(one for one in run["examples"] if one["id"] == "odd")
    assert odd["outcomes"]["helpfulness_llm_judge"]["why"] == "The data shows it."
    # The store of production counts the same: two good, one bad, on the lane of the run.
    told = gapwatch("rates", "--store", store, "--lane", run["lane"], "--per", "all", "--format", "json").json()
    rate = next(row for row in told if row["metric"] == "helpfulness_llm_judge")
    assert (rate["bad"], rate["units"]) == (1, 3)
    assert result["details"]["lower"] == pytest.approx(1 - rate["upper"])
    versions = read(store).sql("SELECT DISTINCT metric_version FROM gaps WHERE metric = 'helpfulness_llm_judge'")
    exported = gapwatch("metrics", "export", "--task", "chat", "--model", "llm/small")
    from gapwatch.scorers.loading.load import parse_portfolio

    online = next(one for one in parse_portfolio(exported.out).metrics if one.name == "helpfulness_llm_judge")
    assert versions.to_pylist() == [{"metric_version": online.version}]


def test_a_missed_gate_is_status_1_and_a_failed_case_in_junit(tmp_path: Path) -> None:
    gate = {"accuracy": "lower bound >= 0.9", "error_rate": "<= 0"}
    junit, summary = tmp_path / "j.xml", tmp_path / "summary.md"

    ran = gapwatch(
        "eval", _config(tmp_path, "classification", gate=gate), "--junit", junit, "--markdown", summary, "--quiet"
    )

    assert (ran.status, ran.out) == (1, "")
    assert "the lower bound of accuracy is 0.1916, but >= 0.9 is asked for" in ran.err
    assert "1 of 2 bounds are met." in summary.read_text()
    gates, examples = ElementTree.fromstring(junit.read_bytes())
    assert [(suite.get("tests"), suite.get("failures")) for suite in (gates, examples)] == [("2", "1"), ("4", "1")]


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"gate": {"accuracy": "0.9"}}, 'write ">= 0.9"'),
        ({"gate": {"wrong_tool": "<= 1"}}, "gate: wrong_tool: it is no metric of this evaluation"),
        ({"metric": ["accuracy"]}, "metric: Extra inputs are not permitted; the keys are entrypoint, task"),
        ({"entrypoint": {"module": "classification_app", "function": "clasify"}}, "it has classify"),
        ({"dataset": "none.jsonl"}, "none.jsonl: no such file"),
    ],
)
def test_a_wrong_configuration_is_refused_with_what_to_write(changed: Any, told: str, tmp_path: Path) -> None:
    ran = gapwatch("eval", _config(tmp_path, "classification", **changed), "--quiet")

    assert ran.status == 2
    assert told in ran.err


PORTFOLIO = """
gapwatch: 1
portfolio: tickets
version: 1
pipeline: classification_app
components: [{id: app, kind: llm}]
metrics:
  - name: named_in_reference
    component: app
    purpose: "the label is part of the reference"
    claim: {form: check, field: output, substring_of: attributes.reference}
"""


def test_a_store_of_an_evaluation_with_references_answers_every_reader(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(PORTFOLIO)
    store, found = tmp_path / "s.duckdb", tmp_path / "run.json"
    config = _config(tmp_path, "classification", portfolio="p.yaml", gate={})

    refused = gapwatch("check", tmp_path / "p.yaml")
    ran = gapwatch("eval", config, "--store", store, "--json", found)

    told = " ".join((refused.err + refused.out).split())  # wrapped to the width of the terminal
    assert (refused.status, "in the configuration of gapwatch eval" in told) == (2, True)
    assert ran.status == 0, ran.err
    lane = json.loads(found.read_text())["lane"]
    assert "named_in_reference" in gapwatch("rates", "--store", store, "--lane", lane).out
    for words in (["rates", "--ratios"], ["alerts", "--watched"], ["ledger"], ["gaps"], ["judge", "agreement"]):
        read_again = gapwatch(*words, "--store", store)
        assert (read_again.status, "offline evaluation" in read_again.err) == (0, False), (words, read_again.err)


def test_examples_come_from_a_query_over_a_store(tmp_path: Path) -> None:
    store, found, first = tmp_path / "s.duckdb", tmp_path / "run.json", _config(tmp_path, "classification", gate={})
    assert gapwatch("eval", first, "--store", store, "--quiet").status == 0
    query = """SELECT split_part(trace_id, ':', 2) AS id, 'refund ' || id AS text, 'billing' AS reference
        FROM gaps GROUP BY 1 ORDER BY id LIMIT 3"""

    ran = gapwatch("eval", first, "--store", store, "--from-store", query, "--json", found)
    in_file = _config(
        tmp_path, "classification", gate={}, dataset=None, from_store={"store": str(store), "query": query}
    )
    again = gapwatch("eval", in_file, "--json", tmp_path / "again.json")

    assert (ran.status, again.status) == (0, 0), ran.err + again.err
    run, second = (json.loads(path.read_text()) for path in (found, tmp_path / "again.json"))
    assert len(run["examples"]) == 3
    assert [one["inputs"] for one in run["examples"]] == [one["inputs"] for one in second["examples"]]
    assert all(one["reference"] == "billing" for one in run["examples"])
    for wrong, told in (("SELEC 1", "the query is refused"), ("DELETE FROM gaps", "not a reading statement")):
        refused = gapwatch("eval", first, "--store", store, "--from-store", wrong)
        assert (refused.status, told in refused.err) == (2, True), refused.err
    assert "--from-store needs the store" in gapwatch("eval", first, "--from-store", query).err
