"""Batches: each request ends once and is paid once, whatever is killed or fails on the way."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

from gapwatch.scorers.judges.prompt import request_bytes
from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.sinks.reading.verdict_archive import VerdictArchive
from gapwatch.sinks.store.store import Store
from gapwatch.streams.judges.audit.estimating import estimate_judges
from gapwatch.streams.judges.audit.rebuilding import Rebuilder
from gapwatch.streams.judges.batches.anthropic_batches import read_answers
from gapwatch.streams.judges.models.model_maker import model_access
from gapwatch.streams.judges.settings import JudgeSettings
from gapwatch.streams.judges.workers.judge_start import judge_store
from gapwatch.streams.pipeline.judge_result import JudgeResult
from tests.scorers.judges.rubrics import judged_metric, portfolio_of
from tests.streams.judges.batch_server import USAGE, BatchServer, served_batches, verdict_text
from tests.streams.judges.judged_store import imbalance_of, query, scored_store, states, trace

#: US dollars per million tokens, and what one answer costs at half of it.
PRICE = {"input": 2.0, "output": 10.0}
USD = (USAGE[0] * PRICE["input"] + USAGE[1] * PRICE["output"]) / 1e6 / 2
APIS = ("openai", "anthropic")


def settings_of(url: str, api: str, **changed: Any) -> dict[str, Any]:
    provider = {
        "adapter": "http", "base_url": url, "mode": "batch", "batch_api": api, "poll_seconds": 0.02,
        "batch_seconds": 0.2, **changed,
    }  # fmt: skip
    return {
        "providers": {"openai": provider},
        "prices": {"openai/gpt-4.1-mini": PRICE},
        "usd_per_week": {"faithful": 5.0},
    }


def stored(folder: Path, n: int) -> tuple[Path, Portfolio]:
    portfolio = portfolio_of(judged_metric())
    return scored_store(folder, portfolio, [trace(i, output=f"Order {i}.") for i in range(n)]), portfolio


def judged(
    store: Path, portfolio: Portfolio, url: str, api: str, patience: float = 30.0, **changed: Any
) -> JudgeResult:
    settings = JudgeSettings.model_validate(settings_of(url, api, **changed))
    with Store.open(store) as opened:
        return judge_store(opened, [portfolio], model_access(settings), patience_seconds=patience)


def text_in(body: dict[str, Any]) -> str:
    return str(body["messages"][-1]["content"])


def money(store: Path) -> tuple[float, float]:
    """What calls cost, and what was set aside for them."""
    ((usd, aside),) = query(
        store,
        """SELECT (SELECT coalesce(sum(usd), 0) FROM judge_calls),
        (SELECT coalesce(sum(usd), 0) FROM internal.judge_money)""",
    )
    return usd, aside


@pytest.mark.parametrize("api", APIS)
def test_requests_end_once_at_half_the_price_and_say_that_they_came_from_a_batch(tmp_path: Path, api: str) -> None:
    store, portfolio = stored(tmp_path, 30)
    server = BatchServer(lambda n, body: verdict_text(body, "Poor" if "Order 7." in text_in(body) else "Good"))
    with served_batches(server) as url:
        result = judged(store, portfolio, url, api, batch_requests=12)

    assert states(store, "faithful") == {"pass": 29, "fail": 1}
    assert imbalance_of(store) == 0
    assert sorted(len(batch["asked"]) for batch in server.batches.values()) == [6, 12, 12]
    assert result.left == 0 and server.answered == 30
    assert money(store) == (pytest.approx(30 * USD), pytest.approx(30 * USD))
    ((model, batch, custom_id),) = query(
        store,
        """SELECT DISTINCT judge_model_id, row_evidence->>'$.batch.id', row_evidence->>'$.batch.custom_id'
        FROM verdicts WHERE outcome = 'fail'""",
    )
    assert model == "openai/small@2026-01-01:batch"
    assert custom_id in {custom_id for custom_id, _ in server.batches[batch]["asked"]}
    with Store.open(store) as opened:
        archive = VerdictArchive(opened.cursor())
        rebuilt = Rebuilder(archive).rebuild(archive.verdict("traces.jsonl/0/7/0/faithful"))
    if api == "openai":
        assert request_bytes(rebuilt.call) in b"".join(server.files.values())


@pytest.mark.parametrize("api", APIS)
def test_what_has_no_answer_is_asked_again_and_what_is_refused_ends(tmp_path: Path, api: str) -> None:
    store, portfolio = stored(tmp_path, 10)

    def answer(number: int, body: dict[str, Any]) -> str | None:
        text = text_in(body)
        if number == 0:
            for order, said in ((1, "expired"), (2, "errored"), (3, None), (4, "not JSON")):
                if f"Order {order}." in text:
                    return said
        if "Order 5." in text:
            return "refused"
        return "expired" if "Order 6." in text else verdict_text(body)

    server = BatchServer(answer)
    with served_batches(server) as url:
        judged(store, portfolio, url, api)

    assert states(store, "faithful") == {"pass": 8, "error": 2}
    assert imbalance_of(store) == 0
    assert [len(batch["asked"]) for batch in server.batches.values()] == [10, 5, 1]
    reasons = dict(query(store, "SELECT source_offset, reason FROM verdicts WHERE outcome = 'error'"))
    assert reasons[5].startswith("bad_request: ") and "expired" in reasons[6]
    # The answer that was not JSON was paid, too.
    assert server.answered == 9
    assert money(store) == (pytest.approx(9 * USD), pytest.approx(9 * USD))


@pytest.mark.parametrize(("code", "ends"), [("token_limit_exceeded", {"pass": 4}), ("invalid_json_line", {"error": 4})])
def test_a_failed_batch_is_given_again_if_the_provider_only_lacked_room(tmp_path: Path, code: str, ends: Any) -> None:
    store, portfolio = stored(tmp_path, 4)
    server = BatchServer(lambda n, body: verdict_text(body))

    def fail_first(step: str) -> None:
        if step == "created" and len(server.batches) == 1:
            failed = {"last": "failed", "errors": {"data": [{"code": code, "message": "-"}]}, "output_file_id": None}
            server.batches["batch_0"] |= failed

    server.at = fail_first
    with served_batches(server) as url:
        judged(store, portfolio, url, "openai")

    assert states(store, "faithful") == ends
    assert imbalance_of(store) == 0
    paid = 4 * USD if "pass" in ends else 0.0
    assert money(store) == (pytest.approx(paid), pytest.approx(paid))
    (rows,) = query(store, "SELECT count(*), bool_and(state = 'done') FROM internal.judge_batches")
    assert rows == (len(server.batches), True)


def test_an_estimate_knows_the_price_of_a_batch(tmp_path: Path) -> None:
    _, portfolio = stored(tmp_path, 3)
    usd = {}
    for mode in ("calls", "batch"):
        settings = JudgeSettings.model_validate(settings_of("http://127.0.0.1:9/v1", "openai", mode=mode))
        (one,) = estimate_judges(portfolio, [tmp_path / "traces.jsonl"], settings)
        assert one.usd_per_call is not None and one.worst_usd_per_call is not None
        usd[mode] = (one.usd_per_call, one.worst_usd_per_call)

    assert usd["batch"] == (pytest.approx(usd["calls"][0] / 2), pytest.approx(usd["calls"][1] / 2))


#: Where the judge is killed: step of the server, and how often the step was reached before.
KILLS = {
    "openai": ["upload", "uploaded", "create", "created", "poll", "download", "downloaded"],
    "anthropic": ["create", "created", "poll", "download", "downloaded"],
}


def run_judges(store: Path, settings: Path) -> subprocess.Popen[bytes]:
    command = [
        sys.executable,
        "-m",
        "gapwatch.scorers.command_line",
        "judge",
        "run",
        "--store",
        store,
        "--judges",
        settings,
    ]
    return subprocess.Popen(
        [*map(str, command), "--patience", "20"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


@pytest.mark.slow
@pytest.mark.parametrize(("api", "step"), [(api, step) for api in APIS for step in KILLS[api]])
def test_a_kill_at_any_step_loses_nothing_and_pays_nothing_twice(tmp_path: Path, api: str, step: str) -> None:
    store, _ = stored(tmp_path, 20)
    server = BatchServer(lambda n, body: verdict_text(body))
    with served_batches(server) as url:
        settings = tmp_path / "judges.yaml"
        settings.write_text(yaml.safe_dump(settings_of(url, api)))
        running: list[subprocess.Popen[bytes]] = []

        def kill(reached: str) -> None:
            if reached == step and server.steps[step] == 1:
                os.kill(running[0].pid, signal.SIGKILL)

        server.at = kill
        running.append(run_judges(store, settings))
        running[0].communicate(timeout=120)
        assert running[0].returncode == -signal.SIGKILL
        again = run_judges(store, settings)
        _, said = again.communicate(timeout=120)
        assert again.returncode == 0, said.decode()

    assert states(store, "faithful") == {"pass": 20}
    assert imbalance_of(store) == 0
    # One batch only, so the provider bills one; each of its answers is booked once.
    assert len(server.batches) == 1 and server.answered == 20
    usd, aside = money(store)
    assert usd == pytest.approx(20 * USD)
    assert usd <= aside + 1e-9 <= 5.0


def test_a_batch_that_runs_longer_than_the_provider_answers_is_continued_by_the_next_run(tmp_path: Path) -> None:
    store, portfolio = stored(tmp_path, 5)
    server = BatchServer(lambda n, body: verdict_text(body), polls=10_000)
    down = [False]

    def fail(step: str) -> None:
        down[0] = down[0] or server.steps["poll"] >= 2
        if step == "poll" and down[0]:
            raise RuntimeError("down")

    server.at = fail
    with served_batches(server) as url:
        first = judged(store, portfolio, url, "openai", patience=0.1)
        assert first.left == 5 and states(store, "faithful") == {"pending": 5}
        server.at, server.polls = lambda step: None, 0
        second = judged(store, portfolio, url, "openai")

    assert second.left == 0 and states(store, "faithful") == {"pass": 5}
    assert len(server.batches) == 1
    assert money(store)[0] == pytest.approx(5 * USD)


def test_a_cap_is_spent_by_one_batch_after_another_and_then_ends_requests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gapwatch.streams.judges.batches.batch_lane._MONEY_SECONDS", 0.1)
    store, portfolio = stored(tmp_path, 40)
    server = BatchServer(lambda n, body: verdict_text(body))
    with served_batches(server) as url:
        settings = JudgeSettings.model_validate(settings_of(url, "openai") | {"usd_per_week": {"faithful": 0.03}})
        with Store.open(store) as opened:
            judge_store(opened, [portfolio], model_access(settings))
    found = states(store, "faithful")

    assert set(found) == {"pass", "shed_budget"} and sum(found.values()) == 40
    assert imbalance_of(store) == 0
    # The longest reply is reserved: six times what an answer costs, so some of the cap is left.
    assert 0.6 * 0.03 < money(store)[0] <= money(store)[1] + 1e-9 <= 0.03 + 1e-9
    assert server.answered == found["pass"]
    assert len(server.batches) > 1


def test_broken_results_of_a_message_batch_are_failures_of_their_requests_only() -> None:
    def line(**document: object) -> bytes:
        return orjson.dumps({"custom_id": "a", **document})

    whole = {"content": [{"type": "text", "text": "hello"}, 7], "model": 5, "usage": {"input_tokens": 2**63}}
    lines = [
        b"null", b"[1]", b"oops", line(custom_id=7), line(), line(result=3), line(result={"type": "succeeded"}),
        line(result={"type": "succeeded", "message": [1]}), line(result={"type": "errored", "error": "no"}),
        line(result={"type": "errored", "error": {"error": {"type": ["x"]}}}),
        line(result={"type": "succeeded", "message": whole}),
    ]  # fmt: skip
    *failed, last = read_answers(b"\n".join(lines))

    assert [answer.failure.kind for answer in failed if answer.failure is not None] == [
        "unavailable", "unavailable", "empty", "empty", "unavailable", "unavailable",
    ]  # fmt: skip
    assert last.reply is not None
    assert (last.reply.text, last.reply.model, last.reply.input_tokens) == ("hello", None, None)
