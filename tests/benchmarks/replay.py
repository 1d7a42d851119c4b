"""Cost of `gapwatch replay`, against the best loop in Python that we could write by hand.

    python -m tests.benchmarks.replay                # all but the long run for the memory: some minutes
    python -m tests.benchmarks.replay memory         # 2,000,000 traces through standard input
    python -m tests.benchmarks.replay --quick        # everything, small: for a look whether it works

CPU is that of all threads, user and system. Only what runs in turn on the same machine can be compared.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import IO

from tests.benchmarks.child import Cost, output_of, resident_mb, run_module
from tests.benchmarks.contenders import Pair, fresh, replay, run_pair
from tests.benchmarks.long_stream import long_stream
from tests.benchmarks.traffic import portfolio, write

CHECKS = (5, 20, 80)


class Benchmark:
    """The parts of the benchmark, each of which prints a table.

    Args:
        folder: For traces, portfolios and stores.
        traces: How many the measured files hold.
        pairs: How often each comparison is repeated.
        long_run: How many traces the long run holds.
    """

    def __init__(self, folder: Path, traces: int, pairs: int, long_run: int) -> None:
        self._folder = folder
        self._traces = traces
        self._pairs = pairs
        self._long_run = long_run

    def _file(self, bad: float = 0.02) -> Path:
        path = self._folder / f"traces-{bad:g}.jsonl"
        if not path.exists():
            write(path, self._traces, bad)
        return path

    def _portfolio(self, checks: int = 20) -> Path:
        path = self._folder / f"portfolio-{checks}.yaml"
        path.write_text(portfolio(checks), encoding="utf-8")
        return path

    def _microseconds(self, cost: Cost) -> float:
        return cost.cpu / self._traces * 1e6

    def loop(self) -> None:
        """Compare with the loop, 2 % of the checks failing."""
        self._compare(0.02)

    def failing(self) -> None:
        """Compare with the loop, 30 % of the checks failing."""
        self._compare(0.30)

    def _compare(self, bad: float) -> None:
        _title(f"replay against the loop: {self._traces:,} traces, 20 checks a span, {bad:.0%} of them failing")
        row = _table("pair", "loop, us CPU a trace", "replay, us CPU a trace", "times less", "wall s", "peak MB")
        pairs: list[Pair] = []
        for number in range(1, self._pairs + 1):
            pair = run_pair(self._file(bad), self._portfolio(), self._folder)
            pairs.append(pair)
            row(number, *self._columns(pair))
        ratios = [pair.ratio for pair in pairs]
        middle = (
            f"{median(self._microseconds(pair.loop) for pair in pairs):.1f}",
            f"{median(self._microseconds(pair.replay) for pair in pairs):.1f}",
            f"**{median(ratios):.2f}** ({min(ratios):.2f} to {max(ratios):.2f})",
        )
        row("median", *middle, "", "")
        print("\nThe stores of each pair were equal: gaps, ticks, histograms, ledger, samples, trace ids, offsets.")

    def _columns(self, pair: Pair) -> tuple[str, ...]:
        costs = (pair.loop, pair.replay)
        return (
            *(f"{self._microseconds(cost):.1f}" for cost in costs),
            f"{pair.ratio:.2f}",
            " / ".join(f"{cost.wall:.1f}" for cost in costs),
            " / ".join(f"{cost.peak_mb:.0f}" for cost in costs),
        )

    def checks(self) -> None:
        """Show how the cost grows with the number of checks."""
        _title(f"replay by the number of checks a span: {self._traces:,} traces, us CPU a trace")
        row = _table("round", *map(str, CHECKS), f"{CHECKS[-1]} : {CHECKS[0]}")
        rounds = []
        for number in range(1, self._pairs + 1):
            costs = [
                self._microseconds(replay(self._file(), self._portfolio(n), fresh(self._folder / "checks.duckdb")))
                for n in CHECKS
            ]
            rounds.append(costs)
            row(number, *(f"{cost:.1f}" for cost in costs), f"{costs[-1] / costs[0]:.2f}")
        growth = [costs[-1] / costs[0] for costs in rounds]
        medians = [f"{median(costs[i] for costs in rounds):.1f}" for i in range(len(CHECKS))]
        row("median", *medians, f"**{median(growth):.2f}** ({min(growth):.2f} to {max(growth):.2f})")

    def stages(self) -> None:
        """Show where the CPU goes."""
        _title(f"stages: {self._traces:,} traces, us CPU a trace, median of {self._pairs}")
        row = _table("contender", "stage", "us CPU a trace")
        for contender in ("loop", "replay"):
            store = self._folder / "stages.duckdb"
            runs = [
                json.loads(
                    output_of(
                        "tests.benchmarks.stages", contender, self._file(), self._portfolio(), fresh(store)
                    ).splitlines()[-1]
                )
                for _ in range(self._pairs)
            ]
            for stage in runs[0]:
                row(contender, stage, f"{median(run[stage] for run in runs) / self._traces * 1e6:.1f}")

    def start(self) -> None:
        """Show what it takes to begin: an empty replay, and `--help`."""
        _title("start: seconds of wall time, and of CPU")
        empty = self._folder / "empty.jsonl"
        empty.write_bytes(b"")
        store = self._folder / "empty.duckdb"
        times = max(5, self._pairs)
        row = _table("what", "wall, median", "wall, least", "CPU, median")
        runs: dict[str, Callable[[], Cost]] = {
            "replay of an empty file": lambda: replay(empty, self._portfolio(), fresh(store)),
            "gapwatch --help": lambda: run_module("gapwatch.scorers.command_line", "--help"),
        }
        for name, once in runs.items():
            costs = [once() for _ in range(times)]
            walls = [cost.wall for cost in costs]
            row(name, f"{median(walls):.2f}", f"{min(walls):.2f}", f"{median(cost.cpu for cost in costs):.2f}")

    def memory(self) -> None:
        """Show the memory of a long run."""
        _title(f"memory of one replay of {self._long_run:,} traces from standard input")
        samples: list[float] = []
        every = max(1, self._long_run // 200)

        def feed(stream: IO[bytes], pid: int) -> None:
            for i, line in enumerate(long_stream(self._long_run), 1):
                stream.write(line)
                if i % every == 0:
                    samples.append(resident_mb(pid))

        cost = run_module(
            "gapwatch.scorers.command_line", "replay", "-", "--source", "long", "--portfolio", self._portfolio(),
            "--store",
            fresh(self._folder / "long.duckdb"), "--quiet", feed=feed,
        )  # fmt: skip
        tenths = [samples[len(samples) * i // 10 : len(samples) * (i + 1) // 10] for i in range(10)]
        row = _table("traces", "resident MB, median of this tenth", "largest")
        for i, tenth in enumerate(tenths, 1):
            row(f"{self._long_run * i // 10:,}", f"{median(tenth):.0f}", f"{max(tenth):.0f}")
        row("peak of the process", "", f"**{cost.peak_mb:.0f}**")
        print(f"\n{cost.cpu / self._long_run * 1e6:.1f} us CPU a trace, {cost.wall:.0f} s.")


def _title(text: str) -> None:
    print(f"\n### {text}\n", flush=True)


def _table(*names: str) -> Callable[..., None]:
    """Print the head of a Markdown table; return what prints a row."""

    def row(*cells: object) -> None:
        print(f"| {' | '.join(map(str, cells))} |", flush=True)

    row(*names)
    row(*("---" for _ in names))
    return row


def _machine() -> str:
    model = next(
        (line.partition(":")[2].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")),
        platform.processor(),
    )
    load = " ".join(f"{value:.1f}" for value in os.getloadavg())
    return f"{model}, {os.cpu_count()} cores, Python {platform.python_version()}, load before the run {load}"


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text(encoding="utf-8").splitlines()
    except OSError:
        return []


PARTS = ("loop", "failing", "stages", "checks", "start", "memory")


def main(arguments: Sequence[str]) -> None:
    """Run the parts that are named; all but the long one where none is."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.replay", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; default: all but memory")
    parser.add_argument("--traces", type=int, default=200_000, help="in each measured file (default 200000)")
    parser.add_argument("--pairs", type=int, default=3, help="repetitions of each comparison (default 3)")
    parser.add_argument("--long", type=int, default=2_000_000, help="traces of the part memory (default 2000000)")
    parser.add_argument("--quick", action="store_true", help="all parts, with few traces, once")
    parser.add_argument("--folder", type=Path, help="where traces and stores are left; default: removed at the end")
    asked = parser.parse_args(arguments)
    if unknown := set(asked.parts) - set(PARTS):
        parser.error(f"no part {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    print(_machine())
    with tempfile.TemporaryDirectory() as temporary:
        folder = asked.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        if asked.quick:
            benchmark, parts = Benchmark(folder, 5_000, 1, 20_000), asked.parts or PARTS
        else:
            benchmark, parts = Benchmark(folder, asked.traces, asked.pairs, asked.long), asked.parts or PARTS[:-1]
        for part in parts:
            getattr(benchmark, part)()


if __name__ == "__main__":
    main(sys.argv[1:])
