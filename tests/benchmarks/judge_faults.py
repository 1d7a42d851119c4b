"""Ten thousand requests, a fifth of the answers faulty, the judging process killed at named points again and again.

    python -m tests.benchmarks.judge_faults [--requests 10000] [--kills 20] [--cap 12]

A server of its own process answers; the judge is a process that is killed by SIGKILL before a step of a commit, after
one, while it leases money, or while calls are under way, and started again. What is asserted at the end: each request
ended once, as a verdict or an error or shed at the cap; the ledger balances; leases and spending are under the cap.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import signal
import tempfile
import time
from collections.abc import Callable
from datetime import datetime
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import orjson

from gapwatch.sinks.store.ledger import imbalance
from gapwatch.sinks.store.store import Store
from gapwatch.sinks.store.transaction import Step
from gapwatch.sinks.verdicts.budget_leases import JudgeMoney
from gapwatch.streams.judges.models.model_maker import ModelAccess, model_maker
from gapwatch.streams.judges.settings import JudgeSettings
from gapwatch.streams.judges.workers.store_run import judge_store
from tests.scorers.judges.rubrics import judged_metric, portfolio_of
from tests.streams.judges.judged_store import scored_store, trace
from tests.streams.judges.model_server import HttpAnswer, ServerThread, completion, verdict

FAULT_RATE = 0.2
PRICE = (1e-6, 4e-6)
#: Where the process dies: before a step of the n-th commit, after it, at the n-th lease, at the n-th answer.
POINTS = ("gaps", "ticks", "ledger", "judge_requests", "offsets", "commit", "after", "lease", "answer")


def _answer(rng: random.Random) -> Callable[[dict[str, Any], dict[str, str]], HttpAnswer]:
    def answer(body: dict[str, Any], headers: dict[str, str]) -> HttpAnswer:
        good = verdict(body, rng.choice(["Good", "Poor"]))
        if rng.random() >= FAULT_RATE:
            return good
        refusal = {"choices": [{"message": {"content": None, "refusal": "I can't."}, "finish_reason": "stop"}]}
        return rng.choice(
            [
                HttpAnswer(429, b'{"error": {"message": "slow"}}', {"retry-after-ms": "5"}),
                HttpAnswer(500, b"oops"),
                HttpAnswer(200, good.body, seconds=1.0),  # longer than the judge waits
                HttpAnswer(200, good.body, sent=len(good.body) // 2),
                completion('{"score": "Good"'),
                completion("x", choices=[]),
                HttpAnswer(200, orjson.dumps({"model": "small-2026-01-01", **refusal})),
            ]
        )

    return answer


def _serve(pipe: Connection, seed: int) -> None:
    server = ServerThread(_answer(random.Random(seed)))
    pipe.send(server.base_url)
    pipe.recv()


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class _Mortal(Store):
    """A store whose process dies at a named point of the n-th commit."""

    point, at, commits = "", 0, 0

    def write_slices(self, slices: Any, kept_at: datetime) -> int:
        self.commits += 1
        seq = super().write_slices(slices, kept_at)
        if self.point == "after" and self.commits == self.at:
            _die()
        return seq

    def steps(self) -> list[tuple[str, Step]]:
        steps = list(super().steps())
        names = [name for name, _ in steps]
        if self.commits == self.at and self.point in names:
            steps.insert(names.index(self.point), ("die", lambda transaction: _die()))
        return steps


def _judge(path: str, base_url: str, cap: float, point: str, at: int) -> None:
    portfolio = _portfolio(cap)
    provider = {
        "adapter": "http", "base_url": base_url, "timeout_seconds": 0.5, "concurrency": 64, "attempts": 4,
        "first_delay_seconds": 0.01, "longest_delay_seconds": 0.05, "breaker_seconds": 0.05,
    }  # fmt: skip
    settings = JudgeSettings.model_validate({"providers": {"*": provider}, "max_output_tokens": 200})
    _Mortal.point, _Mortal.at = point, at
    if point == "lease":
        leases, lease = 0, JudgeMoney.lease

        def mortal_lease(self: JudgeMoney, *arguments: Any) -> Any:
            nonlocal leases
            leases += 1
            granted = lease(self, *arguments)
            if leases == at:
                _die()
            return granted

        JudgeMoney.lease = mortal_lease  # type: ignore[method-assign, assignment]
    batches = 0

    def on_batch(result: object) -> None:
        nonlocal batches
        batches += 1
        if point == "answer" and batches == at:
            _die()  # with calls under way

    with _Mortal.open(path) as store:
        access = ModelAccess(settings, model_maker(settings), lambda model: PRICE)
        judge_store(store, [portfolio], access, on_batch=on_batch)


def _portfolio(cap: float) -> Any:
    return portfolio_of(judged_metric(), budget={"judge_usd_per_week": cap})


def fault_run(folder: Path, requests: int, kills: int, cap: float, seed: int = 1) -> dict[str, Any]:
    """Run it; return what the store holds at the end."""
    context = multiprocessing.get_context("spawn")
    path = scored_store(folder, _portfolio(cap), [trace(i) for i in range(requests)])
    here, there = context.Pipe()
    server = context.Process(target=_serve, args=(there, seed), daemon=True)
    server.start()
    base_url = here.recv()
    rng, killed, began = random.Random(seed), 0, time.perf_counter()
    while True:
        point = POINTS[killed % len(POINTS)] if killed < kills else ""
        child = context.Process(
            target=_judge, args=(str(path), base_url, cap, point, rng.randint(1, 2) if requests > 5_000 else 1)
        )
        child.start()
        child.join()
        if child.exitcode == 0:
            break
        assert child.exitcode == -signal.SIGKILL, child.exitcode
        killed += 1
    here.send("end")
    server.join(10)
    return {"killed": killed, "seconds": round(time.perf_counter() - began, 1), **_at_the_end(path)}


def _at_the_end(path: Path) -> dict[str, Any]:
    with Store.open(path) as store:

        def one(sql: str) -> tuple[Any, ...]:
            return store.query(sql)[0]

        return {
            "requests": one("SELECT count(DISTINCT id) FROM internal.judge_requests")[0],
            "closed": one("SELECT count(*) FROM internal.judge_closed")[0],
            "closed_distinct": one("SELECT count(DISTINCT id) FROM internal.judge_closed")[0],
            "states": dict(store.query("SELECT state, count(*) FROM internal.judge_closed GROUP BY 1 ORDER BY 1")),
            "rows": one("SELECT count(*) FROM gaps WHERE judge IS NOT NULL")[0],
            "rows_distinct": one("SELECT count(DISTINCT source_offset) FROM gaps WHERE judge IS NOT NULL")[0],
            "calls": dict(store.query("SELECT kind, count(*) FROM judge_calls GROUP BY 1 ORDER BY 1")),
            "paid_usd": round(one("SELECT coalesce(sum(usd), 0) FROM judge_calls")[0], 4),
            "leased_usd": round(one("SELECT coalesce(sum(usd), 0) FROM internal.judge_money")[0], 4),
            "ledger_imbalance": imbalance(store.cursor()),
            "pending": one("SELECT coalesce(sum(n), 0)::BIGINT FROM ledger WHERE state = 'pending'")[0],
        }


def check(found: dict[str, Any], requests: int, kills: int, cap: float) -> None:
    """Hold the end against what is promised."""
    assert found["killed"] == kills, found
    assert found["requests"] == found["closed"] == found["closed_distinct"] == requests, found
    assert found["pending"] == found["ledger_imbalance"] == 0, found
    assert set(found["states"]) <= {"pass", "fail", "error", "shed_budget"}, found
    judged = requests - found["states"].get("shed_budget", 0)
    assert found["rows"] == found["rows_distinct"] == judged, found
    assert found["paid_usd"] <= found["leased_usd"] + 1e-3 <= cap + 2e-3, found


def main() -> None:
    """Run, check, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--cap", type=float, default=30.0)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = fault_run(Path(folder), asked.requests, asked.kills, asked.cap)
    print(json.dumps(found))
    check(found, asked.requests, asked.kills, asked.cap)


if __name__ == "__main__":
    main()
