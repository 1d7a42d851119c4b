"""CPU of scoring one slice by its size: all of it, and reading and checking alone, beside the loop written by hand.

    python -m tests.benchmarks.slice_cost            # 60 checks, slices of 50 to 4,000 traces, a minute
    python -m tests.benchmarks.slice_cost 50 200     # other sizes

The smallest of several rounds counts, in turns. The loop decodes and checks, and makes no rows.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from gapwatch.scorers.loading.load import parse_portfolio
from gapwatch.scorers.plan.plan import Plan, compile_plan
from gapwatch.scorers.scoring.records import block_owners, decode_records
from gapwatch.scorers.scoring.score import Scorer, score
from gapwatch.scorers.slices.selection import fixed_selection
from gapwatch.scorers.slices.slices import RecordSlice
from tests.benchmarks.hand_checks import check
from tests.benchmarks.hand_shape import Records, decode
from tests.benchmarks.traffic import lines, portfolio

_ROUNDS = 9


def read_and_check(plan: Plan, values: pa.BinaryArray) -> None:
    """Decode records and find the outcome of every claim, as `score` does before it counts and makes rows."""
    owners = block_owners(plan.blocks, list(decode_records(values, plan.types)))
    for block, of in zip(plan.blocks, owners, strict=True):
        block.function.codes_and_scores(block.inputs.rows(of.owners))


def _by_hand(raw: Sequence[bytes]) -> None:
    records = Records()
    decode(records, list(raw), b"\n".join(raw), 0)
    check(records.traces)


def measure(size: int) -> dict[str, float]:
    """Return CPU microseconds a trace of each contender, the smallest of all rounds."""
    loaded = parse_portfolio(portfolio())
    plan, selection, raw = compile_plan([loaded]), fixed_selection([loaded]), list(lines(size))
    scorer, offsets = Scorer(plan), np.arange(size, dtype=np.int64)
    records = RecordSlice("live", "traces", 0, 0, size, offsets, pa.array(raw, pa.binary()))
    contenders: dict[str, Callable[[], object]] = {
        "scoring": lambda: score(scorer, selection, records),
        "of which reading and checking": lambda: read_and_check(plan, records.values),
        "reading and checking by hand": lambda: _by_hand(raw),
    }
    least = dict.fromkeys(contenders, float("inf"))
    for _ in range(_ROUNDS):
        for name, run in contenders.items():
            started = time.process_time()
            run()
            least[name] = min(least[name], time.process_time() - started)
    return {name: seconds / size * 1e6 for name, seconds in least.items()}


def main(arguments: Sequence[str]) -> None:
    """Print one line for each size."""
    print(
        "| traces in a slice | scoring, us CPU a trace | of which reading and checking | by hand |\n"
        "| --- | --- | --- | --- |"
    )
    for size in [int(argument) for argument in arguments] or [50, 200, 1_000, 4_000]:
        print(f"| {size:,} | {' | '.join(f'{took:.1f}' for took in measure(size).values())} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
