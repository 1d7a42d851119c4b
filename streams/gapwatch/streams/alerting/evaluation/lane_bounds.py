"""Bounds of one lane: folds closed ticks into the check of each series that has a bound."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gapwatch.streams.alerting.bounds.bound_watch import BoundWatch
from gapwatch.streams.alerting.bounds.slice_bounds import BoundUnits, SliceBounds
from gapwatch.streams.alerting.bounds.window_units import WindowUnits
from gapwatch.streams.alerting.evaluation.series_detectors import Learned
from gapwatch.streams.alerting.evaluation.series_rows import SeriesRows
from gapwatch.streams.alerting.rules.bound import Bound
from gapwatch.streams.alerting.rules.finding import Finding, Watched, part_beyond
from gapwatch.streams.alerting.series.slice_units import OpenTicks, SeriesKey
from gapwatch.streams.detectors.arrays import Ints
from gapwatch.streams.detectors.fleet import Fleet
from gapwatch.streams.detectors.sessions import IDLE_BUCKETS, MOST_UNITS


@dataclass
class OpenBounds:
    """Units of one open tick, by number of the series."""

    of_series: dict[int, BoundUnits] = field(default_factory=lambda: defaultdict(BoundUnits))

    @property
    def size(self) -> int:
        """Number of entries."""
        return sum(len(one.units.counts) + len(one.sessions) for one in self.of_series.values())

    def as_json(self) -> list[Any]:
        """Return the tick as JSON values."""
        return [
            [number, one.units.as_json(), sorted(one.sessions.items())]
            for number, one in sorted(self.of_series.items())
        ]

    @classmethod
    def from_json(cls, value: list[Any]) -> OpenBounds:
        """Return the tick from `as_json`."""
        tick = cls()
        for number, units, sessions in value:
            tick.of_series[number] = BoundUnits(WindowUnits.from_json(units), dict(sessions))
        return tick


class LaneBounds:
    """Bounds of one lane; see `SeriesDetectors`. It has no fleet: a bound needs no baseline.

    Args:
        rows: Rows of the lane: series and rules.

    Attributes:
        pending: Open tick to its units.
        watches: Number of the series to its check.
    """

    def __init__(self, rows: SeriesRows) -> None:
        self.pending: dict[int, OpenBounds] = defaultdict(OpenBounds)
        self.watches: dict[int, BoundWatch] = {}
        self._rows = rows
        # (Number of the series, session) to [tick of its last unit, units].
        self._open: dict[tuple[int, str], list[int]] = {}

    @property
    def fleets(self) -> Mapping[str, Fleet]:
        """No fleets."""
        return {}

    def add(self, content: SliceBounds, there: OpenTicks) -> None:
        """Add the units of a slice to the open ticks; late units join the current tick."""
        for (key, tick), entry in content.items():
            mine = self.pending[there.fold_tick(tick)].of_series[self._rows.number_of(key)]
            mine.units.join(entry.units)
            for session, n in entry.sessions.items():
                mine.sessions[session] = mine.sessions.get(session, 0) + n

    def most_entries(self) -> int:
        """Return the number of open entries."""
        return sum(self.sizes().values())

    def sizes(self) -> dict[int, int]:
        """Return the number of entries of each open tick."""
        return {tick: one.size for tick, one in self.pending.items()}

    def ready(self, closed: int) -> Iterable[int]:
        """Return the closed ticks."""
        return [tick for tick in self.pending if tick <= closed]

    def is_plain(self, tick: int) -> bool:
        """Return True: bounds have no rows."""
        return True

    def fold(self, ticks: Sequence[int]) -> list[Finding]:
        """Check the bounds of the series with units in some ticks, one tick after the other."""
        return [finding for tick in ticks for finding in self._fold(tick)]

    def _fold(self, tick: int) -> list[Finding]:
        pending = self.pending.pop(tick, None)
        if pending is None:
            return []
        found = []
        for number, entry in sorted(pending.of_series.items()):
            bound = self._rows.rule_of(number).limit
            if bound is None:
                continue
            self._count_sessions(number, tick, entry)
            breach = self.watches.setdefault(number, BoundWatch(bound)).add(tick, entry.units)
            if breach is not None:
                watched = Watched(self._rows.series[number], "bound")
                found.append(Finding(watched, tick, breach=breach, part=part_beyond(breach)))
        self._forget(tick)
        return found

    def _count_sessions(self, number: int, tick: int, entry: BoundUnits) -> None:
        """Count what the units of sessions add to the sum of the squared sizes of these sessions."""
        for session, n in sorted(entry.sessions.items()):
            last, before = self._open.get((number, session), (tick, 0))
            if tick - last >= IDLE_BUCKETS or before >= MOST_UNITS:
                before = 0
            self._open[number, session] = [tick, before + n]
            entry.units.in_sessions += n
            entry.units.squares += n * n + 2 * before * n

    def _forget(self, tick: int) -> None:
        if self._open and tick % IDLE_BUCKETS == 0:
            self._open = {key: one for key, one in self._open.items() if tick - one[0] < IDLE_BUCKETS}

    def held(self) -> list[tuple[SeriesKey, BoundWatch]]:
        """Return the series with a bound in force, in the order in which they came, and their checks."""
        return [
            (self._rows.series[number], watch)
            for number, watch in sorted(self.watches.items())
            if self._rows.rule_of(number).limit is not None
        ]

    def use_bounds(self) -> None:
        """Check series against the bounds of the present rules; other quantities begin with an empty window."""
        for number, watch in self.watches.items():
            bound = self._rows.rule_of(number).limit
            if bound is None or bound == watch.bound:
                continue
            if _content(bound) == _content(watch.bound):
                watch.bound = bound
            else:
                self.watches[number] = BoundWatch(bound, is_broken=watch.is_broken)

    def waiting(self) -> Iterable[tuple[int, str]]:
        """Yield nothing: bounds have no rows."""
        return ()

    def grow(self, name: str, count: int) -> Ints:
        """Return no rows."""
        return np.zeros(0, np.int64)

    def learned(self, name: str) -> Learned:
        """Return no baselines."""
        return Learned(np.zeros(0), None)

    # ---- the state ----

    def as_json(self) -> dict[str, Any]:
        """Return the state as JSON values."""
        return {
            "bounds": {
                "pending": [[tick, one.as_json()] for tick, one in sorted(self.pending.items())],
                "watches": [[number, watch.as_json()] for number, watch in sorted(self.watches.items())],
                "sessions": [[*key, *one] for key, one in sorted(self._open.items())],
            }
        }

    def take_json(self, value: Mapping[str, Any]) -> None:
        """Restore the state from `as_json`; the rows must be restored before."""
        mine = value["bounds"]
        self.pending.update((tick, OpenBounds.from_json(one)) for tick, one in mine["pending"])
        for number, watch in mine["watches"]:
            bound = self._rows.rule_of(number).limit
            if bound is not None:
                self.watches[number] = BoundWatch.from_json(bound, watch)
        self._open = {(number, session): [last, units] for number, session, last, units in mine["sessions"]}

    def snapshots(self) -> dict[str, bytes]:
        """Return no fleets."""
        return {}

    def restore(self, snapshots: Mapping[str, bytes]) -> None:
        """Restore no fleets."""


def _content(bound: Bound) -> tuple[object, ...]:
    """Return what the units of a bound depend on."""
    is_of_numbers = bound.of not in ("failure_rate", "share", "ratio")
    return ("numbers" if is_of_numbers else bound.of, bound.label, bound.of_spans, bound.parts, bound.window_ticks)
