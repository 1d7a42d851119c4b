"""`gapwatch run --role judge` through a real broker: how fast it judges, and what a dead provider does to scoring.

    python -m tests.benchmarks.judge_role [--items 4000] [--adapter http|litellm] [--judges 1]

Needs Java and Maven (deploy/kafka). A process scores and stores, judges are processes of their own, the provider is one
more, which answers in 50 ms. Every trace is judged: requests lie in the topic before the first judge starts; then the
provider is ended, as many traces come again with the judges waiting for it; then it is back. CPU is of the processes
named, all threads, from the first verdict on, without what they need to start.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from gapwatch.sinks.api.endpoint_note import read_note
from tests.benchmarks.replay import _machine, _table, _title
from tests.benchmarks.stream import _cpu_seconds, _until_ready
from tests.paths import ROOT
from tests.scorers.judges.rubrics import judged_metric
from tests.streams.judges.model_server import free_port
from tests.streams.run_process import make_relayed_topics, trace

_PORTFOLIO = {
    "gapwatch": 1, "portfolio": "support", "version": 1, "pipeline": "support", "budget": {"judge_usd_per_week": 1000},
    "components": [{"id": "answer", "role": "ai_core", "kind": "llm"}], "edges": [],
}  # fmt: skip
_PROVIDER = """
import sys
from tests.streams.judges.model_server import HttpAnswer, ServerThread, verdict
def answer(body, headers):
    return HttpAnswer(200, verdict(body, "Good").body, {"content-type": "application/json"}, 0.05)
