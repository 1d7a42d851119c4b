"""CPU of detection beside that of scoring and storing the same traces, by density of the traffic and number of series.

    python -m tests.benchmarks.detection_share             # 1, 60, 480 series at 1, 10, 100 traces a tick
    python -m tests.benchmarks.detection_share --slice 50  # thin slices, as in a live run
    python -m tests.benchmarks.detection_share --quick     # few traces, to see that it works

The traffic is that of `tests.benchmarks.replay` with 60 checks a trace: an alert on one of them, on all, or on all in
eight environments. Each slice is scored, given to the watch, and stored; the CPU of each of the three is summed, of all
threads, of user and system. So all three see the same machine. The first traces are not counted: series are made.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import orjson
import pyarrow as pa

from gapwatch.scorers.loading.load import parse_portfolio
from gapwatch.scorers.plan.plan import compile_plan
from gapwatch.scorers.scoring.score import Scorer, score
from gapwatch.scorers.slices.selection import fixed_selection
from gapwatch.scorers.slices.slices import RecordSlice
from gapwatch.sinks.store.store import Store
from gapwatch.streams.alerting.evaluation.shift_watch import ShiftWatch
from tests.benchmarks import traffic
from tests.benchmarks.alerts_cost import portfolio as alerting

#: Number of metrics with an alert, and of environments.
SERIES = ((1, 1), (60, 1), (60, 8))
#: Traces a tick to the ticks that are counted: two days, one day, five hours.
TICKS = {1: 5_760, 10: 2_880, 100: 600}
#: Ticks before them: burn-ins of numbers end within, but for one trace a tick.
WARM_UP = 150


def portfolio(alerts: int) -> str:
    """Return the portfolio of the traffic with an alert on all of its metrics, or on the first one alone."""
    whole = alerting(60)
    if alerts == 60:
        return whole
    lines, seen = [], 0
    for line in whole.splitlines():
        alert = line.find(", alert: {")
        seen += alert >= 0
        lines.append(line if alert < 0 or seen <= alerts else line[:alert] + "}")
    return "\n".join(lines) + "\n"


def records(n: int, per_tick: int, environments: int) -> Iterator[bytes]:
    """Yield n traces, so many in each tick of 30 s, in turn from each environment."""
    for i, line in enumerate(traffic.lines(n)):
        record = orjson.loads(line)
        record["environment"] = f"site-{i % environments}"
        move = traffic.START + 30 * i / per_tick - record["started_at"]
        for part in (record, *record["spans"]):
            for name in ("started_at", "ended_at"):
                if part.get(name) is not None:
                    part[name] += move
        yield orjson.dumps(record)


def measure(folder: Path, alerts: int, environments: int, per_tick: int, ticks: int, size: int) -> dict[str, float]:
    """Return CPU seconds of scoring, detection and storing, and the number of ticks that were counted."""
    loaded = parse_portfolio(portfolio(alerts))
    selection, scorer = fixed_selection([loaded]), Scorer(compile_plan([loaded]))
    raw = list(records((ticks + WARM_UP) * per_tick, per_tick, environments))
    path = folder / "share.duckdb"
    path.unlink(missing_ok=True)
    spent, counted = dict.fromkeys(("scoring", "detection", "storing"), 0.0), 0
    with closing(Store.open(path, create=True)) as store:
        store.register(loaded, list(selection.rows()))
        watch = ShiftWatch.open(store, [loaded], "replay/share.jsonl")
        warm = WARM_UP * per_tick
        for start in (*range(0, warm, size), *range(warm, len(raw), size)):
            some = raw[start : start + size] if start >= warm else raw[start : min(start + size, warm)]
            offsets = np.arange(start, start + len(some), dtype=np.int64)
            one = RecordSlice(
                watch.lane, "share.jsonl", 0, start, start + len(some), offsets, pa.array(some, pa.binary())
            )
            times = [time.process_time()]
            scored = score(scorer, selection, one)
            times.append(time.process_time())
            now = datetime.now(UTC)
            taken = watch.take(scored, now)
            times.append(time.process_time())
            store.write_slice(taken.scored, now, also=taken.steps)
            times.append(time.process_time())
            if start >= warm:
                counted += len(some)
                for name, took in zip(spent, np.diff(times).tolist(), strict=True):
                    spent[name] += took
    return {**spent, "ticks": counted / per_tick}


def main(arguments: Sequence[str] | None = None) -> None:
    """Print one line for each number of series and density."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--slice", type=int, default=4_000)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", nargs="*", default=[], metavar="SERIES:DENSITY")
    options = parser.parse_args(arguments)
    print(
        "| series | traces a tick | detection : scoring | detection : scoring and storing | detection, ms a tick |\n"
        "| --- | --- | --- | --- | --- |"
    )
    with tempfile.TemporaryDirectory() as name:
        for alerts, environments in SERIES:
            for per_tick, whole in TICKS.items():
                series = alerts * environments
                if options.only and f"{series}:{per_tick}" not in options.only:
                    continue
                ticks = 60 if options.quick else whole
                spent = measure(Path(name), alerts, environments, per_tick, ticks, options.slice)
                scoring, detection, all_else = spent["scoring"], spent["detection"], spent["scoring"] + spent["storing"]
                print(
                    f"| {series} | {per_tick} | {detection / scoring:.0%} | {detection / all_else:.0%} "
                    f"| {1e3 * detection / max(spent['ticks'], 1):.2f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
