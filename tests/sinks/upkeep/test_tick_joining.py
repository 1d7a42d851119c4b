"""Joined ticks have fewer rows, and every sum that a reader takes of them stays."""

from __future__ import annotations

import dataclasses
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pytest

import gapwatch.sinks.upkeep.tick_joining
from gapwatch.scorers.errors import JobError
from gapwatch.scorers.slices.slices import ScoredSlice
from gapwatch.scorers.slices.tables import TICKS
from gapwatch.sinks.metrics.live_metrics import LiveMetrics
from gapwatch.sinks.reading.lane_commits import event_clocks
from gapwatch.sinks.store.ledger import read_balance
from gapwatch.sinks.store.store import Store
from gapwatch.sinks.upkeep.tick_joining import join_step, joinable_until
from tests.builders import scored_slice
from tests.live_store import airline_portfolio, airline_slices
from tests.paths import ROOT
from tests.prometheus import page_of

NOW = datetime.now(UTC)
_SUMS = ("n", "score_sum", "score_sum_squares", "histogram")
_KEYS = ", ".join(f'"{name}"' for name in TICKS.names if name not in _SUMS)
_BY_NAMES = f"""SELECT {_KEYS}, sum(n), sum(score_sum), sum(score_sum_squares)
    FROM ticks GROUP BY ALL ORDER BY ALL"""
_CELLS = f"""SELECT {_KEYS}, entry.key, sum(entry.value) FROM (
    SELECT {_KEYS}, unnest(map_entries(histogram)) AS entry FROM ticks) GROUP BY ALL ORDER BY ALL"""


def partitioned(seed: int, partitions: int = 2) -> list[ScoredSlice]:
    """Return the conversations in small slices, each in one of some partitions, with few distinct buckets."""
    dice, ends = np.random.default_rng(seed), [0] * partitions
    found = []
    for scored in airline_slices(7)[:12]:
        to, ticks = int(dice.integers(partitions)), scored.tables["ticks"]
        hours = pc.floor_temporal(ticks["bucket"], unit="hour")
        for name in ("bucket", "fold_bucket"):
            at = ticks.schema.get_field_index(name)
            ticks = ticks.set_column(at, ticks.schema.field(name), hours)
        offsets = {"from_offset": ends[to], "to_offset": ends[to] + scored.records}
        ends[to] += scored.records
        found.append(dataclasses.replace(scored, partition=to, **offsets, tables={**scored.tables, "ticks": ticks}))
    return found


def filled(path: Path, seed: int = 1) -> Store:
    store = Store.open(path, create=True)
    store.register(airline_portfolio(), [])
    for n, scored in enumerate(partitioned(seed)):
        store.write_slice(scored, NOW - timedelta(hours=1, seconds=-n))
    return store


def join(store: Store, until: int = 10**9) -> list[tuple[int, int]]:
    """Run steps until there is no further commit; return the rows before and after of each."""
    steps = []
    while (done := join_step(store, "live", until)) is not None:
        steps.append((done.rows, done.left))
    return steps


def sums(store: Store) -> dict[str, Any]:
    """Return what the readers take from ticks."""
    metrics = LiveMetrics([airline_portfolio()])
    metrics.rebuild(store)
    lasting = re.compile(r"gapwatch_(units|weighted|spans|value|tier|failure|window|unknown|last_unit|newest|unscored)")
    page = [line.rpartition(" ") for line in page_of(metrics).splitlines() if lasting.match(line)]
    balance = read_balance(store.cursor())
    return {
        "by_names": store.query(_BY_NAMES),
        "cells": store.query(_CELLS),
        "rates": store.query("SELECT * FROM rates ORDER BY ALL"),
        "metrics": {name: float(value) for name, _, value in page},
        "imbalance": balance.imbalance,
        "balance": [(one.metric, _sorted(one.states), _sorted(one.ticked)) for one in balance.metrics],
        "clocks": [event_clocks(store, "live", "traces", partition) for partition in range(2)],
    }


def _sorted(counts: dict[str, int]) -> list[tuple[str, int]]:
    return sorted(counts.items())


def flat(value: Any) -> list[Any]:
    """Return the numbers and other values of some rows, so that numbers can be compared up to rounding."""
    if isinstance(value, dict):
        return [part for key in value for part in (key, *flat(value[key]))]
    return [part for one in value for part in flat(one)] if isinstance(value, list | tuple) else [value]


@pytest.mark.parametrize(("seed", "rows"), [(1, 1), (2, 700), (3, 100_000)])
def test_every_sum_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, rows: int) -> None:
    monkeypatch.setattr(gapwatch.sinks.upkeep.tick_joining, "STEP_ROWS", rows)
    with filled(tmp_path / "s", seed) as store:
        before, count = sums(store), store.query("SELECT count(*) FROM ticks")[0][0]
        steps = join(store)

        assert flat(sums(store)) == [
            pytest.approx(one, rel=1e-9) if isinstance(one, float) else one for one in flat(before)
        ]
        left = store.query("SELECT count(*) FROM ticks")[0][0]
        assert left == count - sum(one - other for one, other in steps)
        assert left < count / 2 if rows > 10_000 else left <= count


