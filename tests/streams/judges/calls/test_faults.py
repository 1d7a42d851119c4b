"""Faults of providers and kills of the worker together: every request ends once, and never over the cap."""

from __future__ import annotations

import random
from pathlib import Path

from gapwatch.scorers.judges.chat_model import ChatCall, ChatReply, ModelFailure
from gapwatch.scorers.judges.scripted_model import verdict_reply
from gapwatch.streams.pipeline.judge_result import JudgeResult
from tests.scorers.judges.rubrics import judged_metric, portfolio_of
from tests.streams.judges.judged_store import imbalance_of, judge, query, scored_store, states, trace


class Killed(BaseException):
    """Ends a run in mid work, as a signal would."""


def test_every_request_ends_once_over_faults_and_kills_and_within_the_cap(tmp_path: Path) -> None:
    portfolio = portfolio_of(judged_metric(), budget={"judge_usd_per_week": 0.9})
    total = 600
    path = scored_store(tmp_path, portfolio, [trace(i) for i in range(total)])
    rng = random.Random(7)
    faults: list[ModelFailure | str] = [
        ModelFailure("rate_limited", "", 0.001), ModelFailure("unavailable"), ModelFailure("timeout"),
        ModelFailure("cut_off"), ModelFailure("empty"), "bad json", "refusal",
    ]  # fmt: skip

    def script(call: ChatCall) -> ChatReply | ModelFailure:
        if rng.random() >= 0.2:
            return verdict_reply(call, rng.choice(["Good", "Poor"]))
        fault = rng.choice(faults)
        if isinstance(fault, ModelFailure):
            return fault
        return ChatReply("", "m-0101", 10, 1, refusal="no") if fault == "refusal" else ChatReply("{", "m-0101", 10, 1)

    runs = 0
    for after in (2, 1, 3, 1, 2, 0):
        kept = 0

        def on_batch(result: JudgeResult, after: int = after) -> None:
            nonlocal kept
            kept += 1
            if after and kept >= after:
                raise Killed

        runs += 1
        try:
            judge(path, portfolio, script, (1e-6, 1e-6), on_batch, provider={"concurrency": 8, "attempts": 4})
        except Killed:
            continue
        break
    left = judge(path, portfolio, script, (1e-6, 1e-6))

    assert left.left == 0
    assert query(path, "SELECT count(*), count(DISTINCT id) FROM internal.judge_closed") == [(total, total)]
    assert sum(states(path, "faithful").values()) == total
    assert "pending" not in states(path, "faithful")
    rows = query(path, "SELECT count(*), count(DISTINCT source_offset) FROM gaps WHERE judge = 'mini'")
    shed = states(path, "faithful").get("shed_budget", 0)
    assert rows == [(total - shed, total - shed)]
    assert query(path, "SELECT sum(usd) <= 0.9 FROM internal.judge_money") == [(True,)]
    assert imbalance_of(path) == 0
