"""CPU of an evaluation whose function returns at once, against calling it in a loop and `replay` of the same traces.

    python -m tests.benchmarks.evaluation [EXAMPLES]

The two are run in turns in one process; forked processes are counted. Start-up is in neither.
"""

from __future__ import annotations

import resource
import statistics
import sys
import tempfile
from pathlib import Path

import gapwatch.eval
from gapwatch.eval import Example
from gapwatch.scorers.loading.load import parse_stored_portfolio
from gapwatch.sinks.read import read
from gapwatch.streams.batch.replay import ReplayOptions, replay
from gapwatch.streams.evaluation.metrics.shipped_scorers import ShippedScorers

TURNS = 7


def label(text: str) -> str:
    """Return at once."""
    return text


def _cpu_seconds() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def main(count: int) -> None:
    """Print the CPU of both, and the ratio, of each turn."""
    examples = [Example(str(i), {"text": f"t{i % 7}"}, reference=f"t{i % 5}") for i in range(count)]
    evaluated = gapwatch.eval(task="classification")(label)
    ratios = []
    with tempfile.TemporaryDirectory() as folder:
        kept = Path(folder, "kept.duckdb")
        evaluated.eval(examples[:10], store=kept)
        texts = read(kept).sql("SELECT yaml FROM portfolios").to_pylist()
        portfolios = [parse_stored_portfolio(one["yaml"]) for one in texts]
        for turn in range(TURNS):
            traces, store = Path(folder, f"{turn}.jsonl"), Path(folder, f"{turn}.duckdb")
            begin = _cpu_seconds()
            evaluated.eval(examples, traces=traces)
            middle = _cpu_seconds()
            for example in examples:
                label(**example.inputs)
            replay([str(traces)], portfolios, store, ReplayOptions("turn.jsonl", ShippedScorers()))
            first, second = middle - begin, _cpu_seconds() - middle
            ratios.append(first / second)
            print(f"eval {first:.3f} s, loop and replay {second:.3f} s, ratio {ratios[-1]:.2f}")
    print(f"median ratio {statistics.median(ratios):.2f}, {count:,} examples")
    print(f"largest memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10:,} MB")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
