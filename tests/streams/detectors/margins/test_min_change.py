"""The smallest change worth telling: its size as a person reads it, and no evidence from anything smaller."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gapwatch.streams.detectors.bets import category_bets, number_bets, rate_bets
from gapwatch.streams.detectors.contexts import TICKS_A_DAY
from gapwatch.streams.detectors.evidence import fold_sum, margin_increments
from gapwatch.streams.detectors.lifecycle import Event
from gapwatch.streams.detectors.local_level import level_increments
from gapwatch.streams.detectors.margins.min_change import least_tilts, narrowing
from gapwatch.streams.detectors.watch import advance_phases
from tests.depth import examples
from tests.streams.detectors.builders import plain, rates


def tilted(p: float, tilt: float) -> float:
    odds = p / (1.0 - p) * math.exp(tilt)
    return odds / (1.0 + odds)


def rate_tilts(p: float, factor: float, share: float) -> tuple[float, float]:
    alpha = np.array([[1.0 - p], [p]]) * 1000.0
    up, down = least_tilts(rate_bets(), alpha, np.array([factor]), np.array([share]))[0, :, 0]
    return float(up), float(down)


@pytest.mark.parametrize(
    ("before", "up", "down"),
    [
        (0.04, 0.05, 0.03),  # a point is a factor of 1.25 here
        (0.01, 0.02, 0.0),  # one point, and it cannot fall by one
        (0.2, 0.25, 0.16),
        (0.5, 0.6, 0.4),
        (0.8, 0.84, 0.75),  # 20 % good to 16 %
        (0.99, 1.0, 0.98),
    ],
)
def test_either_side_must_change_by_the_factor_and_by_the_point(before: float, up: float, down: float) -> None:
    grown, shrunk = rate_tilts(before, 1.25, 0.01)

    assert tilted(before, grown) == pytest.approx(up, abs=1e-9)
    assert tilted(before, -shrunk) == pytest.approx(down, abs=1e-9)


@settings(max_examples=examples(60))
@given(p=st.floats(0.001, 0.999), factor=st.floats(1.0, 4.0), share=st.floats(0.0, 0.3))
def test_a_share_and_its_rest_mirror_each_other(p: float, factor: float, share: float) -> None:
    up, down = rate_tilts(p, factor, share)
    rest_up, rest_down = rate_tilts(1.0 - p, factor, share)

    assert (up, down) == pytest.approx((rest_down, rest_up), abs=1e-9)
    assert min(up, down) >= 0.0


def test_without_a_smallest_change_every_tilt_counts() -> None:
    assert rate_tilts(0.1, 1.0, 0.0) == pytest.approx((0.0, 0.0), abs=1e-12)


def test_labels_and_tails_are_shares_and_the_location_is_that_above_the_median() -> None:
    labels = category_bets(("a", "b"))
    alpha = np.array([[600.0], [300.0], [100.0]])
    found = least_tilts(labels, alpha, np.array([1.25]), np.array([0.01]))[:, 0, 0]
    assert found == pytest.approx([rate_tilts(p, 1.25, 0.01)[0] for p in (0.6, 0.3, 0.1)])

    table = number_bets()
    levels = np.diff([0.0, *(float(name.split("-p")[1]) / 100 for name in table.bin_names)])
    numbers = least_tilts(table, 5000.0 * levels[:, None], np.array([1.25]), np.array([0.01]))[:, :, 0]
    by_name = {shape.name: tilts for shape, tilts in zip(table.shapes, numbers, strict=True)}
    assert by_name["share above the old p95"] == pytest.approx(rate_tilts(0.05, 1.25, 0.01))
    # 50 % above the old median to 60 %: a tilt of ln 1.5 for a continuous law.
    assert by_name["location"][0] == pytest.approx(math.log(1.5), rel=0.02)


@pytest.mark.parametrize("before", [0.02, 0.3, 0.85])
def test_no_smaller_change_pays_by_enumeration(before: float) -> None:
    """The mean evidence after up to five units, over all their outcomes, for every rate up to the smallest change."""
    table, units = rate_bets(), 5
    alpha = np.array([[1.0 - before], [before]]) * 1e6
    margins = least_tilts(table, alpha, np.array([1.25]), np.array([0.01]))
    up, down = float(margins[0, 0, 0]), float(margins[0, 1, 0])
    outcomes = np.array(list(itertools.product((0, 1), repeat=units)))
    evidence = np.zeros((table.count, len(outcomes)))
    for column in outcomes.T:
        counts = np.stack([1.0 - column, column]).astype(np.float64)
        wide = np.repeat(alpha, len(outcomes), axis=1)
        factors = margin_increments(table, wide, counts, np.repeat(margins, len(outcomes), axis=2))
        evidence = fold_sum(evidence, factors, np.ones(len(outcomes)))

    def mean(rate: float) -> np.ndarray:
        bad = outcomes.sum(axis=1)
        return evidence @ (rate**bad * (1.0 - rate) ** (units - bad))

    # The Shiryaev-Roberts sum has mean `units` at the edge, and less within.
    for tilt in np.linspace(-2.0, 1.0, 13):
        assert np.all(mean(tilted(before, tilt * up))[table.sides > 0] <= units + 1e-9)
        assert np.all(mean(tilted(before, -tilt * down))[table.sides < 0] <= units + 1e-9)
    assert mean(tilted(before, up))[table.sides > 0] == pytest.approx(np.full(4, units))
    assert np.all(mean(tilted(before, 2.0 * up))[table.sides > 0] > units)


@pytest.mark.parametrize(("failed", "passed"), [(0.5, 140.5), (0.5, 1000.5), (5.5, 200.5)])
@pytest.mark.parametrize("units", [10, 60, 500])
def test_the_smallest_change_of_a_rate_that_is_hardly_known_does_not_pay(
    failed: float, passed: float, units: int
) -> None:
    """The mean factor of one hour over what the baseline leaves open: each rate grows by its own smallest change."""
    table, factor, share = rate_bets(), np.array([1.25]), np.array([0.01])
    rest = np.array([[passed], [failed]])
    least = least_tilts(table, rest, factor, share)
    total, mean = passed + failed, failed / (passed + failed)
    width = narrowing(table, rest, least, factor) / (total * mean * (1.0 - mean))
    draws = np.random.default_rng(0).beta(failed, passed, 20_000)
    bad = np.random.default_rng(1).binomial(units, np.maximum(1.25 * draws, draws + 0.01)).astype(np.float64)
    many = len(bad)

    factors = level_increments(
        table,
        np.repeat(rest, many, axis=1),
        np.zeros((2, many)),
        np.stack([units - bad, bad]),
        np.repeat(width, many, axis=2)[None],
        np.repeat(least, many, axis=2)[None],
    )[0]

    up = np.exp(np.minimum(factors[table.sides > 0], 50.0))
    assert np.all(up.mean(axis=1) <= 1.0 + 4.0 * up.std(axis=1) / math.sqrt(many))


def test_ten_failures_of_fifty_are_told_after_none_of_140() -> None:
    """Two hours and a half at one unit a minute without a failure, then every fifth fails, in the hour that begins."""
    fleet = rates(plain(margins=True, seasonal=True, ring_buckets=256, ring_hours=64), 1, 1e4)
    told = []
    for i in range(190):
        tick = 4 * TICKS_A_DAY + 2 * i
        bad = float(i >= 140 and i % 5 == 0)
        fleet.fold(tick, np.array([[1.0 - bad], [bad]]), None, tick // 120 % 168)
        told += [(i, step.event) for step in advance_phases(fleet, tick)]

    assert [i for i, event in told if event is Event.TICKETED and i > 140]
    assert not [i for i, event in told if event is Event.TICKETED and i <= 140]


def events_of(rate_later: float, factor: float, share: float) -> list[tuple[Event, int]]:
    """Ten series at 10 % for a day of 500 units an hour, then at another rate for a day and a half."""
    fleet = rates(plain(margins=True, ring_buckets=256, ring_hours=64), 10, 1e5)
    s, rng = fleet.state, np.random.default_rng(7)
    s["min_factor"][:], s["min_share"][:] = factor, share
    events = []
    for i in range(120):
        tick = 4 * TICKS_A_DAY + 60 * i
        k = rng.binomial(250, 0.1 if i < 48 else rate_later, 10)
        fleet.fold(tick, np.stack([250 - k, k]))
        events += [(step.event, step.row) for step in advance_phases(fleet, tick)]
    return events


def test_a_change_below_the_smallest_is_seen_and_not_told() -> None:
    events = events_of(0.15, 1.6, 0.01)

    noticed = [row for event, row in events if event is Event.NOTICED]
    assert set(noticed) == set(range(10))
    assert len(noticed) <= 20
    assert not [event for event, _ in events if event in (Event.TICKETED, Event.PAGED)]


def test_the_same_change_is_told_where_the_smallest_is_smaller() -> None:
    events = events_of(0.15, 1.0, 0.0)

    assert {row for event, row in events if event is Event.TICKETED} == set(range(10))
    assert not [event for event, _ in events if event is Event.NOTICED]