def test_a_second_join_changes_nothing(tmp_path: Path) -> None:
    with filled(tmp_path / "s") as store:
        join(store)
        once = store.query("SELECT * FROM ticks ORDER BY ALL")
        join(store)

        assert store.query("SELECT * FROM ticks ORDER BY ALL") == once


def test_ticks_since_the_limit_and_of_other_lanes_stay(tmp_path: Path) -> None:
    with filled(tmp_path / "s") as store:
        last = store.seq
        store.write_slice(dataclasses.replace(partitioned(1)[0], lane="file:a"), NOW)
        rest = f"SELECT * FROM ticks WHERE seq > {last - 5} ORDER BY ALL"
        before = store.query(rest)
        join(store, until=last - 5)

        assert store.query(rest) == before
        assert join(store, until=last - 5) == []


def test_the_clock_of_each_partition_stays(tmp_path: Path) -> None:
    """Its newest bucket may be joined into a later commit of another partition."""
    bucket = datetime(2026, 3, 22, 12)
    with Store.open(tmp_path / "s", create=True) as store:
        for partition, hours in ((0, 0), (0, 1), (1, 0), (1, 1), (1, 2), (2, 1)):
            at = bucket + timedelta(hours=hours)
            offset = store.position("live", "traces", partition)
            first = offset.to_offset if offset else 0
            ticks = [{"bucket": at, "fold_bucket": at, "outcome": word} for word in ("good", "bad")]
            store.write_slice(scored_slice(first, first + 1, partition=partition, ticks=ticks), NOW)
        clocks = [event_clocks(store, "live", "traces", partition) for partition in range(3)]
        join(store)

        assert [event_clocks(store, "live", "traces", partition) for partition in range(3)] == clocks
        assert store.query("SELECT count(*), sum(n)::BIGINT FROM ticks") == [(8, 12)]  # 6 sums; beside them 2 clocks


def test_no_commit_is_joined_twice(tmp_path: Path) -> None:
    with filled(tmp_path / "s") as store:
        half = store.seq // 2
        join(store, until=half)
        rest = f"SELECT * FROM ticks WHERE seq <= {half} ORDER BY ALL"
        before = store.query(rest)
        join(store)

        assert store.query(rest) == before
        assert store.query("FROM internal.tick_joins ORDER BY ALL") == [("live", 0, half), ("live", half, store.seq)]


def test_a_step_that_fails_leaves_the_ticks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = gapwatch.sinks.upkeep.tick_joining
    with filled(tmp_path / "s") as store:
        before = store.query("SELECT * FROM ticks ORDER BY ALL")
        monkeypatch.setattr(module, "_REPLACE", (module._REPLACE[0], "SELECT error('no room')"))
        with pytest.raises(JobError, match="no room"):
            join(store)

        assert store.query("SELECT * FROM ticks ORDER BY ALL") == before


def test_without_detectors_only_old_commits_are_joined(tmp_path: Path) -> None:
    with filled(tmp_path / "s") as store:
        old = store.seq
        first = partitioned(1)[0]
        at = store.position("live", first.topic, first.partition)
        assert at is not None
        offsets = {"from_offset": at.to_offset, "to_offset": at.to_offset + first.records}
        # In a whole run this module may have been imported longer ago than a commit needs to be old.
        store.write_slice(dataclasses.replace(first, **offsets), datetime.now(UTC))

        assert joinable_until(store, "live", has_detectors=False) == old
        assert joinable_until(store, "live", has_detectors=True) == 0


#: Forks a child for each statement of a step, which is killed before that statement; the last one before the commit.
KILLED_WHILE_JOINING = """
import os, signal, sys
from gapwatch.sinks.store.store import Store
from gapwatch.sinks.upkeep import tick_joining

class Dying:
    def __init__(self, con, left):
        self.con, self.left = con, left
    def execute(self, *given):
        self.left -= 1
        if self.left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return self.con.execute(*given)

class Mortal(Store):
    left = 0
    def change(self, doing, work):
        def die(con):
            dying = Dying(con, self.left)
            work(dying)
            dying.left = 0
            dying.execute("SELECT 1")
        return super().change(doing, die)

for left in (3, 4, 99):  # before the DELETE, before the INSERT, before the COMMIT
    child = os.fork()
    if child == 0:
        store = Mortal.open(sys.argv[1])
        store.left = left
        tick_joining.join_step(store, "live", 10**9)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL, status
"""


def test_a_process_killed_while_it_joins_leaves_the_ticks(tmp_path: Path) -> None:
    with filled(tmp_path / "s") as store:
        before = store.query("SELECT * FROM ticks ORDER BY ALL")
    subprocess.run([sys.executable, "-c", KILLED_WHILE_JOINING, str(tmp_path / "s")], cwd=ROOT, check=True)

    with Store.open(tmp_path / "s") as store:
        assert store.query("SELECT * FROM ticks ORDER BY ALL") == before
        assert join(store)[0][0] == len(before)
