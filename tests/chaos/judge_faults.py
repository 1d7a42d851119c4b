"""Ten thousand requests, 30 % of the answers faulty in 30 ways, the judging process killed again and again.

    python -m tests.chaos.judge_faults [--requests 10000] [--kills 20] [--cap 30] [--seed 1]

A server of its own process answers, bills, and refuses the key for a while; the judge is a process that is killed by
SIGKILL before a step of a commit, after one, while it leases money, or while calls are under way, and started again.
What is asserted at the end: each request ended once, as a verdict or an error or shed at the cap; the ledger balances;
what the server has billed is at most what is set aside, and that is at most the cap and one call of each process; the
key, whole or in half or in base64, is in no file, log or output.
"""

from __future__ import annotations

import argparse
import gzip
import json
import logging
import multiprocessing
import os
import random
import signal
import tempfile
import time
from collections import Counter
from datetime import datetime
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from unittest.mock import patch

import orjson

from gapwatch.sinks.store.ledger import imbalance
from gapwatch.sinks.store.store import Store
from gapwatch.sinks.store.transaction import Step
from gapwatch.sinks.verdicts.budget_leases import JudgeMoney
from gapwatch.streams.judges.models.model_maker import model_access
from gapwatch.streams.judges.settings import JudgeSettings
from gapwatch.streams.judges.workers.judge_start import judge_store
from tests.chaos.key_search import KEY, places_of_the_key
from tests.scorers.judges.rubrics import judged_metric, portfolio_of
from tests.streams.judges.judged_store import scored_store, trace
from tests.streams.judges.model_server import HttpAnswer, ServerThread, completion, verdict

FAULT_RATE = 0.3
PRICE = (1e-6, 4e-6)
#: Seconds for which the key is refused, and after which share of the answers that begins.
REFUSED_SECONDS, REFUSED_AFTER = 60.0, 0.3
#: Where the process dies: before a step of the n-th commit, after it, at the n-th lease, at the n-th answer.
POINTS = ("gaps", "ticks", "ledger", "judge_requests", "offsets", "commit", "after", "lease", "answer")


def faults_of(body: dict[str, Any], good: HttpAnswer, key: str) -> dict[str, tuple[HttpAnswer, float]]:
    """Return every fault by its name, with the calls that the provider bills for it."""
    text = orjson.loads(good.body)["choices"][0]["message"]["content"]
    fields = orjson.loads(text)
    call = fields["call"]
    refusal = {"choices": [{"message": {"content": None, "refusal": "I can't."}, "finish_reason": "stop"}]}
    tools = {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "function": {"name": "f"}}]}
    usage = {"prompt_tokens": 500, "completion_tokens": 40}
    half = len(good.body) // 2
    dumped = orjson.dumps

    def error(status: int, **said: Any) -> HttpAnswer:
        return HttpAnswer(status, dumped({"error": {"message": "no", **said}}))

    return {
        "429": (HttpAnswer(429, b'{"error": {"message": "slow"}}'), 0),
        "429 with a wait": (HttpAnswer(429, b'{"error": {"message": "slow"}}', {"retry-after-ms": "5"}), 0),
        "500": (HttpAnswer(500, b"oops"), 0),
        "503": (HttpAnswer(503, b"<html>busy</html>", {"content-type": "text/html"}), 0),
        "400": (error(400), 0),
        "403": (error(403), 0),
        "404": (error(404, code="model_not_found"), 0),
        "402": (error(402), 0),
        "error that holds the key": (error(400, message=f"bad key {key}"), 0),
        "error at status 200": (HttpAnswer(200, dumped({"error": {"message": "busy", "code": "429"}})), 0),
        "hang": (HttpAnswer(200, good.body, seconds=1.0), 1),
        "drip": (HttpAnswer(200, good.body, drip_seconds=0.2), 1),
        "cut body": (HttpAnswer(200, good.body, sent=half), 1),
        "no body": (HttpAnswer(200, good.body, sent=0), 1),
        "length too short": (HttpAnswer(200, good.body, length=half), 1),
        "length too long": (HttpAnswer(200, good.body, length=2 * len(good.body)), 1),
        "gzip": (HttpAnswer(200, gzip.compress(good.body), {"content-encoding": "gzip"}), 1),
        "broken gzip": (HttpAnswer(200, gzip.compress(good.body)[:-20], {"content-encoding": "gzip"}), 1),
        "huge body": (HttpAnswer(200, good.body + b" " * 5_000_000), 1),
        "invalid UTF-8": (HttpAnswer(200, good.body.replace(b"data", b"\xff\xfe")), 1),
        "refusal": (HttpAnswer(200, dumped({"model": "small-2026-01-01", "usage": usage, **refusal})), 1),
        "empty choices": (completion("x", choices=[]), 1),
        "length": (completion(text[:20], choices=[{"message": {"content": text[:20]}, "finish_reason": "length"}]), 1),
        "tools instead of text": (completion("", choices=[{"message": tools, "finish_reason": "tool_calls"}]), 1),
        "fenced JSON": (completion(f"```json\n{text}\n```"), 1),
        "off the scale": (completion(dumped({**fields, "score": "Superb"}).decode()), 1),
        "duplicate keys": (
            completion(f'{{"call": "{call}", "justification": "a", "score": "Good", "score": "Poor"}}'), 1
        ),
        "NaN": (completion(f'{{"call": "{call}", "justification": "a", "score": NaN}}'), 1),
        "verdict that holds the key": (completion(dumped({**fields, "justification": f"said {key}"}).decode()), 1),
        "billed twice": (verdict(body, "Good", usage={"prompt_tokens": 1_000, "completion_tokens": 80}), 2),
        "billed beyond the reserve": (
            verdict(body, "Good", usage={"prompt_tokens": 9_000, "completion_tokens": 720}), 18
        ),
        "no usage": (verdict(body, "Good", usage=None), 1),
    }  # fmt: skip


