"""Measures changes on the first day of a series: `python -m tests.benchmarks.first_day` (or --quick).

One trace every 30 s, no declared volume, four series that share ten tickets a month: the share of streams that are told
of a change in time, the false alarms before it, and those of a day without a change but with a season.
"""

from __future__ import annotations

import argparse
import math

import numpy as np

from gapwatch.streams.detectors.arrays import Floats
from gapwatch.streams.detectors.bets import rate_bets
from gapwatch.streams.detectors.budgets.volume import set_allowed
from gapwatch.streams.detectors.contexts import TICKS_A_DAY, TICKS_AN_HOUR, hour_of_week
from gapwatch.streams.detectors.fleet import Fleet
from gapwatch.streams.detectors.fleet_config import FleetConfig
from gapwatch.streams.detectors.lifecycle import Event
from gapwatch.streams.detectors.watch import advance_phases

#: A Monday, nine o'clock, UTC.
START = 4 * TICKS_A_DAY + 9 * TICKS_AN_HOUR
#: Part of the monthly tickets and pages that a series may spend: four series share eight and 0.8.
TICKETS, PAGES = 8 / 4, 0.8 / 4
#: Rates before and after, traces before the change, traces within which it should be told, and the share that should.
CELLS = (
    (0.067, 0.26, 300, 200, 0.95),
    (0.067, 0.26, 1_000, 200, 0.95),
    (0.067, 0.26, 3_000, 200, 0.95),
    (0.05, 0.10, 300, 3_000, 0.80),
    (0.05, 0.10, 1_000, 3_000, 0.80),
    (0.05, 0.10, 3_000, 3_000, 0.80),
)


#: Swing of the rate, and of the traffic, over a first day without a change.
SEASONS = ((0.0, 0.0), (0.3, 0.0), (0.3, 0.6), (0.6, 0.0), (0.6, 0.6))


#: Units of the longer runs without a change, one trace every 30 s; and ticks that are folded at once in them.
LONG, STEP = 50_000, 10


def seasonal(swing: float, traffic: float, streams: int, seed: int, ticks: int = TICKS_A_DAY, step: int = 1) -> int:
    """Return the alerts of streams of 10 % whose rate swings as a sine, from their first trace and any phase on.

    Args:
        swing: Largest difference of the rate from its mean, as a part of the mean.
        traffic: The same of the traffic, one trace every 30 s on average, in the phase of the rate.
        streams: Number of streams.
        seed: Seed of the generator.
        ticks: Length of the run: a day.
        step: Ticks that are folded at once.
    """
    fleet = Fleet(FleetConfig(rate_bets()), streams)
    fleet.state["bad_side"][:] = 1
    set_allowed(fleet.state, np.arange(streams), TICKETS, PAGES)
    rng, alerts = np.random.default_rng(seed), 0
    phase = rng.random(streams)
    for i in range(0, ticks, step):
        wave = np.sin(2 * np.pi * (i / TICKS_A_DAY + phase))
        n = rng.poisson(step * (1.0 + traffic * wave))
        k = rng.binomial(n, 0.1 * (1.0 + swing * wave))
        fleet.fold(START + i, np.stack([n - k, k]).astype(np.float64), None, hour_of_week(START + i, "UTC"))
        steps = advance_phases(fleet, START + i)
        alerts += sum(s.event in (Event.TICKETED, Event.PAGED) and s.change is not None for s in steps)
    return alerts


def print_seasons(streams: int, seed: int, ticks: int = TICKS_A_DAY, step: int = 1) -> None:
    """Print the alerts of first days with a season beside those that the budget of that time allows."""
    allowed = streams * (TICKETS + PAGES) / 30.0 * ticks / TICKS_A_DAY
    for swing, traffic in SEASONS:
        alerts = seasonal(swing, traffic, streams, seed, ticks, step)
        good = alerts <= allowed + 3.0 * math.sqrt(allowed)
        print(
            f"{'met   ' if good else 'MISSED'} no change, a season of +-{swing:.0%}, of the traffic +-{traffic:.0%}: "
            f"{alerts} alerts of {streams} streams in {ticks / TICKS_A_DAY:.1f} days ({allowed:.1f} allowed)",
            flush=True,
        )


def run(rates: tuple[float, float], before: int, after: int, streams: int, seed: int) -> tuple[Floats, int]:
    """Return the traces until each stream is told, infinite where it is not, and the false alarms before."""
    fleet = Fleet(FleetConfig(rate_bets()), streams)
    fleet.state["bad_side"][:] = 1
    set_allowed(fleet.state, np.arange(streams), TICKETS, PAGES)
    rng, told, false = np.random.default_rng(seed), np.full(streams, math.inf), 0
    for i in range(before + after):
        bad = (rng.random(streams) < rates[i >= before]).astype(np.float64)
        fleet.fold(START + i, np.stack([1 - bad, bad]), None, hour_of_week(START + i, "UTC"))
        for step in advance_phases(fleet, START + i):
            if step.event in (Event.TICKETED, Event.PAGED):
                if i < before:
                    false += 1
                else:
                    told[step.row] = min(told[step.row], i - before)
    return told, false


def main() -> None:
    """Print a line for each cell."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="40 streams a cell; else 200")
    parser.add_argument("--seed", type=int, default=3)
    parser.add_argument("--seasons", action="store_true", help="the days with a season only")
    parser.add_argument("--long", action="store_true", help="50,000 traces with a season only")
    chosen = parser.parse_args()
    streams = 40 if chosen.quick else 200
    if chosen.long:
        print_seasons(streams, chosen.seed, LONG, STEP)
        return
    print_seasons(streams, chosen.seed)
    if chosen.seasons:
        return
    for old, new, before, after, goal in CELLS:
        told, false = run((old, new), before, after, streams, chosen.seed)
        share = float(np.mean(np.isfinite(told)))
        line = (
            f"{'met   ' if share >= goal else 'MISSED'} {old:.1%} to {new:.0%} after {before:,} traces: "
            f"{share:.1%} told within {after:,} (goal {goal:.0%}), half of them after {np.median(told):.0f}; "
            f"{false} false alarms before"
        )
        print(line, flush=True)


if __name__ == "__main__":
    main()
