from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gapwatch.streams.detectors.bets import category_bets, rate_bets
from gapwatch.streams.detectors.budgets.volume import VOLUME
from gapwatch.streams.detectors.contexts import TICKS_TO_A_WEEK_BASELINE, day_group, hour_of_week
from gapwatch.streams.detectors.evidence import mean_evidence
from gapwatch.streams.detectors.fleet import Fleet, OutOfOrderError
from gapwatch.streams.detectors.fleet_config import FleetConfig
from gapwatch.streams.detectors.snapshot import SnapshotError, restore, snapshot
from gapwatch.streams.detectors.watch import advance_phases, evidence_by_side
from tests.depth import examples
from tests.streams.detectors.builders import plain, rates, ticks

FULL = FleetConfig(rate_bets(), ring_buckets=8, ring_hours=4, burn_in_units=50, context_units=10)


def run(fleet: Fleet, counts: np.ndarray, first: int, columns: slice = slice(None)) -> None:
    for i, tick in enumerate(counts):
        bucket = first + 37 * i
        fleet.fold(bucket, tick[:, columns], hour=hour_of_week(bucket, "Europe/Berlin"))
        advance_phases(fleet, bucket)


def test_snapshot_in_the_middle_changes_no_byte() -> None:
    counts = np.concatenate([ticks(0.05, 20, 150, 5, 1), ticks([0.05, 0.3, 0.05, 0.3, 0.9], 20, 150, 5, 2)])
    whole, part = rates(FULL, 5, 1e4), rates(FULL, 5, 1e4)
    for fleet in (whole, part):
        fleet.state["page_threshold"][:] = 1e5
    run(whole, counts, 1000)

    run(part, counts[:170], 1000)
    part = restore(FULL, snapshot(part))
    run(part, counts[170:], 1000 + 37 * 170)

    assert snapshot(part) == snapshot(whole)
    assert (whole.state["phase"] >= 2).sum() >= 3


def test_a_series_does_not_see_its_neighbours() -> None:
    series = 2 * 2048 + 77
    counts = ticks(np.linspace(0.01, 0.9, series), 30, 12, series, 3)
    together = rates(FULL, series)
    run(together, counts, 1000)

    for row in (0, 1, 2047, 2048, 4100, series - 1):
        alone = rates(FULL, 1)
        run(alone, counts, 1000, slice(row, row + 1))
        for name, array in alone.state.items():
            assert array[..., 0].tobytes() == np.ascontiguousarray(together.state[name][..., row]).tobytes(), name


def test_some_rows_and_all_rows_with_empty_ones_are_the_same() -> None:
    counts = ticks(0.2, 10, 40, 6, 4)
    counts[:, :, [1, 4]] = 0
    everyone, chosen = rates(FULL, 6), rates(FULL, 6)
    rows = np.array([0, 2, 3, 5])
    for bucket, tick in enumerate(counts, 1000):
        everyone.fold(bucket, tick)
        chosen.fold(bucket, tick[:, rows], rows)

    assert snapshot(everyone) == snapshot(chosen)


@settings(max_examples=examples(25))
@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 9)), min_size=1, max_size=6), st.randoms())
def test_counts_of_workers_add_up_in_any_order(parts: list[tuple[int, int]], shuffle: object) -> None:
    vectors = [np.array([[n], [k]]) for n, k in parts]
    mixed = list(vectors)
    shuffle.shuffle(mixed)  # type: ignore[attr-defined]
    one, other = rates(plain(), 1), rates(plain(), 1)

    one.fold(1, sum(vectors))
    other.fold(1, sum(mixed))

    assert snapshot(one) == snapshot(other)


@pytest.mark.parametrize("value", [0, 1])
@pytest.mark.parametrize("units", [1, 30])
def test_a_constant_series_never_alarms(value: int, units: int) -> None:
    fleet = rates(plain(burn_in_units=100), 1, 1e3, 0)
    counts = np.zeros((2, 1))
    counts[value] = units
    for bucket in range(1, 1500):
        fleet.fold(bucket, counts)
        assert advance_phases(fleet, bucket) == []


def test_one_late_outlier_does_not_alarm() -> None:
    fleet = rates(plain(), 1, 1e6, 0)
    for bucket in range(1, 400):
        fleet.fold(bucket, np.array([[29.0], [1.0]]) if bucket == 300 else np.array([[30.0], [0.0]]))
        assert not [t for t in advance_phases(fleet, bucket) if t.event.value == "ticketed"]


def test_false_alarms_stay_within_the_promise() -> None:
    series = 400
    found = np.zeros(series, np.bool_)
    fleet = rates(plain(ring_buckets=0), series)
    probability = np.repeat([0.01, 0.05, 0.2, 0.5], series // 4)
    for bucket, tick in enumerate(ticks(probability, 100, 100, series, 5), 1):
        fleet.fold(bucket, tick)
        found |= mean_evidence(fleet.config.table, fleet.state["evidence"], None) >= 10_000 / 0.05

    assert found.mean() <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / series)


