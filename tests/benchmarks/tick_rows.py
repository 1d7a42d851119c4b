"""Rows of ticks and bytes a trace of steady traffic, with its ticks joined and as they were written; no broker.

    python -m tests.benchmarks.tick_rows                       # 10 minutes of 200 traces/s on one and four partitions
    python -m tests.benchmarks.tick_rows --seconds 120

Each second one group of slices is scored, given to the detectors and stored, as by a run whose linger is a second. The
time of the commits is that of the traffic. CPU is that of joining, as a share of all.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import orjson
import pyarrow as pa

from gapwatch.scorers.loading.load import parse_portfolio
from gapwatch.scorers.plan.plan import compile_plan
from gapwatch.scorers.scoring.score import Scorer, score_together
from gapwatch.scorers.slices.facet_names import FacetNames
from gapwatch.scorers.slices.selection import fixed_selection
from gapwatch.scorers.slices.slices import RecordSlice
from gapwatch.sinks.store.store import Store
from gapwatch.sinks.upkeep.tick_joining import join_step, joinable_until
from gapwatch.streams.alerting.evaluation.shift_watch import ShiftWatch
from tests.benchmarks.replay import _machine, _table, _title
from tests.benchmarks.traffic import START, portfolio, trace

RATE, LANE = 200, "live"
# Seconds of traffic between two looks for ticks to join, as in a run.
_LOOK = 30


def main() -> None:
    """Store the traffic, with and without joining, and print the rows and bytes of each."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.tick_rows", description=__doc__)
    parser.add_argument("--seconds", type=int, default=600, help="of traffic (default 600)")
    asked = parser.parse_args()
    print(_machine())
    _title(f"{RATE} traces/s for {asked.seconds} s")
    row = _table("partitions", "ticks", "rows of ticks a trace", "bytes of the store a trace", "CPU of joining")
    with tempfile.TemporaryDirectory() as folder:
        for partitions in (1, 4):
            for joins in (False, True):
                path = Path(folder) / f"{partitions}{joins}.duckdb"
                rows, share = _store(path, partitions, asked.seconds, joins=joins)
                traces = RATE * asked.seconds
                row(partitions, "joined" if joins else "as written", f"{rows / traces:.2f}",
                    f"{path.stat().st_size / traces:.0f}", f"{share:.1%}")  # fmt: skip


def _store(path: Path, partitions: int, seconds: int, *, joins: bool) -> tuple[int, float]:
    """Store the traffic; return the rows of ticks, and the share of joining in the CPU."""
    given = parse_portfolio(portfolio())
    scorer, selection, dice = Scorer(compile_plan([given]), None), fixed_selection([given]), random.Random(7)
    begin, joining = time.process_time(), 0.0
    names = [FacetNames()] * partitions
    with Store.open(path, create=True) as store:
        store.register(given, [])
        watch = ShiftWatch.open(store, [given])
        for second in range(seconds):
            moment = datetime.fromtimestamp(START + second + 1, UTC)
            slices = [
                replace(_slice(dice, second, partition, partitions), names=names[partition])
                for partition in range(partitions)
            ]
            found = score_together(scorer, selection, slices)
            names = [one.names for one in found]
            taken = [watch.take(one, moment, is_last=n == partitions) for n, one in enumerate(found, start=1)]
            store.write_slices([(one.scored, one.steps) for one in taken], moment)
            if joins and second % _LOOK == 0:
                since = time.process_time()
                until = joinable_until(store, LANE, has_detectors=True)
                while join_step(store, LANE, until) is not None:
                    pass
                joining += time.process_time() - since
        rows = int(store.query("SELECT count(*) FROM ticks")[0][0])
    return rows, joining / (time.process_time() - begin)


def _slice(dice: random.Random, second: int, partition: int, partitions: int) -> RecordSlice:
    each = RATE // partitions
    values = [orjson.dumps(trace(dice, second * RATE + n * partitions + partition, 0.02, RATE)) for n in range(each)]
    offsets = np.arange(second * each, (second + 1) * each)
    times = np.full(each, START + second)
    return RecordSlice(
        LANE, "traces", partition, second * each, (second + 1) * each, offsets, pa.array(values, pa.binary()), times
    )


if __name__ == "__main__":
    main()
