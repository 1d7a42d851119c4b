"""Millions of traces at little cost: 20,000 different ones over and over, each time with new ids and later times."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

from tests.benchmarks.traffic import lines

BLOCK = 20_000
PER_SECOND = 200.0
_TIME = re.compile(rb'"(started|ended)_at":([0-9.]+)')
_ID = re.compile(rb'"trace_id":"([0-9a-f]{32})"')


def long_stream(n: int, block: int = BLOCK, seed: int = 11) -> Iterator[bytes]:
    """Yield n traces as lines, of which `block` are different."""
    dice = random.Random(seed)
    templates = [_template(line) for line in lines(min(n, block), seed=seed)]
    for i in range(n):
        repetition, k = divmod(i, block)
        template, times = templates[k]
        later = repetition * block / PER_SECOND
        yield template % (b"%032x" % dice.getrandbits(128), *[time + later for time in times])


def _template(line: bytes) -> tuple[bytes, list[float]]:
    """Return a line with places for its id and its times, and the times."""
    times = [float(match[2]) for match in _TIME.finditer(line)]
    escaped = line.replace(b"%", b"%%")
    with_times = _TIME.sub(rb'"\1_at":%.3f', escaped)
    return _ID.sub(b'"trace_id":"%b"', with_times, count=1) + b"\n", times
