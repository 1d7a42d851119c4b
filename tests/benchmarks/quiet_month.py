"""Measures quiet months and real changes between days: `python -m tests.benchmarks.quiet_month` (or --quick).

200 series share one page and ten tickets a month. Nothing of a quiet month is worth telling: days are noisy, Mondays
are worse, days and weekends have seasons. A real change is told all the same.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from dataclasses import dataclass, replace

import numpy as np

from gapwatch.streams.detectors.arrays import Floats
from gapwatch.streams.detectors.bets import rate_bets
from gapwatch.streams.detectors.budgets.budget import threshold
from gapwatch.streams.detectors.contexts import TICKS_A_DAY, hour_of_week
from gapwatch.streams.detectors.fleet import Fleet
from gapwatch.streams.detectors.fleet_config import FleetConfig
from gapwatch.streams.detectors.lifecycle import Event
from gapwatch.streams.detectors.watch import advance_phases

#: A Monday, midnight, UTC.
START = 4 * TICKS_A_DAY
TICKETS, PAGES = 10.0, 1.0


@dataclass(frozen=True)
class Life:
    """What the traffic does between days, and the change that may come.

    Attributes:
        traces: Traces of a series on a weekday.
        noise: Standard deviation of the level of a day, log odds.
        monday: Factor of the rate on Mondays.
        season: Swing of the rate and of the traffic over a day.
        weekend: Traffic of a weekend's day, relative to a weekday's.
        drift: Growth of the rate in a day, as a part of itself.
        change: Factor of the rate from `change_day` on.
        change_day: Day of the change, with the hour as its fraction.
        days: Length of the run.
        ticks: Ticks that are folded at once.
        begins: Weekday of the first day, 0 for a Monday.
    """

    traces: float
    noise: float = 0.0
    monday: float = 1.0
    season: float = 0.0
    weekend: float = 1.0
    drift: float = 0.0
    change: float = 1.0
    change_day: float = np.inf
    days: int = 30
    ticks: int = 60
    begins: int = 0


@dataclass(frozen=True)
class Told:
    """What a run told: the number of events by kind, and the delay of the first alert of each series, in days."""

    events: Counter[str]
    delays: Floats

    @property
    def alerts(self) -> tuple[int, int]:
        """Tickets, with the pages that came at once; and pages."""
        return self.events["ticketed"] + self.events["paged at once"], self.events["paged"]


QUIET = {
    "independent": Life(0),
    "noise 0.1": Life(0, noise=0.1),
    "noise 0.2": Life(0, noise=0.2),
    "Mondays x1.25": Life(0, monday=1.25),
    "season +-30 %, weekends at half": Life(0, season=0.3, weekend=0.5),
    "all of noise 0.1, Mondays, season, weekends": Life(0, noise=0.1, monday=1.25, season=0.3, weekend=0.5),
    "drift of 0.1 % a day": Life(0, drift=0.001),
}
#: Real changes on day 20, at noon: factor, and noise between days.
CHANGES = ((1.5, 0.0), (2.0, 0.0), (2.0, 0.1), (4.0, 0.1), (1.6, 0.1))


def rates_of(series: int) -> Floats:
    """Return rates from 1 % to 30 %, even on a logarithmic scale."""
    return np.exp(np.linspace(np.log(0.01), np.log(0.3), series))


def live(life: Life, series: int, seed: int, sharing: int | None = None) -> Told:
    """Fold the life of many series through a fleet, from the first trace on, and count what is told.

    Args:
        life: What the traffic does.
        series: Number of series.
        seed: Seed of the generator.
        sharing: Number of series that share the budget, where it is another one.
    """
    fleet = Fleet(FleetConfig(rate_bets()), series)
    s = fleet.state
    s["bad_side"][:] = 1
    units = 30.0 * life.traces
    s["ticket_threshold"][:] = threshold(units, sharing or series, TICKETS)
    s["page_threshold"][:] = threshold(units, sharing or series, PAGES)
    rng, base = np.random.default_rng(seed), rates_of(series)
    events: Counter[str] = Counter()
    first = np.full(series, np.inf)
    odds = base / (1.0 - base)
    per_day = TICKS_A_DAY // life.ticks
    for i in range(life.days * per_day):
        day, wave = i // per_day + life.begins, np.sin(2 * np.pi * (i % per_day) / per_day)
        if i % per_day == 0:
            level = odds * np.exp(rng.normal(0.0, life.noise, series))
        rate = level / (1.0 + level) * (1.0 + life.season * wave) * (1.0 + life.drift) ** (i / per_day)
        rate = rate * (life.monday if day % 7 == 0 else 1.0) * (life.change if i / per_day >= life.change_day else 1.0)
        mean = life.traces / per_day * (1.0 + life.season * wave) * (life.weekend if day % 7 >= 5 else 1.0)
        n = rng.poisson(mean, series)
        k = rng.binomial(n, np.minimum(rate, 0.99))
        tick = START + life.begins * TICKS_A_DAY + i * life.ticks
        fleet.fold(tick, np.stack([n - k, k]).astype(np.float64), None, hour_of_week(tick, "UTC"))
        for step in advance_phases(fleet, tick):
            events[step.event.value] += 1
            if step.event is Event.PAGED and step.change is not None:
                events["paged at once"] += 1
            if step.event in (Event.TICKETED, Event.PAGED) and i / per_day >= life.change_day:
                first[step.row] = min(first[step.row], i / per_day - life.change_day)
    return Told(events, first)


def quiet(series: int, names: list[str], seed: int, begins: int, volumes: list[int]) -> bool:
    """Print the alerts of each quiet month; return True where all are within the budget."""
    within = True
    for name in names:
        for traces in volumes:
            start = time.perf_counter()
            told = live(replace(QUIET[name], traces=traces, begins=begins), series, seed)
            tickets, pages = told.alerts
            good = tickets <= 12 and pages <= 1
            within &= good
            print(
                f"{'met   ' if good else 'MISSED'} {name}, {traces:,} traces a day: {tickets} tickets, {pages} pages;"
                f" {dict(sorted(told.events.items()))} ({time.perf_counter() - start:.0f} s)",
                flush=True,
            )
    return within


def crowds(series: int, names: list[str], seed: int, begins: int, volumes: list[int]) -> None:
    """Print the alerts of quiet months of 1, 50 and 500 series that share the budget, from simulated ones."""
    for name in names:
        for traces in volumes:
            for sharing in (1, 50, 500):
                told = live(replace(QUIET[name], traces=traces, begins=begins), series, seed, sharing)
                tickets, pages = (n * sharing / series for n in told.alerts)
                allowed = [n + 3.0 * (n * sharing / series) ** 0.5 for n in (TICKETS, PAGES)]
                good = tickets <= allowed[0] and pages <= allowed[1]
                print(
                    f"{'met   ' if good else 'MISSED'} {name}, {traces:,} traces a day, {sharing} sharing the budget: "
                    f"{tickets:.2f} tickets, {pages:.2f} pages a month ({told.alerts} of {series} series)",
                    flush=True,
                )


def changes(series: int, seed: int) -> None:
    """Print the delay of real changes."""
    for factor, noise in CHANGES:
        for traces in (2_000, 20_000):
            life = Life(traces, noise=noise, change=factor, change_day=20.5, days=34)
            told = live(life, series, seed)
            low, middle, high = (np.quantile(told.delays, q, method="higher") for q in (0.25, 0.5, 0.75))
            print(
                f"x{factor}, noise {noise}, {traces:,} traces a day: told {np.mean(np.isfinite(told.delays)):.0%},"
                f" days to it {low:.2f} / {middle:.2f} / {high:.2f}; {dict(sorted(told.events.items()))}",
                flush=True,
            )


def main() -> int:
    """Run the quiet months and the changes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="40 series")
    parser.add_argument("--only", nargs="*", choices=sorted(QUIET), default=list(QUIET))
    parser.add_argument("--changes", action="store_true", help="the delays of real changes instead")
    parser.add_argument("--crowds", action="store_true", help="the budget shared by 1, 50 and 500 series instead")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--begins", type=int, default=0, help="weekday of the first day, 0 for a Monday")
    parser.add_argument("--traces", type=int, nargs="*", default=[2_000, 20_000], help="traces of a weekday")
    parser.add_argument("--check", action="store_true", help="exit 1 when a goal is missed")
    chosen = parser.parse_args()
    series = 40 if chosen.quick else 200
    if chosen.changes:
        changes(series, chosen.seed)
        return 0
    if chosen.crowds:
        crowds(series, chosen.only, chosen.seed, chosen.begins, chosen.traces)
        return 0
    within = quiet(series, chosen.only, chosen.seed, chosen.begins, chosen.traces)
    return 1 if not within and chosen.check else 0


if __name__ == "__main__":
    sys.exit(main())