class FaultyProvider:
    """Answers by chance, and bills."""

    def __init__(self, seed: int, refused_after: int, refused_seconds: float) -> None:
        self._rng = random.Random(seed)
        self._refused_after, self._refused_seconds = refused_after, refused_seconds
        self._refused_since = 0.0
        self.usd = self.largest = 0.0
        self.seen: Counter[str] = Counter()

    def answer(self, body: dict[str, Any], headers: dict[str, str]) -> HttpAnswer:
        """Answer one request."""
        key = headers["authorization"].removeprefix("Bearer ")
        if not self._refused_since and self.seen.total() >= self._refused_after:
            self._refused_since = time.monotonic()
        if self._refused_since and time.monotonic() - self._refused_since < self._refused_seconds:
            self.seen["401 for a while"] += 1
            return HttpAnswer(401, orjson.dumps({"error": {"message": f"Incorrect API key provided: {key}"}}))
        good, calls, name = verdict(body, self._rng.choice(["Good", "Poor"])), 1.0, "good"
        if self._rng.random() < FAULT_RATE:
            faults = faults_of(body, good, key)
            name = self._rng.choice([*faults])
            good, calls = faults[name]
        self.seen[name] += 1
        usd = calls * (500 * PRICE[0] + 40 * PRICE[1])
        self.usd += usd
        self.largest = max(self.largest, usd)
        return good


def serve_faults(pipe: Connection, seed: int, refused_after: int, refused_seconds: float) -> None:
    provider = FaultyProvider(seed, refused_after, refused_seconds)
    server = ServerThread(provider.answer)
    pipe.send(server.base_url)
    pipe.recv()
    pipe.send((provider.usd, provider.largest, dict(provider.seen)))


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


def _judge(path: str, base_url: str, cap: float, point: str, at: int, output: str) -> None:
    file = os.open(output, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.dup2(file, 1)
    os.dup2(file, 2)
    logging.basicConfig(level=logging.DEBUG)
    portfolio = _portfolio(cap)
    provider = {
        "adapter": "http", "base_url": base_url, "timeout_seconds": 0.5, "concurrency": 64, "attempts": 4,
        "first_delay_seconds": 0.01, "longest_delay_seconds": 0.05, "breaker_seconds": 0.05, "key_env": "FAULT_KEY",
    }  # fmt: skip
    prices = {"*": {"input": 1e6 * PRICE[0], "output": 1e6 * PRICE[1]}}
    settings = JudgeSettings.model_validate({"providers": {"*": provider}, "prices": prices, "max_output_tokens": 200})
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
        access = model_access(settings)
        judge_store(store, [portfolio], access, on_batch=on_batch)


def _portfolio(cap: float) -> Any:
    return portfolio_of(judged_metric(), budget={"judge_usd_per_week": cap})


@patch.dict(os.environ, {"FAULT_KEY": KEY})
def fault_run(
    folder: Path, requests: int, kills: int, cap: float, seed: int = 1, refused_seconds: float = REFUSED_SECONDS
) -> dict[str, Any]:
    """Run it; return what the store holds at the end."""
    context = multiprocessing.get_context("spawn")
    path = scored_store(folder, _portfolio(cap), [trace(i) for i in range(requests)])
    here, there = context.Pipe()
    output = folder / "output.txt"
    server = context.Process(
        target=serve_faults, args=(there, seed, int(REFUSED_AFTER * requests), refused_seconds), daemon=True
    )
    server.start()
    base_url = here.recv()
    rng, killed, began = random.Random(seed), 0, time.perf_counter()
    while True:
        point = POINTS[killed % len(POINTS)] if killed < kills else ""
        child = context.Process(
            target=_judge,
            args=(str(path), base_url, cap, point, rng.randint(1, 2) if requests > 5_000 else 1, str(output)),
        )
        child.start()
        child.join()
        if child.exitcode == 0:
            break
        assert child.exitcode == -signal.SIGKILL, child.exitcode
        killed += 1
    here.send("end")
    usd, largest, seen = here.recv()
    server.join(10)
    return {
        "killed": killed, "seconds": round(time.perf_counter() - began, 1), **_at_the_end(path),
        "billed_usd": round(usd, 4), "largest_usd": largest, "answers": dict(sorted(seen.items())),
        "with_the_key": places_of_the_key(folder),
    }  # fmt: skip


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
    processes = kills + 1
    assert found["billed_usd"] <= found["leased_usd"] + 1e-3, found
    assert found["leased_usd"] <= cap + processes * found["largest_usd"] + 1e-3, found
    assert found["with_the_key"] == [], found


def main() -> None:
    """Run, check, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--cap", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = fault_run(Path(folder), asked.requests, asked.kills, asked.cap, asked.seed)
    print(json.dumps(found))
    check(found, asked.requests, asked.kills, asked.cap)


if __name__ == "__main__":
    main()
