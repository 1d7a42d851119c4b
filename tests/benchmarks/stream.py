"""What `gapwatch run` costs on a real broker, against a naive Faust agent and the best loop written by hand.

    python -m tests.benchmarks.stream                 # 50,000 traces, three rounds: some minutes
    python -m tests.benchmarks.stream --failing 0.3

Needs Java and Maven (deploy/kafka), the extra `stream`, and confluent-kafka for the loop, which is left out without it.
CPU is that of all threads of the process, user and system, start and last checkpoint included; not the broker's.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import tempfile
import uuid
from pathlib import Path
from statistics import median

from tests.benchmarks.child import Cost, output_of, run_module
from tests.benchmarks.contenders import contents_of, fresh
from tests.benchmarks.replay import _machine, _table, _title
from tests.benchmarks.store_contents import differences
from tests.benchmarks.traffic import portfolio, write


def run(address: str, topic: str, _count: int, portfolio_path: Path, store: Path) -> Cost:
    """Run the program itself, as a group that has read nothing yet."""
    return run_module(
        "scorers.command_line", "run", "--brokers", address, "--topic", topic, "--portfolio", portfolio_path,
        "--store", store, "--until-caught-up", "--json", "--thin-rows", "0", "--group", uuid.uuid4().hex,
    )  # fmt: skip


def naive(address: str, topic: str, count: int, portfolio_path: Path, store: Path) -> Cost:
    """Run the naive agent."""
    return run_module("tests.benchmarks.stream_naive", address, topic, str(count), portfolio_path, store)


def loop(address: str, topic: str, count: int, portfolio_path: Path, store: Path) -> Cost:
    """Run the loop."""
    return run_module("tests.benchmarks.stream_loop", address, topic, str(count), portfolio_path, store)


def main() -> None:
    """Run all in turn, compare what they store, print what they cost."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.stream", description=__doc__)
    parser.add_argument("--traces", type=int, default=50_000, help="in the topic (default 50000)")
    parser.add_argument("--rounds", type=int, default=3, help="(default 3)")
    parser.add_argument("--failing", type=float, default=0.02, help="share of failing checks (default 0.02)")
    asked = parser.parse_args()
    contenders = {"naive": naive, "loop": loop, "run": run}
    if importlib.util.find_spec("confluent_kafka") is None:
        del contenders["loop"]
    print(_machine())
    from tests.kafka_broker import KafkaBroker

    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        broker = KafkaBroker(folder / "broker").start()
        try:
            _measure(folder, broker.address, broker.make_topic(), contenders, asked)
        finally:
            broker.stop("--purge")


def _measure(folder: Path, address: str, topic: str, contenders: dict, asked: argparse.Namespace) -> None:  # type: ignore[type-arg]
    file, portfolio_path = folder / "traces.jsonl", folder / "portfolio.yaml"
    write(file, asked.traces, asked.failing)
    portfolio_path.write_text(portfolio(), encoding="utf-8")
    output_of("scorers.command_line", "publish", file, "--brokers", address, "--topic", topic, "--quiet")
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