server = ServerThread(answer, int(sys.argv[1]))
sys.stdin.read()
"""


class Processes:
    """Processes of one measurement: a store process, judges and, at times, the provider.

    Args:
        folder: For its files.
        broker: Of Kafka.
        adapter: Of the judges.
        stack: Ends what was started.
    """

    def __init__(self, folder: Path, broker: Any, adapter: str, stack: ExitStack) -> None:
        self._folder, self._broker, self._stack = folder, broker, stack
        self._port, self.topic, self.store = free_port(), broker.make_topic(), folder / "store.duckdb"
        self._settings = folder / "judges.json"
        provider = {
            "adapter": adapter, "base_url": f"http://127.0.0.1:{self._port}/v1", "concurrency": 64,
            "key_env": "GAPWATCH_BENCHMARK_KEY",
        }  # fmt: skip
        prices = {"openai/gpt-4.1-mini": {"input": 0.4, "output": 1.6}}
        self._settings.write_text(json.dumps({"providers": {"openai": provider}, "prices": prices, "cache_entries": 0}))
        metric = {**judged_metric(), "component": "answer"}
        metric["claim"]["judges"][0]["model"] = "openai/gpt-4.1-mini"
        (folder / "portfolio.yaml").write_text(json.dumps({**_PORTFOLIO, "metrics": [metric]}))

    def _start(self, *command: str) -> subprocess.Popen[bytes]:
        environment = {**os.environ, "GAPWATCH_BENCHMARK_KEY": "sk-benchmark-0000000000"}
        process = subprocess.Popen([sys.executable, *command], cwd=ROOT, env=environment, stdin=subprocess.PIPE)
        self._stack.callback(process.wait)
        self._stack.callback(process.terminate)
        return process

    def _run(self, *more: str) -> subprocess.Popen[bytes]:
        where = ("--brokers", self._broker.address, "--store", str(self.store), "--judges", str(self._settings))
        return self._start("-m", "gapwatch.scorers.command_line", "run", *where, "--quiet", *more)

    def store_process(self) -> subprocess.Popen[bytes]:
        """Start the process that scores and keeps."""
        reading = ("--topic", self.topic, "--portfolio", str(self._folder / "portfolio.yaml"))
        process = self._run("--role", "score,keep", *reading, "--listen", "127.0.0.1:0")
        _until_ready(self.store)
        return process

    def judge(self) -> subprocess.Popen[bytes]:
        """Start a process that judges."""
        return self._run("--role", "judge")

    def provider(self) -> subprocess.Popen[bytes]:
        """Start the server that answers."""
        return self._start("-c", _PROVIDER, str(self._port))

    def count(self, table: str) -> int:
        """Return how many rows a table of the store has."""
        note = read_note(self.store)
        assert note is not None
        sql = json.dumps({"sql": f"SELECT count(*) AS n FROM {table}", "format": "json"}).encode()
        headers = {"authorization": f"Bearer {note.write_token}", "content-type": "application/json"}
        with urllib.request.urlopen(urllib.request.Request(note.url + "/v1/query", sql, headers), timeout=60) as said:
            return int(json.loads(said.read())[0]["n"])

    def until(self, table: str, rows: int) -> float:
        """Wait until a table has so many rows; return for how many seconds."""
        began = time.monotonic()
        while self.count(table) < rows:
            if time.monotonic() - began > 600:
                raise RuntimeError(f"{table} has {self.count(table)} of {rows} rows after ten minutes")
            time.sleep(0.2)
        return time.monotonic() - began

    def scored(self, first: int, items: int) -> float:
        """Produce traces; return seconds until their requests are kept."""
        traces = [trace(n) for n in range(first, first + items)]  # type: ignore[no-untyped-call]
        self._broker.produce(self.topic, traces, linger_ms=20)
        return self.until("internal.judge_requests", first + items)


def _cost(processes: list[subprocess.Popen[bytes]], work: Callable[[], float]) -> tuple[float, float]:
    """Do something; return its seconds, and the CPU seconds of processes meanwhile."""
    before = sum(_cpu_seconds(process.pid) for process in processes)
    seconds = work()
    return seconds, sum(_cpu_seconds(process.pid) for process in processes) - before


def measure(folder: Path, broker: Any, items: int, adapter: str, judges: int) -> None:
    """Judge, lose the provider, get it back; print a table."""
    with ExitStack() as stack:
        run = Processes(folder, broker, adapter, stack)
        store_process = run.store_process()
        row = _table("", "seconds", "items/s", "CPU ms an item, judges", "CPU ms an item, store process", "load")

        def told(what: str, seconds: float, n: int, judging: float | None, cpu: float) -> None:
            judging_ms = "" if judging is None else f"{1000 * judging / n:.2f}"
            load = f"{os.getloadavg()[0]:.1f}"
            row(what, f"{seconds:.1f}", f"{n / seconds:.0f}", judging_ms, f"{1000 * cpu / n:.2f}", load)

        seconds, cpu = _cost([store_process], lambda: run.scored(0, items))
        told("scored, no judge there", seconds, items, None, cpu)
        if len(broker.consume("judge-requests", items, 120.0)) < items:
            raise RuntimeError("not every request has come into the topic")
        provider, workers = run.provider(), [run.judge() for _ in range(judges)]
        run.until("internal.judge_closed", 1)
        done, before = run.count("internal.judge_closed"), _cpu_seconds(store_process.pid)
        seconds, judging = _cost(workers, lambda: run.until("internal.judge_closed", items))
        told(
            "judged, all waiting in the topic", seconds, items - done, judging, _cpu_seconds(store_process.pid) - before
        )
        provider.stdin.close()  # type: ignore[union-attr]
        provider.wait()
        seconds, cpu = _cost([store_process], lambda: run.scored(items, items))
        told("scored, the provider dead", seconds, items, None, cpu)
        run.provider()
        run.until("internal.judge_closed", items + 1)
        done, before = run.count("internal.judge_closed"), _cpu_seconds(store_process.pid)
        seconds, judging = _cost(workers, lambda: run.until("internal.judge_closed", 2 * items))
        left = 2 * items - done
        told("judged, the provider back", seconds, left, judging, _cpu_seconds(store_process.pid) - before)
        states = run.count("gaps WHERE outcome = 'error'")
        print(f"\nclosed {run.count('judge_closed')}, errors {states}, twice "
              f"{run.count('(SELECT id FROM internal.judge_closed GROUP BY id HAVING count(*) > 1)')}")  # fmt: skip


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.judge_role", description=__doc__)
    parser.add_argument("--items", type=int, default=4_000, help="(default 4000)")
    parser.add_argument("--adapter", choices=["http", "litellm"], default="http", help="(default http)")
    parser.add_argument("--judges", type=int, default=1, help="processes (default 1)")
    asked = parser.parse_args()
    print(_machine())
    from tests.kafka_broker import running_broker

    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        with running_broker(folder / "broker") as broker:
            make_relayed_topics(broker)  # type: ignore[no-untyped-call]
            _title(f"{asked.items:,} items, {asked.judges} judging, adapter {asked.adapter}")
            measure(folder, broker, asked.items, asked.adapter, asked.judges)


if __name__ == "__main__":
    main()
