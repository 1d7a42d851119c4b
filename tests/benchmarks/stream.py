"""Cost of `gapwatch run` on a real broker, against a naive Faust agent, Quix Streams and a loop written by hand.

    python -m tests.benchmarks.stream                 # 50,000 traces, three rounds: some minutes
    python -m tests.benchmarks.stream --failing 0.3
    python -m tests.benchmarks.stream --steady 200    # a second, for a minute: the share of a core, and the delay

Needs Java and Maven (deploy/kafka) and the extra `stream`. The loop needs confluent-kafka, the program on Quix Streams
needs quixstreams, which brings it; what is not installed is left out.
CPU is that of all threads of the process, user and system, start and last checkpoint included; not the broker's.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path
from statistics import median
from typing import Any
from urllib.request import urlopen

from gapwatch.sinks.api.endpoint_note import read_note
from tests.benchmarks.child import Cost, output_of, run_module
from tests.benchmarks.contenders import contents_of, fresh
from tests.benchmarks.replay import _machine, _table, _title
from tests.benchmarks.store_contents import differences
from tests.benchmarks.traffic import portfolio, write
from tests.paths import ROOT


def run(address: str, topic: str, _count: int, portfolio_path: Path, store: Path) -> Cost:
    """Run the program itself, as a group that has read nothing yet."""
    return run_module(
        "gapwatch.scorers.command_line", "run", "--brokers", address, "--topic", topic, "--portfolio", portfolio_path,
        "--store", store, "--until-caught-up", "--json", "--thin-rows", "0", "--group", uuid.uuid4().hex,
    )  # fmt: skip


def naive(address: str, topic: str, count: int, portfolio_path: Path, store: Path) -> Cost:
    """Run the naive agent."""
    return run_module("tests.benchmarks.stream_naive", address, topic, str(count), portfolio_path, store)


def quix(address: str, topic: str, count: int, portfolio_path: Path, store: Path) -> Cost:
    """Run the program on Quix Streams."""
    return run_module("tests.benchmarks.stream_quix", address, topic, str(count), portfolio_path, store)


def loop(address: str, topic: str, count: int, portfolio_path: Path, store: Path) -> Cost:
    """Run the loop."""
    return run_module("tests.benchmarks.stream_loop", address, topic, str(count), portfolio_path, store)


def main() -> None:
    """Run all in turn, compare what they store, print what they cost."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.stream", description=__doc__)
    parser.add_argument("--traces", type=int, default=50_000, help="in the topic (default 50000)")
    parser.add_argument("--rounds", type=int, default=3, help="(default 3)")
    parser.add_argument("--failing", type=float, default=0.02, help="share of failing checks (default 0.02)")
    parser.add_argument("--steady", type=float, metavar="RATE", help="traces a second, instead of a backlog")
    parser.add_argument("--partitions", type=int, default=4, help="of the steady topic (default 4)")
    parser.add_argument("--seconds", type=int, default=60, help="of steady traffic (default 60)")
    asked = parser.parse_args()
    every = {"naive": ("faust", naive), "quix": ("quixstreams", quix), "loop": ("confluent_kafka", loop)}
    contenders = {name: program for name, (needed, program) in every.items() if importlib.util.find_spec(needed)}
    contenders["run"] = run
    print(_machine())
    from tests.kafka_broker import running_broker

    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        with running_broker(folder / "broker") as broker:
            if asked.steady:
                steady(folder, broker, asked)
            else:
                _measure(folder, broker.address, broker.make_topic(), contenders, asked)