def test_evidence_grows_no_faster_than_units_on_average() -> None:
    series = 3000
    fleet = rates(plain(ring_buckets=0), series, np.inf)
    # The rate of each series comes from the prior: then the mean is exact, not just small.
    probability = np.random.default_rng(6).beta(0.5, 0.5, series)
    for bucket, tick in enumerate(ticks(probability, 5, 4, series, 7), 1):
        fleet.fold(bucket, tick)

    m = mean_evidence(fleet.config.table, fleet.state["evidence"], None)
    assert m.mean() == pytest.approx(20, abs=4 * m.std() / np.sqrt(series))


def test_a_doubled_rate_is_found_soon_and_a_halved_one_is_no_bad_news() -> None:
    fleet = rates(plain(ring_buckets=0), 200)
    for bucket, tick in enumerate(ticks(0.2, 50, 60, 200, 8), 1):
        fleet.fold(bucket, tick)
    moved = ticks(np.repeat([0.4, 0.1], 100), 10, 60, 200, 9)
    for bucket, tick in enumerate(moved, 100):
        fleet.fold(bucket, tick)

    m = mean_evidence(fleet.config.table, fleet.state["evidence"], 1)
    assert np.mean(m[:100] >= 1e6) >= 0.99
    assert np.max(m[100:]) < 1e6


def test_each_stratum_has_a_baseline_of_its_own() -> None:
    rng = np.random.default_rng(10)
    fleet = Fleet(plain(strata=2, ring_buckets=0), 1)
    mix = [20] * 150 + [5] * 150
    for bucket, first in enumerate(mix, 1):
        for stratum, (units, rate) in enumerate([(first, 0.02), (25 - first, 0.3)]):
            k = rng.binomial(units, rate)
            fleet.fold(bucket, np.array([[units - k], [k]]), stratum=stratum)

    m = mean_evidence(fleet.config.table, fleet.state["evidence"], 1)[0]
    assert m < 1e6
    assert fleet.state["pooled"][:, 1, 0].sum() > 500


def test_a_season_is_learned_by_hour() -> None:
    start = 4 * 2880
    config = plain(seasonal=True, context_units=50, ring_buckets=0)
    seasonal, blind = Fleet(config, 1), Fleet(plain(ring_buckets=0), 1)
    rng = np.random.default_rng(11)
    high = flat = 0.0
    for i in range(8 * 288):
        bucket = start + 10 * i
        rate = 0.2 * (1 + 0.6 * np.sin(2 * np.pi * i / 288))
        k = rng.binomial(30, rate)
        for fleet in (seasonal, blind):
            fleet.fold(bucket, np.array([[30 - k], [k]]), hour=hour_of_week(bucket, "UTC"))
        if i <= 3 * 288:
            seasonal.state["evidence"][:] = blind.state["evidence"][:] = 0.0
        high, flat = (
            max(m, mean_evidence(config.table, f.state["evidence"], 1)[0]) for m, f in ((high, seasonal), (flat, blind))
        )

    assert high < 1e6 < flat


@pytest.mark.parametrize(("swing", "traffic"), [(0.3, 0.0), (0.4, 0.8)])
def test_on_its_first_days_a_season_raises_no_alarm(swing: float, traffic: float) -> None:
    """With flat traffic +-30 %; where the traffic has a day and a night, the rate may swing more."""
    start, series = 4 * 2880, 30
    fleet = Fleet(plain(seasonal=True, context_units=50, burn_in_units=100, margins=True, ring_buckets=0), series)
    rng, highest, told = np.random.default_rng(16), np.zeros(series), np.zeros(series)
    for i in range(7 * 240):
        bucket, wave = start + 12 * i, np.sin(2 * np.pi * i / 240)
        n = round(25 * (1 + traffic * wave))
        k = rng.binomial(n, 0.2 * (1 + swing * wave), series)
        fleet.fold(bucket, np.stack([n - k, k]), hour=hour_of_week(bucket, "UTC"))
        sides = evidence_by_side(fleet)
        highest, told = np.maximum(highest, sides.seen), np.maximum(told, sides.bad)

    # A threshold for one false alarm in a week, over all series.
    assert np.count_nonzero(highest >= 7 * 240 * 25 * series) <= 2
    assert told.max() < 7 * 240 * 25 * series


def test_after_four_weeks_each_hour_of_the_week_counts_for_itself() -> None:
    fleet = Fleet(plain(seasonal=True, ring_buckets=0), 1)
    fleet.fold(1, np.array([[0.0], [400.0]]), hour=30)
    fleet.fold(1, np.array([[400.0], [0.0]]), hour=54)
    rows, young, old = slice(0, 1), np.array([False]), np.array([True])

    shared = fleet.baseline.alpha(rows, 0, 54, young)[0][:, 0]
    own = fleet.baseline.alpha(rows, 0, 54, old)[0][:, 0]

    assert shared[1] / shared.sum() == pytest.approx(0.5)
    assert own[1] / own.sum() == pytest.approx(10 / 420)
    assert TICKS_TO_A_WEEK_BASELINE == 28 * 2880


