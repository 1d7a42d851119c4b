"""Ten thousand requests, 30 % of the answers faulty in 30 ways, judged by real processes of which some are killed.

    python -m tests.chaos.judge_processes [--requests 10000] [--kills 20] [--cap 30] [--workers 3] [--seed 1]

A `gapwatch run --role score,keep` reads traces from a real broker and stores them; processes of `--role judge` answer,
against a server of its own process that answers faultily, bills, and refuses the key for a minute. One process after
another is killed by SIGKILL at any moment and started again, every fifth time the one that stores. What is asserted at
the end is what `judge_faults` asserts: each request ended once; the ledger balances; what the server has billed is at
most what is set aside, and that is at most the cap and one call of each process; the key is in no file, no log, no row
of the store and no topic. At a cap of 30 US dollars no request is shed; at 12 the cap is spent before the end.
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
from pathlib import Path
from typing import Any
from unittest.mock import patch

from gapwatch.sinks.api.endpoint_note import read_note
from tests.chaos.judge_faults import PRICE, REFUSED_AFTER, REFUSED_SECONDS, serve_faults
from tests.chaos.key_search import KEY, places_of_the_key
from tests.gapwatch_command import gapwatch
from tests.kafka_broker import running_broker
from tests.streams.judges.model_server import free_port
from tests.streams.judges.workers.judged_run import Judged
from tests.streams.run_process import Children, make_relayed_topics, trace

PORTFOLIO = """\
gapwatch: 1
portfolio: {name}
version: 1
pipeline: support
budget: {{judge_usd_per_week: {cap}}}
components:
  - {{id: answer, role: ai_core, kind: llm}}
edges: []
metrics:
  - name: helpful
    component: answer
    claim:
      form: judge
      rubric: {{criterion: Is the answer helpful?, inputs: [input, output]}}
      judges: [{{name: mini, model: openai/small}}]