def steady(folder: Path, broker: Any, asked: argparse.Namespace) -> None:
    """Let traces come at a rate; print the share of a core, and the time from produced to committed."""
    import duckdb
    import numpy as np

    topic, count = broker.make_topic(asked.partitions), int(asked.steady * asked.seconds)
    file, portfolio_path, store = folder / "traces.jsonl", folder / "portfolio.yaml", folder / "steady.duckdb"
    write(file, count, asked.failing)
    portfolio_path.write_text(portfolio(), encoding="utf-8")
    command = [
        sys.executable, "-m", "gapwatch.scorers.command_line", "run", "--brokers", broker.address, "--topic", topic,
        "--portfolio", str(portfolio_path), "--store", str(store), "--quiet", "--listen", "127.0.0.1:0",
    ]  # fmt: skip
    with subprocess.Popen(command, cwd=ROOT) as process:
        try:
            _until_ready(store)
            time.sleep(2.0)  # what a start leaves to do is not what steady traffic costs
            began, cpu = time.monotonic(), _cpu_seconds(process.pid)
            output_of("gapwatch.scorers.command_line", "publish", file, "--brokers", broker.address, "--topic", topic,
                      "--rate", f"{asked.steady}/s", "--quiet")  # fmt: skip
            _until_stored(store, count)
            share = (_cpu_seconds(process.pid) - cpu) / (time.monotonic() - began)
        finally:
            process.terminate()
            process.wait()
    with duckdb.connect(str(store), read_only=True) as con:
        kept = con.execute(
            "SELECT source_partition, from_offset, to_offset, epoch_ms(kept_at) FROM offsets ORDER BY ALL"
        ).fetchall()
        ticks = con.execute("SELECT count(*) FROM ticks").fetchall()[0][0]
    committed = {(part, offset): at for part, begin, end, at in kept for offset in range(begin, end)}
    delays = [committed[r.partition, r.offset] - r.timestamp for r in broker.consume(topic, count)]
    p50, p99 = np.percentile(delays, [50, 99])
    _title(f"{asked.steady:g} traces/s on {asked.partitions} partitions for {asked.seconds} s, API on")
    row = _table(
        "share of a core", "slices/s", "groups/s", "produced to commit, p50 ms", "p99 ms", "rows of ticks a trace",
        "traces", "load",
    )  # fmt: skip
    groups = len({at for *_, at in kept})
    row(f"**{share:.1%}**", f"{len(kept) / asked.seconds:.1f}", f"{groups / asked.seconds:.1f}", f"{p50:.0f}",
        f"**{p99:.0f}**", f"{ticks / count:.2f}", len(delays), f"{os.getloadavg()[0]:.1f}")  # fmt: skip


def _until_ready(store: Path) -> None:
    """Wait until a run says that it reads its topic."""
    end = time.monotonic() + 120
    while time.monotonic() < end:
        time.sleep(0.1)
        if (note := read_note(store)) is not None:
            try:
                with urlopen(f"{note.url}/readyz", timeout=5):
                    return
            except OSError:  # 503 until it is ready
                continue
    raise RuntimeError("gapwatch run is not ready after two minutes")


def _until_stored(store: Path, count: int) -> None:
    """Wait until a run has stored so many records."""
    end = time.monotonic() + 120
    note = read_note(store)
    while note is not None and time.monotonic() < end:
        time.sleep(1.0)
        with urlopen(f"{note.url}/metrics", timeout=20) as page:
            lines = [line.rpartition(b" ") for line in page if line.startswith(b"gapwatch_kept_offset{")]
        if sum(float(value) for _, _, value in lines) >= count:
            return
    raise RuntimeError("gapwatch run has not stored all records after two minutes")


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _measure(folder: Path, address: str, topic: str, contenders: dict, asked: argparse.Namespace) -> None:  # type: ignore[type-arg]
    file, portfolio_path = folder / "traces.jsonl", folder / "portfolio.yaml"
    write(file, asked.traces, asked.failing)
    portfolio_path.write_text(portfolio(), encoding="utf-8")
    output_of("gapwatch.scorers.command_line", "publish", file, "--brokers", address, "--topic", topic, "--quiet")
    _title(f"{asked.traces:,} traces, {asked.failing:.0%} of the checks failing: us CPU a trace (s of wall)")
    row = _table("round", *contenders, *(f"{name} : run" for name in contenders if name != "run"), "load")
    rounds = []
    for number in range(1, asked.rounds + 1):
        costs, held = {}, {}
        for name, contender in contenders.items():
            store = fresh(folder / f"{name}.duckdb")
            costs[name] = contender(address, topic, asked.traces, portfolio_path, store)
            held[name] = contents_of(store)
            if different := differences(held[name], next(iter(held.values()))):
                raise RuntimeError(f"{name} stored something else: {', '.join(different)}")
        rounds.append(costs)
        cells = [f"{cost.cpu / asked.traces * 1e6:.0f} ({cost.wall:.1f})" for cost in costs.values()]
        row(number, *cells, *(f"{ratio:.2f}" for ratio in _ratios(costs)), f"{os.getloadavg()[0]:.1f}")
    middle = [f"{median(r[name].cpu for r in rounds) / asked.traces * 1e6:.0f}" for name in contenders]
    ratios = list(zip(*(_ratios(costs) for costs in rounds), strict=True))
    row("median", *middle, *(f"**{median(r):.2f}** ({min(r):.2f} to {max(r):.2f})" for r in ratios), "")
    print("\nAll stored the same: gaps, ticks, histograms, ledger, samples, trace ids, offsets.")


def _ratios(costs: dict[str, Cost]) -> list[float]:
    return [cost.cpu / costs["run"].cpu for name, cost in costs.items() if name != "run"]


if __name__ == "__main__":
    main()
