from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapwatch.streams.detectors.change import Interval, excess_shares, find_change, rate_interval, ratio_interval
from gapwatch.streams.detectors.contexts import HOURS
from gapwatch.streams.detectors.evidence import mean_evidence
from gapwatch.streams.detectors.ring import Ring
from tests.streams.detectors.builders import plain, rates, ticks


@given(st.integers(0, 500), st.integers(0, 500))
def test_the_interval_is_where_the_mixture_is_at_most_20_times_better(k: int, rest: int) -> None:
    n = k + rest
    found = rate_interval(k, n)

    assert 0.0 <= found.lower <= found.upper <= 1.0
    for bound in (found.lower, found.upper):
        if n and 0.0 < bound < 1.0:
            mixture = math.lgamma(k + 0.5) + math.lgamma(rest + 0.5) - math.lgamma(n + 1) - math.log(math.pi)
            likelihood = k * math.log(bound) + rest * math.log1p(-bound)
            assert math.exp(mixture - likelihood) == pytest.approx(20, rel=1e-6)


def test_the_interval_covers_however_often_one_looks() -> None:
    rng = np.random.default_rng(0)
    missed = 0
    for _ in range(150):
        x = np.cumsum(rng.random(600) < 0.1)
        missed += any(
            not (i := rate_interval(float(x[n - 1]), n)).lower <= 0.1 <= i.upper
            for n in (5, 10, 20, 50, 100, 200, 400, 600)
        )
    assert missed / 150 <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 150)


def test_no_unit_tells_nothing() -> None:
    found = rate_interval(0, 0)

    assert (found.lower, found.upper) == (0.0, 1.0)
    assert math.isnan(found.value)


def test_ratios_have_the_bounds_of_both_parts() -> None:
    sure = ratio_interval(Interval(0.2, 0.16, 0.25), Interval(0.1, 0.1, 0.1))
    unsure = ratio_interval(Interval(0.2, 0.16, 0.25), Interval(0.1, 0.07, 0.14))

    assert (sure.value, sure.lower, sure.upper) == pytest.approx((2.0, 1.6, 2.5))
    assert unsure.lower < sure.lower < sure.upper < unsure.upper


def test_ratios_of_nothing() -> None:
    assert ratio_interval(Interval(0.0, 0.0, 0.01), Interval(0.1, 0.08, 0.12)).upper == pytest.approx(0.125)
    assert ratio_interval(Interval(0.1, 0.08, 0.12), Interval(0.0, 0.0, 0.04)).lower == pytest.approx(2.0)


def test_the_part_that_moved_has_the_excess() -> None:
    shares = excess_shares(np.array([100.0, 100.0]), np.array([30.0, 10.0]), np.array([0.1, 0.1]))

    assert shares.tolist() == [1.0, 0.0]
    assert excess_shares(np.array([10.0]), np.array([1.0]), np.array([0.1])).tolist() == [0.0]


def test_the_change_is_dated_and_sized() -> None:
    series, at = 40, 200
    fleet = rates(plain(ring_buckets=256), series)
    for bucket, tick in enumerate(ticks(0.1, 10, at - 1, series, 1), 1):
        fleet.fold(bucket, tick)
    for bucket, tick in enumerate(ticks(0.3, 10, 40, series, 2), at):
        fleet.fold(bucket, tick)
    changes = [find_change(fleet, row, 1) for row in range(series)]

    assert np.min(mean_evidence(fleet.config.table, fleet.state["evidence"], 1)) > 1e6
    assert np.median([abs(c.change_bucket - at) for c in changes]) <= 2
    assert np.mean([c.from_bucket <= at <= c.to_bucket for c in changes]) >= 0.85
    assert np.mean([c.after.lower <= 0.3 <= c.after.upper for c in changes]) >= 0.9
    assert all(c.is_significant and c.moved == "rate up" and c.side == 1 and not c.is_truncated for c in changes)
    assert np.median([c.before.value for c in changes]) == pytest.approx(0.1, abs=0.01)
    assert np.median([c.bad_per_hour for c in changes]) == pytest.approx(0.2 * 10 * 120, rel=0.2)


@pytest.mark.parametrize("burst", [1.0, 8.0])
def test_the_share_before_is_the_count_of_all_units_before_or_that_of_the_hours(burst: float) -> None:
    rng, at, other_hour = np.random.default_rng(7), 3 * 2880 + 360, 3
    fleet = rates(plain(seasonal=True, ring_buckets=256, ring_hours=256), 1)
    seen: dict[int, int] = {}
    for bucket in range(1, at + 60):
        hour = bucket // 120 % 168
        if hour % 24 not in (1, other_hour):
            continue
        before = 0.02 * (burst if hour % 24 == other_hour else 1.0)
        seen[bucket] = int(rng.binomial(5, before if bucket < at else 0.5))
        fleet.fold(bucket, np.array([[5.0 - seen[bucket]], [float(seen[bucket])]]), hour=hour)
    change = find_change(fleet, 0, 1)
    earlier = [bad for bucket, bad in seen.items() if bucket < change.change_bucket]

    assert change.is_of_hours is (burst > 1.0)
    if change.is_of_hours:
        assert change.before.value == pytest.approx(0.16, abs=0.03)
    else:
        assert change.before.value == pytest.approx(sum(earlier) / (5 * len(earlier)))
    assert change.learned == 5 * len(earlier)
    assert change.ratio.value == pytest.approx(change.after.value / change.before.value)
    assert change.before.lower < change.before.value < change.before.upper


def test_a_change_older_than_the_ring_says_so() -> None:
    fleet = rates(plain(ring_buckets=8, ring_hours=0), 1)
    for bucket, tick in enumerate(np.concatenate([ticks(0.1, 10, 100, 1, 3), ticks(0.25, 10, 60, 1, 4)]), 1):
        fleet.fold(bucket, tick)

    change = find_change(fleet, 0, 1)
    assert change.is_truncated
    assert change.change_bucket == 153


def ring(buckets: int, hours: int, series: int = 1) -> Ring:
    layout = Ring.layout(2, buckets, hours, np.uint32)
    return Ring({name: np.zeros((*shape, series), kind) for name, (shape, kind) in layout.items()}, buckets, hours)


def test_old_buckets_go_to_their_hour_and_nothing_is_lost() -> None:
    past = ring(5, 4)
    for bucket in range(240, 240 + 360, 3):
        past.write(np.array([0]), bucket, bucket // 120, np.array([[1.0], [2.0]]))

    entries = past.entries(0)
    assert sum(float(e.counts.sum()) for e in entries) == 3 * 120
    assert [e.first for e in entries] == sorted(e.first for e in entries)
    assert [(e.first, e.last, e.context) for e in entries[:2]] == [(240, 357, 2), (360, 477, 3)]
    assert all(e.first == e.last for e in entries[-5:])


def test_hours_of_other_contexts_are_kept_apart() -> None:
    past = ring(1, 4)
    for bucket, context in ((240, 2), (240, HOURS + 2), (241, 2)):
        past.write(np.array([0]), bucket, context, np.ones((2, 1)))

    assert [e.context for e in past.entries(0)] == [2, HOURS + 2, 2]
