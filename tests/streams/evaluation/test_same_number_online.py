"""A metric of an evaluation, exported and replayed on the same traces, has the same version, outcomes and rate."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from gapwatch.sinks.read import read
from tests.gapwatch_command import gapwatch
from tests.paths import ROOT
from tests.streams.judges.model_server import HttpAnswer, served, verdict

PROJECT = ROOT / "deploy" / "examples" / "rag_qa"
#: Metrics of the task that need no reference answer; two of them are judged.
METRICS = ["answer_quality_llm_judge", "rag_faithfulness_llm_judge", "citation_support", "latency_ms"]


def _judging(body: dict[str, Any], _headers: dict[str, str]) -> HttpAnswer:
    """Answer as written here before any run: the moon is answered poorly; the faithfulness of shipping is poor."""
    text = body["messages"][-1]["content"]
    is_faithfulness = "attributes.context" in text
    poor = 'We ship on Mondays."' in text if is_faithfulness else "moon" in text
    return verdict(body, "Poor" if poor else "Excellent")


def _configured(folder: Path, base_url: str) -> Path:
    config: dict[str, Any] = yaml.safe_load((PROJECT / "evaluate.yaml").read_text())
    for key in ("preset", "gate"):
        del config[key]
    llm = {"base_url": base_url, "api_key": "dummy", "model": "small"}
    config |= {"dataset": str(PROJECT / "dev.jsonl"), "metrics": METRICS, "llm": llm}
    (folder / "rag_qa_app.py").write_text((PROJECT / "rag_qa_app.py").read_text())
    path = folder / "evaluate.yaml"
    path.write_text(yaml.safe_dump(config))
    return path


def _rows(store: Path) -> list[dict[str, Any]]:
    sql = f"""SELECT trace_id, metric, metric_version, outcome, score, band FROM gaps
        WHERE metric IN ({", ".join(f"'{name}'" for name in METRICS)}) ORDER BY ALL"""
    return read(store).sql(sql).to_pylist()


def _rates(store: Path) -> list[tuple[Any, ...]]:
    found = gapwatch("rates", "--store", store, "--per", "all", "--format", "json").json()
    return sorted((one["metric"], one["bad"], one["units"], one["rate"], one["lower"], one["upper"]) for one in found)


def test_what_was_evaluated_offline_is_the_same_number_online(tmp_path: Path) -> None:
    traces, found = tmp_path / "traces.jsonl", tmp_path / "run.json"
    offline, online = tmp_path / "offline.duckdb", tmp_path / "online.duckdb"
    with served(_judging) as server:
        ran = gapwatch(
            "eval", _configured(tmp_path, server.base_url), "--traces", traces, "--store", offline, "--json", found
        )
        assert ran.status == 0, ran.err
        exported = gapwatch(
            "metrics", "export", "--task", "rag_qa", "--pipeline", "answer_question", "--model", "llm/small"
        )
        (tmp_path / "portfolio.yaml").write_text(exported.out)
        provider = {"adapter": "http", "base_url": server.base_url}
        prices = {"llm/small": {"input": 0, "output": 0}}
        (tmp_path / "judges.yaml").write_text(yaml.safe_dump({"providers": {"llm": provider}, "prices": prices}))
        replayed = gapwatch(
            "replay", traces, "--portfolio", tmp_path / "portfolio.yaml", "--judges", tmp_path / "judges.yaml",
            "--store", online, "--quiet",
        )  # fmt: skip
    assert replayed.status == 0, replayed.err

    results = {one["metric_id"]: one for one in json.loads(found.read_text())["metric_results"]}
    assert results["answer_quality_llm_judge"]["score"] == pytest.approx(2 / 3)
    assert results["rag_faithfulness_llm_judge"]["score"] == pytest.approx(2 / 3)
    assert results["citation_support"]["score"] == 1.0
    # The same version, outcomes and scores of each example; production keeps only a part of the rows that pass.
    kept = {(row["trace_id"], row["metric"]): row for row in _rows(offline)}
    rows = _rows(online)
    failing = {(row["metric"], row["trace_id"].split(":")[-1]) for row in rows if row["outcome"] == "fail"}
    assert failing == {("answer_quality_llm_judge", "moon"), ("rag_faithfulness_llm_judge", "ship")}
    assert all(kept[row["trace_id"], row["metric"]] == row for row in rows)
    assert _rates(online) == _rates(offline)
    assert len(_rates(online)) >= len(METRICS)
    for name, bad, units, _, lower, upper in _rates(online):
        told = results[name]["details"]
        if told["reports"] == "pass_rate":
            assert results[name]["score"] == pytest.approx(1 - bad / units)
            assert (told["lower"], told["upper"]) == pytest.approx((1 - upper, 1 - lower))
    versions = {row["metric"]: row["metric_version"] for row in _rows(offline)}
    assert versions == {name: results[name]["details"]["version"] for name in METRICS}
