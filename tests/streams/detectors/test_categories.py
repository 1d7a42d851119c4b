"""Detectors of labels: labels with bins, a mix that moves is found and named, a steady one raises no alarm."""

from __future__ import annotations

import numpy as np
import pytest

from gapwatch.streams.detectors.categories import MOST_LABELS, CategoryFleet, label_bets
from gapwatch.streams.detectors.fleet_config import FleetConfig
from gapwatch.streams.detectors.snapshot import SnapshotError, restore_headed, snapshot_headed
from gapwatch.streams.detectors.watch import Transition, advance_phases

CONFIG = FleetConfig(label_bets(), seasonal=False, margins=False, ring_buckets=256, ring_hours=8)
MIX = {"billing": 0.5, "refund": 0.3, "outage": 0.15, "other": 0.05}


def start(series: int = 1, limit: float = 1e6) -> CategoryFleet:
    labels = CategoryFleet(CONFIG)
    labels.add_series(series)
    labels.fleet.state["ticket_threshold"][:] = limit
    return labels


def fold(labels: CategoryFleet, bucket: int, units: dict[int, dict[str, int]]) -> list[Transition]:
    labels.fold(bucket, units)
    return advance_phases(labels.fleet, bucket)


def drawn(rng: np.random.Generator, mix: dict[str, float], units: int = 20) -> dict[str, int]:
    counts = rng.multinomial(units, list(mix.values())).tolist()
    return {label: n for label, n in zip(mix, counts, strict=True) if n}


def test_a_mix_that_moves_is_found_and_its_label_named() -> None:
    labels, rng = start(12), np.random.default_rng(1)
    before = [fold(labels, b, {row: drawn(rng, MIX) for row in range(12)}) for b in range(1, 120)]
    moved = {**MIX, "outage": 0.4, "billing": 0.25}
    after = [t for b in range(120, 160) for t in fold(labels, b, {row: drawn(rng, moved) for row in range(12)})]

    assert not [t for step in before for t in step if t.event.value == "ticketed"]
    tickets = [t for t in after if t.event.value == "ticketed"]
    assert {t.row for t in tickets} == set(range(12))
    named = [labels.labels_of(t.row, t.change) for t in tickets if t.change is not None]
    assert set(named) <= {("outage",), ("billing",)}
    assert all(abs(t.change.change_bucket - 120) <= 4 for t in tickets if t.change is not None)


def test_a_label_that_nobody_knew_is_found_as_new() -> None:
    labels, rng = start(), np.random.default_rng(2)
    for bucket in range(1, 60):
        fold(labels, bucket, {0: drawn(rng, MIX)})
    found = [
        t for b in range(60, 100) for t in fold(labels, b, {0: drawn(rng, {**MIX, "billing": 0.3, "jailbreak": 0.2})})
    ]

    (ticket,) = [t for t in found if t.event.value == "ticketed"]
    assert ticket.change is not None and ticket.change.bins == (MOST_LABELS,)
    assert labels.labels_of(0, ticket.change) == ()


def test_steady_mixes_are_silent_within_the_promise() -> None:
    """200 series of 8,000 units at A = 160,000: 10 alarms are the most to expect."""
    labels, rng = start(200, 160_000.0), np.random.default_rng(3)
    mixes = [dict(zip("abcdefghijkl", rng.dirichlet(np.ones(12)), strict=True)) for _ in range(200)]
    alarms = 0
    for bucket in range(1, 81):
        found = fold(labels, bucket, {row: drawn(rng, mix, 100) for row, mix in enumerate(mixes)})
        alarms += sum(t.event.value == "ticketed" for t in found)

    assert alarms <= 10


def test_the_labels_are_those_that_are_frequent_and_at_most_eight() -> None:
    labels = start()
    fold(labels, 1, {0: {f"l{i}": 20 - i for i in range(12)}})

    assert labels.names[0] == tuple(f"l{i}" for i in range(8))
    assert labels.fleet.state["pooled"].sum() == 0


def test_a_fleet_goes_on_from_its_bytes() -> None:
    rng = np.random.default_rng(4)
    steps = [(b, {0: drawn(rng, MIX), **({1: drawn(rng, MIX, 2)} if b % 3 else {})}) for b in range(1, 40)]
    whole, half = start(2), start(2)
    for bucket, units in steps:
        fold(whole, bucket, units)
    for bucket, units in steps[:17]:
        fold(half, bucket, units)
    again = restore_headed(CategoryFleet(CONFIG), snapshot_headed(half))
    for bucket, units in steps[17:]:
        fold(again, bucket, units)

    assert snapshot_headed(again) == snapshot_headed(whole)


@pytest.mark.parametrize("data", [b"", b"nothing", b"{}\n", b'{"names": 3}\n'])
def test_other_bytes_are_no_fleet(data: bytes) -> None:
    with pytest.raises(SnapshotError, match="refold"):
        restore_headed(CategoryFleet(CONFIG), data)
