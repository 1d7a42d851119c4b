from __future__ import annotations

import numpy as np
import pytest

from gapwatch.scorers.slices.value_histogram import histogram_cells
from gapwatch.streams.detectors.bets import number_bets
from gapwatch.streams.detectors.fleet_config import FleetConfig
from gapwatch.streams.detectors.numbers import NumberFleet
from gapwatch.streams.detectors.snapshot import SnapshotError, restore_headed, snapshot_headed
from gapwatch.streams.detectors.watch import Transition, advance_phases

CONFIG = FleetConfig(number_bets(), seasonal=False, margins=False, ring_buckets=64, ring_hours=8, burn_in_units=0)


def start(series: int, limit: float = 1e6, burn_in: int = 500) -> NumberFleet:
    numbers = NumberFleet(CONFIG, series, burn_in)
    numbers.fleet.state["ticket_threshold"][:] = limit
    return numbers


def fold(numbers: NumberFleet, bucket: int, values: np.ndarray) -> list[Transition]:
    """Fold values of shape (series, units) as sparse cells."""
    series, cells, counts = [], [], []
    for row, cell_row in enumerate(histogram_cells(values)):
        found, n = np.unique(cell_row, return_counts=True)
        series += [row] * len(found)
        cells += found.tolist()
        counts += n.tolist()
    numbers.fold(bucket, np.array(series), np.array(cells), np.array(counts))
    return advance_phases(numbers.fleet, bucket)


def test_bins_are_formed_behind_the_tick_that_ends_the_burn_in() -> None:
    numbers, rng = start(2), np.random.default_rng(0)
    for bucket in range(1, 10):
        fold(numbers, bucket, rng.lognormal(0, 1, (2, 50)))
    assert numbers.formed.tolist() == [False, False]

    fold(numbers, 10, rng.lognormal(0, 1, (2, 60)))

    assert numbers.formed.tolist() == [True, True]
    assert numbers.fleet.state["pooled"].sum() == 0
    assert numbers.fleet.state["prior"].sum(axis=0) == pytest.approx(511, abs=1)


def test_latencies_half_as_long_again_are_found_and_named() -> None:
    numbers, rng = start(20), np.random.default_rng(1)
    events = []
    for bucket in range(1, 80):
        events += fold(numbers, bucket, rng.lognormal(0, 0.6, (20, 30)))
    assert not [e for e in events if e.event.value == "ticketed"]
    for bucket in range(80, 100):
        events += fold(numbers, bucket, 1.5 * rng.lognormal(0, 0.6, (20, 30)))

    tickets = [e for e in events if e.event.value == "ticketed"]
    assert {e.row for e in tickets} == set(range(20))
    changes = [e.change for e in tickets if e.change is not None]
    assert {c.side for c in changes} == {1}
    assert np.median([abs(c.change_bucket - 80) for c in changes]) <= 1
    assert np.mean([c.from_bucket <= 80 <= c.to_bucket for c in changes]) >= 0.8


def test_a_constant_number_never_alarms() -> None:
    numbers = start(1, 1e3, 100)
    for bucket in range(1, 400):
        assert fold(numbers, bucket, np.full((1, 20), 42.0)) == []


def test_a_value_never_seen_before_is_found() -> None:
    numbers, rng = start(1), np.random.default_rng(2)
    for bucket in range(1, 100):
        fold(numbers, bucket, rng.choice([1.0, 2.0, 5.0], (1, 20), p=[0.2, 0.6, 0.2]))
    events = []
    for bucket in range(100, 130):
        events += fold(numbers, bucket, rng.choice([1.0, 2.0, 9.0], (1, 20), p=[0.2, 0.6, 0.2]))

    assert [e.event.value for e in events][-1] == "ticketed"


def test_snapshot_holds_the_burn_in_and_the_bins() -> None:
    values = np.random.default_rng(3).lognormal(0, 1, (60, 3, 12))
    whole, part = start(3, 1e4, 300), start(3, 1e4, 300)
    for bucket, tick in enumerate(values, 1):
        fold(whole, bucket, tick)
    for bucket, tick in enumerate(values, 1):
        if bucket in (10, 40):
            part = restore_headed(NumberFleet(CONFIG), snapshot_headed(part))
        fold(part, bucket, tick)

    assert snapshot_headed(part) == snapshot_headed(whole)


def test_a_new_epoch_needs_a_new_burn_in() -> None:
    numbers, rng = start(2, burn_in=100), np.random.default_rng(4)
    fold(numbers, 1, rng.normal(0, 1, (2, 200)))

    numbers.start_epoch(np.array([1]))

    assert numbers.formed.tolist() == [True, False]


@pytest.mark.parametrize("data", [b"", b"{}\n", b"no json\nrest"])
def test_damaged_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(SnapshotError, match="refold"):
        restore_headed(NumberFleet(CONFIG), data)


BANDS = np.array([1.0, 0.75, 0.5, 0.25, 0.0])


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([0.6, 0.25, 0.1, 0.04, 0.01], [0.4, 0.3, 0.18, 0.08, 0.04]),
        ([0.9, 0.0, 0.0, 0.0, 0.1], [0.8, 0.0, 0.0, 0.0, 0.2]),
        ([1.0, 0.0, 0.0, 0.0, 0.0], [0.9, 0.1, 0.0, 0.0, 0.0]),
    ],
    ids=["five bands", "two", "one"],
)
def test_scores_of_a_few_bands_keep_the_promise_and_show_a_shift(before: list[float], after: list[float]) -> None:
    streams, units = 100, 10_000
    numbers, rng = start(streams, limit=units / 0.05), np.random.default_rng(7)
    early = set()
    for bucket in range(1, units // 50 + 1):
        early |= {
            event.row for event in fold(numbers, bucket, rng.choice(BANDS, (streams, 50), p=before)) if told(event)
        }
    found = set()
    for bucket in range(units // 50 + 1, units // 50 + 11):
        found |= {
            event.row for event in fold(numbers, bucket, rng.choice(BANDS, (streams, 50), p=after)) if told(event)
        }

    assert len(early) <= 0.05 * streams + 3 * np.sqrt(0.05 * 0.95 * streams)
    assert len(found - early) >= 0.95 * (streams - len(early))


def told(event: Transition) -> bool:
    return event.event.value == "ticketed"
