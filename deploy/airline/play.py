#!/usr/bin/env python3
"""Play recorded traces one after the other on a new clock, as one stream of JSON lines.

    python deploy/airline/play.py --start 2026-03-02T08:00:00Z --every 60 FILE.jsonl.gz... > stream.jsonl
    python deploy/airline/play.py --draw 2000 --seed 1 FILE.jsonl.gz... > stream.jsonl    so many of each file, drawn
    python deploy/airline/play.py --fallback qwen2.5-7b FILE.jsonl.gz... > stream.jsonl   one release is the fallback

The runs were made on different days, the bad release first. To tell the story "this release, then that one" the first
trace is moved to `--start` and each next one to `--every` seconds after the one before it; inside a trace all
distances stay as recorded. Nothing else is changed but one attribute, `recorded_at`, the true start. Needs the
standard library only.

With `--draw N` a file's traces are drawn with replacement, N of them, each under an id of its own (`recorded_id` says
whose): a longer stream of the same conversations, which says no more about a release than its recording does.

With `--fallback RELEASE` the agent's spans get a `tier` where none is recorded: `fallback` in that release, elsewhere
`primary`. Who answered is as recorded. That one release is the fallback of the others is an assumption of the demo;
each trace says so in its attribute `tier_by`.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import signal
import sys
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

Json = dict[str, Any]


def read(paths: Iterable[Path]) -> Iterator[Json]:
    """Yield the traces of plain or gzipped JSON-lines files in the order given."""
    for path in paths:
        opener = gzip.open if path.suffix == ".gz" else open
        with opener(path, "rt", encoding="utf-8") as file:
            yield from (json.loads(line) for line in file if line.strip())


def drawn(traces: list[Json], count: int, chance: random.Random) -> Iterator[Json]:
    """Yield so many traces, drawn with replacement, each under an id of its own."""
    for number in range(count):
        trace = chance.choice(traces)
        name = trace["trace_id"]
        told = {**trace.get("attributes", {}), "recorded_id": name}
        yield {**trace, "trace_id": f"{name}-{number}", "attributes": told}


def shifted(thing: Json, seconds: float) -> Json:
    """Return a trace or span with its times moved; a time that is absent stays absent."""
    # To the microsecond, the resolution of the recording: beyond it doubles differ by how they were added.
    moved = {key: round(thing[key] + seconds, 6) for key in ("started_at", "ended_at") if thing.get(key) is not None}
    return {**thing, **moved}


def rebased(traces: Iterable[Json], start: float, every: float) -> Iterator[Json]:
    """Yield the traces with the first starting at `start` and each next one `every` seconds later.

    Args:
        traces: In the order to play; each with a `started_at`.
        start: Seconds since the epoch.
        every: Seconds between two starts, positive.
    """
    for number, trace in enumerate(traces):
        recorded_at = trace["started_at"]
        seconds = start + number * every - recorded_at
        moved = shifted(trace, seconds)
        moved["attributes"] = {**trace.get("attributes", {}), "recorded_at": recorded_at}
        moved["spans"] = [shifted(span, seconds) for span in trace["spans"]]
        yield moved


def with_tiers(traces: Iterable[Json], fallback: str) -> Iterator[Json]:
    """Yield the traces with a tier in each agent span that has none: `fallback` in one release, else `primary`."""
    for trace in traces:
        if any(span["component"] == "agent" and span.get("tier") for span in trace["spans"]):
            yield trace
            continue
        tier = "fallback" if trace.get("release") == fallback else "primary"
        spans = [{**span, "tier": tier} if span["component"] == "agent" else span for span in trace["spans"]]
        yield {**trace, "spans": spans, "attributes": {**trace.get("attributes", {}), "tier_by": "play.py"}}


def moment(text: str) -> float:
    """Return seconds since the epoch of an ISO time; one without a zone is UTC."""
    time = datetime.fromisoformat(text)
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()


def main(arguments: list[str]) -> int:
    """Write the re-based stream to standard output."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "files", nargs="+", type=Path, metavar="FILE", help="JSON lines, plain or .gz, in order of play"
    )
    parser.add_argument("--start", type=moment, default=moment("2026-03-02T08:00:00Z"), help="ISO time of the first")
    parser.add_argument("--every", type=float, default=60.0, help="seconds from one start to the next (default 60)")
    parser.add_argument("--draw", type=int, default=0, metavar="N", help="draw so many of each file, with replacement")
    parser.add_argument("--fallback", metavar="RELEASE", help="release whose answers count as those of the fallback")
    parser.add_argument("--seed", type=int, default=1, help="of the draw (default 1)")
    options = parser.parse_args(arguments)
    if options.every <= 0:
        parser.error("--every: a positive number of seconds is expected")
    traces = read(options.files)
    if options.draw > 0:
        chance = random.Random(options.seed)  # noqa: S311  a draw, no secret
        files = [list(read([path])) for path in options.files]
        named = zip(files, options.files, strict=True)
        counts = " + ".join(f"{options.draw:,} of {len(file)} ({path.name})" for file, path in named)
        print(f"drawn with replacement: {counts}, seed {options.seed}", file=sys.stderr)
        traces = (trace for file in files for trace in drawn(file, options.draw, chance))
    if options.fallback:
        traces = with_tiers(traces, options.fallback)
    for trace in rebased(traces, options.start, options.every):
        print(json.dumps(trace, ensure_ascii=False, separators=(",", ":")))
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `| head` ends it quietly
    raise SystemExit(main(sys.argv[1:]))
