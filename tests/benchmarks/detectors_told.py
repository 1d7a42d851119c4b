"""Delay of tickets as people get them, and what each condition of a ticket adds to it.

any change   evidence of any change >= A
margins      and of one beyond the smallest worth telling and two deviations of the daily noise
carried      and each unit since the rise began carries ten times its share of it (`lifecycle.is_carried`)
told         and the change is significant (`Change.is_significant`): the ticket
"""

from __future__ import annotations

import numpy as np

from gapwatch.streams.detectors.bets import rate_bets
from gapwatch.streams.detectors.fleet_config import FleetConfig
from gapwatch.streams.detectors.lifecycle import Event, is_carried
from gapwatch.streams.detectors.watch import advance_phases, evidence_by_side, risen_units
from tests.benchmarks.detectors_report import Report, row_text
from tests.benchmarks.detectors_streams import LIMIT, NEVER, Delays, Size, rate_fleet

CONDITIONS = ("any change", "margins", "carried", "told")
SHIFTS = tuple((rate, factor) for rate in (0.01, 0.05, 0.2) for factor in (1.5, 2.0, 4.0))
# Units that are learned on the first day, units of a bucket after the change, and most units until it is told.
_LEARNED, _STEP, _PATIENCE = 20_000, 10, 20_000


#: Thresholds: that of the other parts, and that of one series alone with 300 units a day and ten tickets a month.
LIMITS = (LIMIT, 1_125.0)


def delays_by_condition(
    before: float, after: float, limit: float, streams: int, rng: np.random.Generator
) -> dict[str, Delays]:
    """Return the units after the change at which each condition first held."""
    fleet = rate_fleet(FleetConfig(rate_bets(), seasonal=False), np.full(streams, before), 0, rng)
    fleet.state["bad_side"][:], fleet.state["ticket_threshold"][:] = 1, limit
    for bucket in range(1, 201):
        k = rng.binomial(_LEARNED // 200, before, streams)
        fleet.fold(bucket, np.stack([_LEARNED // 200 - k, k]))
        advance_phases(fleet, bucket)
    found = {name: np.full(streams, NEVER) for name in CONDITIONS}
    waiting = np.flatnonzero(fleet.state["phase"] < 2)
    early = np.delete(np.arange(streams), waiting)
    for bucket in range(2881, 2881 + _PATIENCE // _STEP):
        k = rng.binomial(_STEP, after, len(waiting))
        fleet.fold(bucket, np.stack([_STEP - k, k]), waiting)
        sides, risen = evidence_by_side(fleet), risen_units(fleet, 1)
        beyond = sides.bad >= limit
        told = [one.row for one in advance_phases(fleet, bucket) if one.event is Event.TICKETED]
        holds = (sides.seen >= limit, beyond, beyond & is_carried(sides.bad, risen), np.isin(np.arange(streams), told))
        for name, now in zip(CONDITIONS, holds, strict=True):
            found[name][now & np.isinf(found[name])] = (bucket - 2880) * _STEP
        waiting = waiting[~np.isin(waiting, told)]
        if not len(waiting):
            break
    return {name: Delays(np.delete(values, early)) for name, values in found.items()}


def told(size: Size, report: Report) -> None:
    """Print median and 95th percentile of the delay by condition, and what the third one adds to the second."""
    streams = {"quick": 60, "full": 400}[size.name]
    for limit in LIMITS:
        name = f"A = {limit:,.0f}, learned {_LEARNED:,}"
        report.line(row_text(name, [*CONDITIONS, "added by carried"]))
        for rate, factor in SHIFTS:
            found = delays_by_condition(rate, rate * factor, limit, streams, np.random.default_rng(14))
            both = np.isfinite(found["carried"].values)
            added = found["carried"].values[both] - found["margins"].values[both]
            last = f"{np.median(added):.0f}/{np.quantile(added, 0.95, method='higher'):.0f}" if len(added) else "never"
            report.line(row_text(f"{rate:g} x{factor:g}", [*(str(one) for one in found.values()), last]))
