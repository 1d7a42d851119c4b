"""A stream that breaks after a day, as units and as slices, and how a watched store keeps it."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.scorers.slices.slices import ScoredSlice
from gapwatch.sinks.store.store import Store
from gapwatch.streams.alerting.evaluation.shift_watch import ShiftWatch
from tests.streams.alerting.builders import MONDAY, Units, kept_at, units_slice

#: Ticks from one to the next that has units: five minutes, so that a day is short to fold.
STEP = 10
HOURS = 12
DAY = 24 * HOURS


def stream(rates: list[tuple[int, float]], units: int = 40, seed: int = 1, first: int = MONDAY) -> list[Units]:
    """Units of every tenth tick: so many times each rate."""
    rng = np.random.default_rng(seed)
    rate = np.concatenate([np.full(count, p) for count, p in rates])
    bad = rng.binomial(units, rate).tolist()
    return [(first + STEP * i, units - k, k, 0) for i, k in enumerate(bad)]


def slices(units: list[Units], size: int = 6, first: int = 0, **more: Any) -> list[ScoredSlice]:
    starts = range(0, len(units), size)
    return [units_slice(i, units[start : start + size], **more) for i, start in enumerate(starts, first)]


def slices_after_calm(units: list[Units], **more: Any) -> list[ScoredSlice]:
    """Cut a stream whose first day is calm: that day is one slice, because each commit takes its time."""
    return [units_slice(0, units[:DAY], **more), *slices(units[DAY:], first=1, **more)]


def keep(store: Store, watch: ShiftWatch, scored: ScoredSlice, also: Any = (), after: float = 0.0) -> None:
    """Keep a slice, `after` seconds later than its number says."""
    moment = kept_at(scored.from_offset) + timedelta(seconds=after)
    taken = watch.take(scored, moment)
    store.write_slice(taken.scored, moment, also=[*taken.steps, *also])


#: A day and an hour at 2 %, then an hour at 30 %, which is known to be at 2 %.
BEFORE = DAY + HOURS
BROKEN = stream([(BEFORE, 0.02), (HOURS, 0.3)])
FALLBACK_ROSE = stream([(BEFORE, 0.1), (HOURS, 0.5)])
#: Begin of the change.
CHANGE = MONDAY + STEP * BEFORE


def keep_all(path: Path, made: list[ScoredSlice], said: Portfolio, lane: str = "live") -> bytes:
    """Make a store of slices, all of them watched; return the state of the watch."""
    with Store.open(path, create=True) as store:
        store.register(said, [])
        watch = ShiftWatch.open(store, [said], lane)
        for scored in made:
            keep(store, watch, scored)
        return watch.packed()


def forget_snapshots(con: duckdb.DuckDBPyConnection, _: int) -> None:
    con.execute("DELETE FROM internal.detector_snapshots")
