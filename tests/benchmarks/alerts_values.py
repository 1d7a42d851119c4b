"""False alarms of the detectors of numbers and labels as the watch uses them: steady values with a daily season.

    python -m tests.benchmarks.alerts_values

Seeds are fixed; A follows from ten tickets and one page a month. Two minutes.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from gapwatch.scorers.slices.value_histogram import histogram_cells
from gapwatch.streams.alerting.evaluation.value_detectors import LABELS, NUMBERS
from gapwatch.streams.detectors.budgets.budget import threshold
from gapwatch.streams.detectors.categories import CategoryFleet
from gapwatch.streams.detectors.fleet import Fleet
from gapwatch.streams.detectors.numbers import NumberFleet
from gapwatch.streams.detectors.watch import advance_phases
from tests.streams.alerting.builders import MONDAY

WINDOWS_A_DAY = 288
DAYS = 8
#: Units of a series in five minutes: 10,000 a day.
UNITS = 35


def _limits(fleet: Fleet, series: int) -> None:
    a_month = UNITS * WINDOWS_A_DAY * 30
    fleet.state["ticket_threshold"][:] = threshold(a_month, series, 10.0)
    fleet.state["page_threshold"][:] = threshold(a_month, series, 1.0)


def _say(what: str, season: float, found: Counter[str], fleet: Fleet) -> None:
    expected = float(fleet.state["expected_tickets"].sum())
    raised = ", ".join(f"{n} {name}" for name, n in sorted(found.items())) or "nothing"
    print(f"{what}, {DAYS} days of 10,000, season +-{season:.0%}: {raised}; {expected:.2g} tickets to expect at most")


def numbers(season: float, series: int = 100) -> None:
    """Log-normal latencies whose scale has a daily season; half of the series verified, half not."""
    rng, found = np.random.default_rng(0), Counter[str]()
    values = NumberFleet(NUMBERS, series, 500)
    _limits(values.fleet, series)
    values.fleet.state["bad_side"][:] = np.arange(series) % 2
    for window in range(DAYS * WINDOWS_A_DAY):
        which = np.repeat(np.arange(series), rng.poisson(UNITS, series))
        scale = 1 + season * np.sin(2 * np.pi * window / WINDOWS_A_DAY)
        cells = histogram_cells(scale * rng.lognormal(0, 0.6, len(which)))
        distinct, n = np.unique(np.stack([which, cells]), axis=1, return_counts=True)
        bucket = MONDAY + 10 * window
        values.fold(bucket, distinct[0], distinct[1], n, window // 12 % 168)
        found.update(t.event.value for t in advance_phases(values.fleet, bucket))
    _say(f"{series} number series", season, _told(found), values.fleet)


def labels(season: float, series: int = 60) -> None:
    """Mixes of six labels; the share of one has a daily season."""
    rng, found = np.random.default_rng(1), Counter[str]()
    values = CategoryFleet(LABELS)
    values.add_series(series)
    _limits(values.fleet, series)
    mixes = rng.dirichlet(np.full(6, 2.0), series)
    for window in range(DAYS * WINDOWS_A_DAY):
        now = mixes.copy()
        now[:, 0] *= 1 + season * np.sin(2 * np.pi * window / WINDOWS_A_DAY)
        now /= now.sum(axis=1, keepdims=True)
        units = {
            row: {f"l{i}": n for i, n in enumerate(rng.multinomial(UNITS, now[row]).tolist()) if n}
            for row in range(series)
        }
        bucket = MONDAY + 10 * window
        values.fold(bucket, units, window // 12 % 168)
        found.update(t.event.value for t in advance_phases(values.fleet, bucket))
    _say(f"{series} label series", season, _told(found), values.fleet)


def _told(found: Counter[str]) -> Counter[str]:
    return Counter({name: n for name, n in found.items() if name in ("ticketed", "paged", "improved")})


def main() -> None:
    for season in (0.0, 0.3):
        numbers(season)
        labels(season)


if __name__ == "__main__":
    main()
