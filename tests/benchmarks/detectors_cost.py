"""Cost of a tick of 10,000 series, in time and memory."""

from __future__ import annotations

import time

import numpy as np

from gapwatch.streams.detectors.bets import number_bets, rate_bets
from gapwatch.streams.detectors.fleet import Fleet
from gapwatch.streams.detectors.fleet_config import FleetConfig
from gapwatch.streams.detectors.watch import advance_phases
from tests.benchmarks.detectors_report import Report
from tests.benchmarks.detectors_streams import Size, bare
from tests.streams.detectors.single_rate import SingleRate


def _median_ms(fleet: Fleet, counts: np.ndarray, ticks: int, settled: bool) -> tuple[float, float]:
    """Median and lowest time of a tick, in ms: the machine is shared, the lowest is what the work takes."""
    took = []
    for bucket in range(1, ticks + 1):
        start = time.perf_counter()
        fleet.fold(bucket, counts[bucket % len(counts)])
        if settled:
            advance_phases(fleet, bucket)
        took.append(1e3 * (time.perf_counter() - start))
    return float(np.median(took)), min(took)


def cost(size: Size, report: Report) -> None:
    series, ticks = 10_000, 200 if size.name == "full" else 60
    rng = np.random.default_rng(0)
    bad = rng.poisson(1.5, (20, series))
    counts = np.stack([rng.poisson(28.5, (20, series)), bad], axis=1)
    full = Fleet(FleetConfig(rate_bets()), series)
    full.state["ticket_threshold"][:] = full.state["page_threshold"][:] = 1e9
    full.state["bad_side"][:] = 1
    state = sum(a.nbytes for n, a in full.state.items() if not n.startswith(("ring_", "hour_"))) / series
    ring = sum(a.nbytes for n, a in full.state.items() if n.startswith(("ring_", "hour_"))) / series
    median, lowest = _median_ms(full, counts, ticks, settled=True)
    report.goal(
        "10,000 rate series folded and settled: <= 10 ms a tick",
        f"median {median:.1f} ms, lowest {lowest:.1f} (seasons, both margins, ring, life cycle)",
        median <= 10,
    )
    report.goal("state of a rate series: <= 2 KB", f"{state:.0f} bytes (ring {ring:.0f} more)", state <= 2048)
    plain = Fleet(bare(), series)
    median, lowest = _median_ms(plain, counts, ticks, settled=False)
    each = 1e3 * median / series
    report.goal(
        "numpy: <= 0.5 us a series-bucket", f"median {each:.2f}, lowest {1e3 * lowest / series:.2f}", each <= 0.5
    )
    single = SingleRate(up=True)
    events = (rng.random(100_000) < 0.05).tolist()
    start = time.perf_counter()
    for bad_event in events:
        single.update(bad_event)
    each = 1e6 * (time.perf_counter() - start) / len(events)
    report.goal("pure Python: <= 2 us an event", f"{each:.2f}", each <= 2.0)
    numbers = Fleet(bare(number_bets()), 1000)
    numbers.state["prior"][:] = 80.0
    many = rng.multinomial(30, np.full(26, 1 / 26), (5, 1000)).transpose(0, 2, 1)
    median, lowest = _median_ms(numbers, many, 30, settled=False)
    report.line(f"  number series (34 bets, 26 bins): {median:.2f} us a series-bucket, lowest {lowest:.2f}")
