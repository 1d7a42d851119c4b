"""Catching up: several partitions, hours behind and read in any order, give the alerts of one read in order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gapwatch.scorers.slices.slices import ScoredSlice
from gapwatch.sinks.store.store import Store
from gapwatch.streams.alerting.evaluation.shift_watch import ShiftWatch
from gapwatch.streams.alerting.series import open_tick
from gapwatch.streams.alerting.series.lane_clock import PATIENCE_SECONDS, LaneClock
from gapwatch.streams.pipeline.watch_protocol import Steps
from tests.streams.alerting.breaking_stream import BROKEN, CHANGE, forget_snapshots, slices
from tests.streams.alerting.builders import KEPT_AT, MONDAY, Units, at, keep_with_breakdowns, portfolio, units_slice

PARTITIONS = 4
#: Of the units, by partition: the last is nearly empty and read last of all, but for a slice on the way.
SHARES = (0.4, 0.3, 0.28, 0.02)
_FOUND = (
    "SELECT * EXCLUDE (seq) FROM alerts ORDER BY rowid",
    "SELECT * EXCLUDE (seq) FROM shifts ORDER BY rowid",
)

Backlog = list[tuple[ScoredSlice, list[tuple[str, int]]]]


def backlog(seed: int) -> Backlog:
    """The stream that breaks, dealt to partitions; slices in an order in which each runs ahead now and then.

    Each comes with the partitions that have unread records after it.
    """
    rng = np.random.default_rng(seed)
    dealt: list[list[Units]] = [[] for _ in range(PARTITIONS)]
    for tick, good, bad, unknown in BROKEN:
        counts = [rng.multinomial(n, SHARES).tolist() for n in (good, bad, unknown)]
        for partition in range(PARTITIONS):
            units = (tick, *(count[partition] for count in counts))
            if any(units[1:]):
                dealt[partition].append(units)
    waiting = [
        [
            units_slice(i, mine[start : start + 40], partition=partition)
            for i, start in enumerate(range(0, len(mine), 40))
        ]
        for partition, mine in enumerate(dealt)
    ]
    made: Backlog = []
    while any(waiting):
        first_come = [p for p in range(PARTITIONS - 1) if waiting[p]] or [PARTITIONS - 1]
        partition = int(rng.choice(first_come)) if len(made) != 9 else PARTITIONS - 1
        for _ in range(int(rng.integers(1, 4))):
            if waiting[partition]:
                scored = waiting[partition].pop(0)
                made.append((scored, [("traces", p) for p in range(PARTITIONS) if waiting[p]]))
    # The end of the backlog is past: with these, event time goes on beyond all of it.
    last = BROKEN[-1][0]
    for partition in range(PARTITIONS):
        number = sum(scored.partition == partition for scored, _ in made)
        made.append((units_slice(number, [(last + 40, 1, 0, 0)], partition=partition), []))
    return made


def second(number: int) -> float:
    """Return the time of the n-th commit: four a second, after a stop of a day before the tenth."""
    return KEPT_AT.timestamp() + number / 4 + (86_400 if number >= 10 else 0)


def keep(store: Store, watch: ShiftWatch, number: int, made: Backlog, also: Any = ()) -> None:
    scored, unread = made[number]
    moment = KEPT_AT.fromtimestamp(second(number), KEPT_AT.tzinfo)
    taken = watch.take(scored, moment, unread)
    store.write_slice(taken.scored, moment, also=[*taken.steps, *also])


def found(store: Store) -> list[Any]:
    return [store.query(sql) for sql in _FOUND]


def caught_up(path: Path, made: Backlog) -> tuple[list[Any], bytes, int]:
    with Store.open(path, create=True) as store:
        watch = ShiftWatch.open(store, [portfolio()])
        for number in range(len(made)):
            keep(store, watch, number, made)
        return found(store), watch.packed(), watch.detectors[0].rates.late_units


IN_ORDER: Backlog = [(scored, []) for scored in slices([*BROKEN, (BROKEN[-1][0] + 40, PARTITIONS, 0, 0)])]


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_backlog_of_several_partitions_gives_the_alerts_of_one_in_order(tmp_path: Path, seed: int) -> None:
    expected, _, _ = caught_up(tmp_path / "in_order.duckdb", IN_ORDER)
    told, _, late = caught_up(tmp_path / "s.duckdb", backlog(seed))
    with Store.open(tmp_path / "s.duckdb") as store:
        ((change_from, change_to),) = store.query("SELECT change_from, change_to FROM shifts WHERE kind = 'shift'")

    assert late == 0
    assert told == expected
    assert change_from <= at(CHANGE) <= change_to


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1])
def test_refolded_and_after_crashes_it_is_the_same_bit_for_bit(tmp_path: Path, seed: int) -> None:
    made = backlog(seed)
    told, state, _ = caught_up(tmp_path / "whole.duckdb", made)
    with Store.open(tmp_path / "whole.duckdb") as store:
        store.record("forgetting", forget_snapshots)
        assert ShiftWatch.open(store, [portfolio()]).packed() == state
        assert store.query("SELECT count(*) > 9 FROM internal.waited_for") == [(True,)]

    failing = set(np.random.default_rng(seed).choice(len(made), 8, replace=False).tolist()) | {9, 10}

    def keep_one(store: Store, watch: ShiftWatch, number: int, also: Steps) -> None:
        keep(store, watch, number, made, also)

    path = tmp_path / "broken.duckdb"
    keep_with_breakdowns(path, len(made), failing, keep_one)
    with Store.open(path) as store:
        assert found(store) == told
        assert ShiftWatch.open(store, [portfolio()]).packed() == state


def test_a_partition_that_is_dead_stops_detection_for_ten_minutes_at_most() -> None:
    clock = LaneClock()
    closed = {}
    for i in range(300):
        clock.move("t/0", 1000 + i, 1e6 + 5.0 * i, is_live=False, unread=["t/1"])
        closed[5.0 * i] = clock.watermark

    assert {at for at, tick in closed.items() if tick > 0} == {at for at in closed if at >= PATIENCE_SECONDS}
    assert clock.move("t/1", 900, 1e6 + 1500, is_live=False, unread=["t/1"]) == 1000 + 299 - 5
    # It has come back, and is waited for again.
    assert clock.move("t/0", 2000, 1e6 + 1501, is_live=False, unread=["t/1"]) == 1000 + 299 - 5


def test_a_partition_without_monitored_units_stops_holding_event_time_back() -> None:
    clock = LaneClock()
    moved = []
    for i in range(400):
        before = clock.watermark
        clock.move("t/0", 1000 + i, 1e6 + 5.0 * i, is_live=False, unread=["t/1"] if i % 2 else [])
        moved.append(clock.watermark > before)

    assert moved[:100] == [True, False] * 50
    assert all(moved[300:])


def test_a_gap_of_the_whole_topic_does_not_count_as_waiting() -> None:
    clock = LaneClock()
    clock.move("t/0", 1000, 1e6, is_live=False, unread=["t/1"])
    clock.move("t/0", 1001, 1e6 + 3 * 86_400, is_live=False, unread=["t/1"])

    assert clock.watermark == 0
    assert clock.waited["t/1"] < PATIENCE_SECONDS / 2


def test_a_partition_far_ahead_does_not_fill_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_tick, "MOST_OPEN", 100)
    ahead = [units_slice(i, [(MONDAY + 50 * i + j, 3, 0, 0) for j in range(50)]) for i in range(20)]
    made: Backlog = [(scored, [("traces", 1)]) for scored in ahead]
    made.append((units_slice(0, [(MONDAY, 7, 0, 0)], partition=1), []))
    with Store.open(tmp_path / "s.duckdb", create=True) as store:
        watch = ShiftWatch.open(store, [portfolio()])
        for number in range(len(made)):
            keep(store, watch, number, made)
            assert len(watch.detectors[0].rates.sizes()) <= 150

        assert watch.detectors[0].rates.late_units == 7
        store.record("forgetting", forget_snapshots)
        assert ShiftWatch.open(store, [portfolio()]).packed() == watch.packed()
