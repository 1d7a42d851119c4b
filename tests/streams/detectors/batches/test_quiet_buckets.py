"""Buckets folded at once give the state and the transitions of buckets folded one after the other, bit for bit."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest

from gapwatch.streams.detectors.batches.quiet_buckets import Bucket, fold_buckets
from gapwatch.streams.detectors.bets import number_bets, rate_bets
from gapwatch.streams.detectors.budgets.volume import set_allowed
from gapwatch.streams.detectors.contexts import TICKS_AN_HOUR, hour_of_week
from gapwatch.streams.detectors.fleet import Fleet
from gapwatch.streams.detectors.fleet_config import FleetConfig
from gapwatch.streams.detectors.lifecycle import Event
from gapwatch.streams.detectors.snapshot import snapshot
from gapwatch.streams.detectors.watch import Transition, advance_phases

START = 5_913_888 // 2880 * 2880  # a midnight, UTC


def hour_of(bucket: int) -> int:
    return hour_of_week(bucket, "Europe/Berlin")


def made(config: FleetConfig, series: int) -> Fleet:
    fleet = Fleet(config, series)
    # Some thresholds are fixed, others follow the volume; some directions are confirmed.
    fleet.state["bad_side"][:] = np.arange(series) % 3 - 1
    for row in range(series):
        set_allowed(fleet.state, np.array([row]), 0.2, 0.02, 60_000.0 if row % 2 else None)
    return fleet


def one_by_one(fleet: Fleet, buckets: Sequence[Bucket]) -> list[Transition]:
    found = []
    for bucket in buckets:
        fleet.fold(bucket.number, bucket.counts, bucket.rows, hour_of(bucket.number))
        found += advance_phases(fleet, bucket.number)
    return found


def at_once(fleet: Fleet, buckets: Sequence[Bucket]) -> list[Transition]:
    found = []
    for _, some in itertools.groupby(buckets, lambda b: b.number // TICKS_AN_HOUR):
        mine = list(some)
        by_bucket = fold_buckets(fleet, hour_of(mine[0].number), mine)
        assert len(by_bucket) == len(mine)
        found += [one for steps in by_bucket for one in steps]
    return found


def stream(bins: int, series: int, days: float, per_day: int, seed: int, *, calm: bool = False) -> list[Bucket]:
    """Buckets of a season and, unless calm, of changes; each holds some of the series, some of them without a unit."""
    rng = np.random.default_rng(seed)
    base = (
        rng.dirichlet(np.full(bins, 2.0), series) if bins > 2 else np.stack([1 - (p := rng.beta(1, 15, series)), p], 1)
    )
    base[0] = np.eye(bins)[0]  # a series that never fails
    found = []
    for i in range(int(days * per_day)):
        number = START + i * 2880 // per_day + 1
        rows = np.flatnonzero(rng.random(series) < 0.8)
        shares = base.copy()
        if not calm and days * per_day * 0.6 < i < days * per_day * 0.75:
            moved = np.arange(series) % 4 == 1
            shares[moved] = 0.6 * shares[moved] + 0.4 * np.eye(bins)[-1]
        units = rng.poisson(8 * (1.2 + np.sin(2 * np.pi * i / per_day)), len(rows))
        counts = np.array([rng.multinomial(n, shares[row]) for n, row in zip(units, rows, strict=True)], np.int64)
        found.append(Bucket(number, counts.reshape(-1, bins).T, rows))
    return found


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("config", "days", "per_day"),
    [
        (FleetConfig(rate_bets()), 3, 288),
        pytest.param(FleetConfig(rate_bets()), 32, 72, marks=pytest.mark.slow),
        (FleetConfig(rate_bets(), margins=False, ring_buckets=16, ring_hours=8), 1, 288),
        (FleetConfig(rate_bets(), seasonal=False, ring_buckets=0, ring_hours=0), 1, 288),
        (FleetConfig(number_bets(), burn_in_units=50), 2, 144),
    ],
    ids=["days", "weeks", "no margins", "no seasons", "numbers"],
)
def test_buckets_at_once_give_the_bytes_of_buckets_one_by_one(
    config: FleetConfig, days: int, per_day: int, seed: int
) -> None:
    series = 9
    buckets = stream(config.table.bins, series, days, per_day, seed)
    alone, together = made(config, series), made(config, series)
    expected = one_by_one(alone, buckets)
    found = at_once(together, buckets)

    assert found == expected
    assert snapshot(together) == snapshot(alone)
    assert {Event.SUSPECTED, Event.TICKETED} <= {one.event for one in expected}


def test_series_with_equal_units_are_folded_once_and_give_the_bytes_of_each_alone() -> None:
    config, series = FleetConfig(rate_bets()), 3
    # Six series, two of each; the last one differs in its threshold alone.
    buckets = [
        Bucket(one.number, np.concatenate([one.counts, one.counts], axis=1), np.concatenate([one.rows, one.rows + 3]))
        for one in stream(2, series, 2, 288, 7)
    ]
    fleets = [made(config, 2 * series) for _ in range(2)]
    for fleet in fleets:
        fleet.state["bad_side"][:] = 1
        set_allowed(fleet.state, np.arange(2 * series), 0.2, 0.02)
        set_allowed(fleet.state, np.array([5]), 0.2, 0.02, 60_000.0)
    expected, found = one_by_one(fleets[0], buckets), at_once(fleets[1], buckets)

    assert found == expected
    assert snapshot(fleets[1]) == snapshot(fleets[0])


def test_a_threshold_that_falls_between_batches_moves_a_series_without_units() -> None:
    config, series = FleetConfig(rate_bets()), 3
    buckets = stream(2, series, 1, 288, 5, calm=True)
    fleets = [made(config, series) for _ in range(2)]
    found = []
    for fleet, fold in zip(fleets, (one_by_one, at_once), strict=True):
        fold(fleet, buckets[:-12])
        # A hundredth of the threshold is reached by evidence that was far below it when the last unit came.
        fleet.state["evidence"][:, 2] = fleet.state["margin_evidence"][:, 2] = 1e4
        fleet.state["rise"][:, 2], fleet.state["rise_units"][:, 2] = 5.0, 10.0
        fleet.state["tickets_allowed"][2], fleet.state["ticket_threshold"][2] = 0.0, 1e5
        without = [Bucket(b.number, b.counts[:, b.rows != 2], b.rows[b.rows != 2]) for b in buckets[-12:]]
        found.append(fold(fleet, without))

    assert found[0] == found[1]
    assert [one.row for one in found[0]][:1] == [2]
    assert snapshot(fleets[0]) == snapshot(fleets[1])


def test_calm_buckets_are_not_folded_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without this, the batch could be empty and all other tests pass."""
    config, series = FleetConfig(rate_bets()), 4
    buckets = stream(2, series, 1, 288, 6, calm=True)
    fleet = made(config, series)
    fleet.state["tickets_allowed"][:] = 0.0
    fleet.state["ticket_threshold"][:] = 1e12
    one_by_one(fleet, buckets[:24])
    folded = []
    monkeypatch.setattr(Fleet, "fold", lambda *given: folded.append(given))

    assert at_once(fleet, buckets[24:]) == []
    assert folded == []
