"""A recorded conversation is judged whole, by what its recorded judge said, and its request is rebuilt."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from gapwatch.scorers.judges.prompt import request_bytes
from gapwatch.sinks.reading.verdict_archive import VerdictArchive
from gapwatch.sinks.store.store import Store
from gapwatch.streams.judges.audit.rebuilding import Rebuilder
from gapwatch.streams.judges.models.model_maker import model_access
from gapwatch.streams.judges.settings import JudgeSettings
from gapwatch.streams.judges.workers.judge_start import judge_store
from tests.deploy.demo_traces import run_script
from tests.paths import AIRLINE, ROOT
from tests.scorers.judges.rubrics import judged_metric, portfolio_of
from tests.streams.judges.judged_store import imbalance_of, priced, query, scored_store
from tests.streams.judges.model_server import HttpAnswer, nonce_in, served

RECORDED = json.loads(gzip.decompress((ROOT / "tests/data/judges/tau2_prompt.json.gz").read_bytes()))


def test_a_conversation_is_judged_as_its_recorded_judge_did(tmp_path: Path) -> None:
    file = ROOT / "tests/data/tau2/airline_gpt-4o-2024-11-20.json.gz"
    records = map(json.loads, run_script(AIRLINE / "convert_tau2.py", file).stdout.splitlines())
    trace = next(t for t in records if t["attributes"]["task_id"] == RECORDED["task_id"]) | {"pipeline": "p"}
    metric = judged_metric(
        inputs=["trace.transcript"], scale=["pass", "fail"], criterion=RECORDED["judge_system_prompt"]
    )
    metric = {key: value for key, value in metric.items() if key != "component"} | {"scope": "trace"}
    portfolio = portfolio_of(metric)
    store = scored_store(tmp_path, portfolio, [trace])
    sent: list[dict[str, Any]] = []

    def answer(body: dict[str, Any], headers: dict[str, str]) -> HttpAnswer:
        sent.append(body)
        said = {
            "call": nonce_in(body),
            "justification": RECORDED["judge_justification"],
            "score": RECORDED["judge_verdict"],
        }
        usage = {
            "prompt_tokens": RECORDED["judge_prompt_tokens"],
            "completion_tokens": RECORDED["judge_completion_tokens"],
        }
        reply = {"model": "gpt-4o-2024-11-20", "usage": usage, "choices": [{"message": {"content": json.dumps(said)}}]}
        return HttpAnswer(200, json.dumps(reply).encode())

    with served(answer) as server:
        provider = {"adapter": "http", "base_url": server.base_url}
        settings = JudgeSettings.model_validate({"providers": {"*": provider}, "prices": priced((2.5e-6, 1e-5))})
        access = model_access(settings)
        with Store.open(store) as opened:
            judge_store(opened, [portfolio], access)
            archive = VerdictArchive(opened.cursor())
            rebuilt = Rebuilder(archive).rebuild(archive.verdict("traces.jsonl/0/0/-1/faithful"))

    assert query(store, "SELECT outcome, judge_model_id FROM verdicts") == [
        (RECORDED["judge_verdict"], "openai/gpt-4o@2024-11-20")
    ]
    ((usd,),) = query(store, "SELECT sum(usd) FROM judge_calls")
    assert usd == pytest.approx(RECORDED["judge_prompt_tokens"] * 2.5e-6 + RECORDED["judge_completion_tokens"] * 1e-5)
    assert imbalance_of(store) == 0
    (body,) = sent
    assert json.loads(request_bytes(rebuilt.call)) == body
    shown = body["messages"][1]["content"]
    assert "turn 22 of 22, " in shown and "left out" not in shown.split("<<<DATA", 1)[1]
