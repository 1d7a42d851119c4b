"""Traces that each have another release, model and environment, probability or tick, beside those with one of each.

    python -m tests.benchmarks.facets [CASE] [--traces N] [--rounds N]

Each case is a process of its own, which scores the records as slices of 4,000 and writes them to a new store. CPU is
that of scoring and storing alone, over all threads; each case runs in turn with the plain one.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from gapwatch.scorers.loading.load import parse_portfolio
from gapwatch.scorers.plan.plan import compile_plan
from gapwatch.scorers.scoring.score import Scorer, score
from gapwatch.scorers.slices.facet_names import FacetNames
from gapwatch.scorers.slices.selection import Selection, fixed_selection
from gapwatch.scorers.slices.slices import RecordSlice
from gapwatch.sinks.store.store import Store
from gapwatch.streams.pipeline.slice_pieces import MOST_TICKS
from tests.benchmarks.child import output_of
from tests.benchmarks.traffic import START, lines, portfolio

#: Records of a slice, as a busy topic is fetched.
SLICE = 4_000
CASES = ("plain", "facets", "environment", "probability", "tick")


def records(case: str, n: int) -> Iterator[bytes]:
    """Yield n records of the traffic, changed as the case says."""
    for i, line in enumerate(lines(n)):
        record: dict[str, Any] = orjson.loads(line)
        if case in ("facets", "environment"):
            record["environment"] = f"preview-{i}"
        if case == "facets":
            record["release"] = f"build-{i}"
            for span in record["spans"]:
                span["model"] = f"tuned-{i}"
        if case == "probability":
            record["sampling_probability"] = (i + 1) / (n + 1)
        if case == "tick":
            shift = START - 40.0 * i - record["started_at"]
            for part in (record, *record["spans"]):
                part["started_at"] += shift
                part["ended_at"] += shift
        yield orjson.dumps(record)


def run(case: str, n: int) -> dict[str, float]:
    """Score and store one case; return seconds of CPU, tick rows and the peak of memory in MB of 1,000,000 bytes."""
    given = parse_portfolio(portfolio())
    scorer, selection = Scorer(compile_plan([given])), fixed_selection([given])
    values, names = list(records(case, n)), FacetNames()
    with tempfile.TemporaryDirectory() as folder, Store.open(Path(folder) / "facets.duckdb", create=True) as store:
        began = time.process_time()
        for first in range(0, n, SLICE):
            names = _write(store, scorer, selection, names, first, values[first : first + SLICE])
        cpu = time.process_time() - began
        rows = store.query("SELECT count(*) FROM ticks")[0][0]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"cpu": cpu, "ticks": rows, "peak_mb": peak * 1.024e-3}


def _write(
    store: Store, scorer: Scorer, selection: Selection, names: FacetNames, first: int, values: Sequence[bytes]
) -> FacetNames:
    end = first + len(values)
    array = pa.array(values, pa.binary())
    left: RecordSlice | None = RecordSlice("live", "traces", 0, first, end, np.arange(first, end), array, names=names)
    while left is not None:
        scored = score(scorer, selection, left, MOST_TICKS)
        left, names = left.rest(scored), scored.names
        store.write_slice(scored, datetime.now(UTC))
        del scored
    return names


def main() -> None:
    """Run each case in turn with the plain one, and print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("case", nargs="?", choices=CASES, help="run this case alone and print its figures as JSON")
    parser.add_argument("--traces", type=int, default=10_000, help="traces of a case (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each case (default: %(default)s)")
    options = parser.parse_args()
    if options.case:
        print(json.dumps(run(options.case, options.traces)))
        return
    for case in CASES[1:]:
        pairs = [[_child(one, options.traces) for one in ("plain", case)] for _ in range(options.rounds)]
        ratio = statistics.median(other["cpu"] / plain["cpu"] for plain, other in pairs)
        last = pairs[-1][1]
        print(f"{case:12} {ratio:5.2f} times the CPU, {last['ticks']:9,.0f} rows of ticks, {last['peak_mb']:5.0f} MB")


def _child(case: str, n: int) -> dict[str, float]:
    found: dict[str, float] = json.loads(output_of("tests.benchmarks.facets", case, "--traces", str(n)))
    return found


if __name__ == "__main__":
    main()
