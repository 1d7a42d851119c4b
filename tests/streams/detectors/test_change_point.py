"""Change points, also in hours without a baseline."""

from __future__ import annotations

import numpy as np
import pytest

from gapwatch.streams.detectors.baseline import Baseline
from gapwatch.streams.detectors.bets import rate_bets
from gapwatch.streams.detectors.change import find_change
from gapwatch.streams.detectors.change_point import look_back
from gapwatch.streams.detectors.contexts import HOURS, TICKS_A_DAY, TICKS_AN_HOUR
from gapwatch.streams.detectors.fleet import Fleet
from gapwatch.streams.detectors.fleet_config import FleetConfig

#: Monday, 00:00 UTC.
MONDAY = 2880 * 20514
STEP = 4


def folded(rates: list[tuple[int, float]], units: int = 8) -> Fleet:
    """Fold so many hours at each rate, every second minute, from Monday on."""
    fleet, rng, bucket = Fleet(FleetConfig(rate_bets()), 1), np.random.default_rng(2), MONDAY
    for hours, rate in rates:
        for _ in range(hours * TICKS_AN_HOUR // STEP):
            bad = rng.binomial(units, rate)
            hour = (bucket - MONDAY) // TICKS_AN_HOUR % HOURS
            fleet.fold(bucket, np.array([[units - bad], [bad]], np.float64), None, hour)
            bucket += STEP
    return fleet


@pytest.mark.parametrize("rate", [0.0, 0.1])
def test_a_change_in_hours_without_a_baseline_is_dated_later(rate: float) -> None:
    """A change at 18:00 of Monday, an hour without a baseline; found on Tuesday, when the hours have one."""
    fleet = folded([(18, rate), (14, rate + 0.05)])
    change = find_change(fleet, 0, None)
    broke = MONDAY + 18 * TICKS_AN_HOUR

    assert change.from_bucket - 60 <= broke <= change.to_bucket + 60
    assert abs(change.change_bucket - broke) <= 2 * TICKS_AN_HOUR
    assert change.from_bucket <= change.change_bucket <= change.to_bucket
    assert change.after.lower <= rate + 0.05 <= change.after.upper
    assert change.to_bucket - change.from_bucket < TICKS_A_DAY


def test_a_look_back_gives_the_baseline_of_each_entry() -> None:
    fleet = Fleet(FleetConfig(rate_bets(), context_units=1), 1)
    rng, seen = np.random.default_rng(0), []
    for i in range(300):
        bucket, hour = MONDAY + i * 40, i // 3 % HOURS
        before = fleet.baseline.one(0)
        fleet.fold(bucket, rng.integers(1, 9, (2, 1)).astype(np.float64), None, hour)
        seen.append((before, hour))
    past = look_back(fleet, 0)

    singles = [i for i, entry in enumerate(past.entries) if entry.first == entry.last][-256:]
    for i, (baseline, hour) in zip(singles, seen[-256:], strict=True):
        assert past.alpha[:, i] == pytest.approx(_held_against(baseline, hour))


def _held_against(baseline: Baseline, hour: int) -> np.ndarray:
    alpha, own = baseline.alpha(slice(0, 1), 0, hour, np.array([False]))
    return (alpha if own[0] >= 1 else baseline.elsewhere(slice(0, 1), 0, hour))[:, 0]