"""
#: Seconds after which the lease of a killed worker is given up; five minutes in production.
LEASE_SECONDS = 5.0
_CLOSED = "SELECT count(DISTINCT id)::BIGINT AS n FROM internal.judge_closed"


class Fleet:
    """A process that stores and several that judge, which are killed and started again.

    Args:
        judged: The store.
        workers: Number of judge processes.
        chance: Chooses what is killed, and when.
    """

    def __init__(self, judged: Judged, workers: int, chance: random.Random) -> None:
        self._judged, self._chance = judged, chance
        self._started = 0
        self._listen = f"--listen=127.0.0.1:{free_port()}"  # where judges find it again
        self._start_keeper()
        self._judges = [self._start_judge() for _ in range(workers)]
        self.killed = {"stores": 0, "judges": 0}

    def _start_keeper(self) -> None:
        self._judged.start(
            self._listen, f"--judges={self._judged.judges}", "--role=score,keep", lease_seconds=LEASE_SECONDS
        )
        self._judged.wait_until(self._is_served, 60)

    def _is_served(self) -> bool:
        note = read_note(self._judged.store)
        return note is not None and note.pid == self._judged.pid

    def _start_judge(self) -> int:
        self._started += 1
        return int(self._judged.start_judge(self._started))

    def closed(self) -> int:
        """Return the number of requests that have ended."""
        return int(self._judged.live(_CLOSED)[0]["n"])

    def kill_one(self, is_keeper: bool) -> None:
        """Kill a process and start it again."""
        time.sleep(self._chance.uniform(0.0, 0.5))
        if is_keeper:
            self._judged.kill()
            self._start_keeper()
        else:
            victim = self._judges.pop(self._chance.randrange(len(self._judges)))
            assert self._judged.end_judge(victim, signal.SIGKILL) == -signal.SIGKILL
            self._judges.append(self._start_judge())
        self.killed["stores" if is_keeper else "judges"] += 1

    def end(self) -> None:
        """Ask all to end."""
        for judge in self._judges:
            assert self._judged.end_judge(judge) == 0
        assert self._judged.end() == 0


@patch.dict(os.environ, {"FAULT_KEY": KEY, "GAPWATCH_WRITE_TOKEN": "a-token-of-the-tests"})
def fault_run_of_processes(
    folder: Path, broker: Any, requests: int, kills: int, cap: float, workers: int = 3, seed: int = 1,
    refused_seconds: float = REFUSED_SECONDS,
) -> dict[str, Any]:  # fmt: skip
    """Run it; return what the store holds at the end."""
    context, chance = multiprocessing.get_context("spawn"), random.Random(seed)
    here, there = context.Pipe()
    refused_after = int(REFUSED_AFTER * requests)
    server = context.Process(target=serve_faults, args=(there, seed, refused_after, refused_seconds), daemon=True)
    server.start()
    children = Children()
    began = time.perf_counter()
    judged: Judged | None = None
    try:
        judged = Judged(
            children, folder / "judged", broker, cap, here.recv(), timeout_seconds=0.5, concurrency=32, attempts=4,
            longest_delay_seconds=0.05, breaker_seconds=0.05, key_env="FAULT_KEY",
        )  # fmt: skip
        judged.portfolios[0].write_text(PORTFOLIO.format(name=f"faulty-{judged.topic}", cap=cap))
        prices = {"openai/small": {"input": 1e6 * PRICE[0], "output": 1e6 * PRICE[1]}}
        written = json.loads(judged.judges.read_text()) | {"prices": prices, "max_output_tokens": 200}
        judged.judges.write_text(json.dumps(written))
        broker.produce(judged.topic, [trace(number) for number in range(requests)])
        fleet = Fleet(judged, workers, chance)
        for number in range(kills):
            due = requests * number / (kills + 1)
            judged.wait_until(lambda due=due: fleet.closed() >= due, 300)  # type: ignore[misc]
            fleet.kill_one(is_keeper=number % 5 == 4)
        judged.wait_until(lambda: fleet.closed() == requests, 300)
        fleet.end()
    finally:
        if judged is not None:  # what a failed run has started would go on
            judged.kill_judges()
            if judged.pid is not None:
                judged.kill()
        children.close()
    here.send("end")
    usd, largest, seen = here.recv()
    server.join(10)
    return {
        "killed": fleet.killed, "seconds": round(time.perf_counter() - began, 1), **_at_the_end(judged),
        "billed_usd": round(usd, 4), "largest_usd": largest, "answers": dict(sorted(seen.items())),
        "with_the_key": places_of_the_key(folder, broker.folder),
    }  # fmt: skip


def _at_the_end(judged: Judged) -> dict[str, Any]:
    def one(sql: str) -> Any:
        return judged.query(sql)[0][0]

    return {
        "requests": one("SELECT count(DISTINCT id) FROM internal.judge_requests"),
        "closed": one("SELECT count(*) FROM internal.judge_closed"),
        "closed_distinct": one("SELECT count(DISTINCT id) FROM internal.judge_closed"),
        "states": dict(judged.query("SELECT state, count(*) FROM internal.judge_closed GROUP BY 1 ORDER BY 1")),
        "rows": one("SELECT count(*) FROM gaps WHERE judge IS NOT NULL"),
        "rows_distinct": one("SELECT count(DISTINCT source_offset) FROM gaps WHERE judge IS NOT NULL"),
        "paid_usd": round(one("SELECT coalesce(sum(usd), 0) FROM judge_calls"), 4),
        "leased_usd": round(one("SELECT coalesce(sum(usd), 0) FROM internal.judge_money"), 4),
        "pending": one("SELECT coalesce(sum(n), 0)::BIGINT FROM ledger WHERE state = 'pending'"),
        "ledger": gapwatch("ledger", "--store", judged.store).status,
    }


def check_processes(found: dict[str, Any], requests: int, kills: int, cap: float, workers: int) -> None:
    """Hold the end against what is promised."""
    assert sum(found["killed"].values()) == kills, found
    assert found["requests"] == found["closed"] == found["closed_distinct"] == requests, found
    assert found["pending"] == found["ledger"] == 0, found
    assert set(found["states"]) <= {"pass", "fail", "error", "shed_budget"}, found
    shed = found["states"].get("shed_budget", 0)
    judged = requests - shed
    assert not shed or found["leased_usd"] >= 0.9 * cap, found
    assert found["rows"] == found["rows_distinct"] == judged, found
    assert found["billed_usd"] <= found["leased_usd"] + 1e-3, found
    processes = workers + found["killed"]["judges"]
    assert found["leased_usd"] <= cap + processes * found["largest_usd"] + 1e-3, found
    assert found["with_the_key"] == [], found


def main() -> None:
    """Run, check, print."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.judge_processes", description=__doc__)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--cap", type=float, default=30.0)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, running_broker(Path(name) / "broker") as broker:
        make_relayed_topics(broker)
        folder = Path(name, "run")
        folder.mkdir()
        found = fault_run_of_processes(
            folder, broker, asked.requests, asked.kills, asked.cap, asked.workers, asked.seed
        )
    print(json.dumps(found))
    check_processes(found, asked.requests, asked.kills, asked.cap, asked.workers)


if __name__ == "__main__":
    main()