def test_hours_of_the_week_are_local() -> None:
    monday_noon_utc = 1_700_481_600 // 30  # 2023-11-20 12:00 UTC, a Monday

    assert hour_of_week(monday_noon_utc, "UTC") == 12
    assert hour_of_week(monday_noon_utc, "Europe/Berlin") == 13
    assert day_group(12) == (12, 36, 60, 84, 108)
    assert day_group(130) == (130, 154)


def test_before_its_burn_in_a_series_is_silent() -> None:
    fleet = rates(plain(burn_in_units=1000), 1, 1e3)
    for bucket, tick in enumerate(np.concatenate([ticks(0.01, 10, 45, 1, 12), ticks(0.9, 10, 50, 1, 13)]), 1):
        fleet.fold(bucket, tick)
    assert fleet.state["evidence"].max() == 0.0


def test_a_big_bucket_on_a_small_baseline_only_teaches_the_margin_form() -> None:
    fleet = rates(plain(margins=True), 1)
    fleet.fold(1, np.array([[90.0], [10.0]]))
    fleet.fold(2, np.array([[10.0], [90.0]]))

    assert fleet.state["margin_evidence"].max() == 0.0
    assert fleet.state["evidence"].max() > 1e3


def test_a_tick_out_of_order_is_refused_and_late_units_are_not() -> None:
    fleet = rates(FULL, 2)
    fleet.fold(10, np.ones((2, 2)), hour=5)
    fleet.fold(10, np.ones((2, 2)), hour=4)

    with pytest.raises(OutOfOrderError, match="bucket 9"):
        fleet.fold(9, np.ones((2, 2)))


def test_a_new_epoch_resets_all_but_the_settings() -> None:
    fleet = rates(FULL, 3, 500.0)
    run(fleet, ticks(0.3, 30, 150, 3, 14), 1000)
    fresh = rates(FULL, 3, 500.0)

    fleet.start_epoch(np.array([1]))

    for name, array in fleet.state.items():
        if not name.startswith("expected") and name not in VOLUME:
            assert np.array_equal(array[..., 1], fresh.state[name][..., 1]), name
    assert fleet.state["pooled"][0, 0, 0] > 0
    assert fleet.state["expected_tickets"][1] > 0


def test_categories_fold_like_rates() -> None:
    table = category_bets(["primary", "fallback"], [0.0, 1.0], ["fallback"])
    fleet = Fleet(dataclasses.replace(plain(), table=table), 1)
    fleet.state["ticket_threshold"][:], fleet.state["bad_side"][:] = 1e6, 1
    for bucket in range(1, 100):
        fleet.fold(bucket, np.array([[28.0], [2.0], [0.0]]))
    events = []
    for bucket in range(100, 140):
        fleet.fold(bucket, np.array([[25.0], [5.0], [0.0]]))
        events += advance_phases(fleet, bucket)

    ticket = next(e for e in events if e.event.value == "ticketed")
    assert ticket.change is not None
    assert ticket.change.moved in ("share of fallback up", "mean cost up")
    assert 98 <= ticket.change.change_bucket <= 101


@pytest.mark.parametrize("cut", [0, 5, 200, -1])
def test_a_damaged_snapshot_is_refused(cut: int) -> None:
    data = snapshot(rates(FULL, 2))

    with pytest.raises(SnapshotError, match="refold"):
        restore(FULL, data[:cut])


def test_a_snapshot_of_another_config_is_refused() -> None:
    with pytest.raises(SnapshotError, match="another config"):
        restore(plain(), snapshot(rates(FULL, 2)))


@pytest.mark.parametrize(
    ("bucket", "counts", "where"),
    [
        (1, np.ones((3, 2)), {}),
        (1, np.ones((2, 1)), {}),
        (1, -np.ones((2, 2)), {}),
        (0, np.ones((2, 2)), {}),
        (2**32, np.ones((2, 2)), {}),
        (1, np.ones((2, 2)), {"hour": 168}),
        (1, np.ones((2, 2)), {"stratum": 1}),
    ],
)
def test_a_tick_that_cannot_be_is_refused_and_changes_nothing(
    bucket: int, counts: np.ndarray, where: dict[str, int]
) -> None:
    fleet = rates(FULL, 2)
    before = snapshot(fleet)

    with pytest.raises(ValueError, match=r"shape|negative|expected"):
        fleet.fold(bucket, counts, **where)
    assert snapshot(fleet) == before


def test_impossible_configs_are_refused() -> None:
    with pytest.raises(ValueError, match="strata"):
        FleetConfig(rate_bets(), strata=33)
    with pytest.raises(ValueError, match="sessions"):
        FleetConfig(category_bets(["a"]), sessions=True)


def test_a_rate_series_fits_in_two_kilobytes_without_its_ring() -> None:
    fleet = Fleet(FleetConfig(rate_bets()), 1)

    assert sum(a.nbytes for n, a in fleet.state.items() if not n.startswith(("ring_", "hour_"))) <= 2048
