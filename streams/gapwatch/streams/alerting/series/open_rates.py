"""Open ticks of the failure rates of a lane: units that wait until their tick is closed, as arrays over all ticks.

At one trace a tick a slice holds thousands of ticks with a few units of each series, so nothing here is done for each
tick or unit in Python.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from gapwatch.streams.alerting.series.open_tick import window_end
from gapwatch.streams.detectors.arrays import Ints

# A tick with fewer units than this of each series waits for the end of its window.
_SPARSE = 20
# Keys below this one fit into 64 bits.
_LARGEST_KEY = 2.0**62
# Rows of an array of entries: what an entry is of, and its counts.
_TICK, _NUMBER, _HOUR, _GOOD, _BAD, _UNKNOWN, _IN_SESSIONS = range(7)


class OpenSessionUnits(NamedTuple):
    """Units of one session in one open tick.

    Attributes:
        number: Number of the series.
        session: Id of the session.
        tick: Tick in which they are folded, before sparse ticks are gathered.
        units: Units.
        bad: Bad units among them.
    """

    number: int
    session: str
    tick: int
    units: int
    bad: int


class ClosedTick(NamedTuple):
    """Units of one closed tick.

    Attributes:
        cells: Number of the series, hour of the week of the event, and units: good, bad, unknown, decided in sessions;
            the first two are outside of sessions. Shape (6, entries), sorted, each series and hour once.
        sessions: Units of sessions.
    """

    cells: Ints
    sessions: list[OpenSessionUnits]


class OpenRates:
    """Units of all open ticks of a lane.

    Attributes:
        sessions: Open tick to the units of sessions.
        closed: Closed tick to its units, from `ready` until `take`.
    """

    def __init__(self) -> None:
        self.sessions: dict[int, list[OpenSessionUnits]] = defaultdict(list)
        # Arrays of entries, shape (7, entries); after `_sum` one array, sorted by tick, series and hour, each once.
        self._parts: list[Ints] = []
        self._is_summed = True
        self.closed: dict[int, ClosedTick] = {}

    def add(self, ticks: Ints, numbers: Ints, hours: Ints, counts: Ints) -> None:
        """Add units.

        Args:
            ticks: Tick in which each entry is folded.
            numbers: Number of the series of each entry.
            hours: Hour of the week of the event.
            counts: Good, bad, unknown units, and decided ones in sessions; shape (4, entries).
        """
        if len(ticks):
            self._parts.append(np.concatenate([np.stack([ticks, numbers, hours]), counts]))
            self._is_summed = False

    def add_session(self, one: OpenSessionUnits) -> None:
        """Add the units of one session in one tick."""
        self.sessions[one.tick].append(one)

    def most_entries(self) -> int:
        """Return the number of entries, or a little more: without summing them by series and hour."""
        return sum(len(part[0]) for part in self._parts) + sum(map(len, self.sessions.values()))

    def sizes(self) -> dict[int, int]:
        """Return the number of entries of each open tick."""
        ticks, n = np.unique(self._sum()[_TICK], return_counts=True)
        sizes = dict(zip(ticks.tolist(), n.tolist(), strict=True))
        for tick, sessions in self.sessions.items():
            sizes[tick] = sizes.get(tick, 0) + len(sessions)
        return sizes

    def ready(self, closed: int) -> Iterable[int]:
        """Move the units of sparse closed ticks into the last tick of their window; return the closed ticks.

        Args:
            closed: Watermark: up to this tick the number of units is final.
        """
        whole = self._gather(closed)
        until = int(np.searchsorted(whole[_TICK], closed, side="right"))
        done, self._parts = whole[:, :until], [whole[:, until:]]
        ticks, first = np.unique(done[_TICK], return_index=True)
        cells = np.split(done[1:], first[1:], axis=1) if len(ticks) else []
        by_tick = dict(zip(ticks.tolist(), cells, strict=True))
        nothing = np.zeros((_IN_SESSIONS, 0), np.int64)
        for tick in {*by_tick, *(tick for tick in self.sessions if tick <= closed)}:
            self.closed[tick] = ClosedTick(by_tick.get(tick, nothing), self.sessions.pop(tick, []))
        return list(self.closed)

    def take(self, tick: int) -> ClosedTick | None:
        """Remove a tick that `ready` returned, and return its units; None where it has none."""
        return self.closed.pop(tick, None)

    def waiting(self) -> Iterator[tuple[int, str]]:
        """Yield the (number of the series, kind) of open units, and of sessions with open units."""
        whole = self._sum()
        yield from ((number, "unknown") for number in np.unique(whole[_NUMBER]).tolist())
        decided = whole[_GOOD] + whole[_BAD] > 0
        yield from ((number, "rate") for number in np.unique(whole[_NUMBER, decided]).tolist())
        yield from ((one.number, "sessions") for sessions in self.sessions.values() for one in sessions)

    def _sum(self) -> Ints:
        """Return the entries, sorted, and each tick, series and hour once."""
        if not self._is_summed or not self._parts:
            whole = np.concatenate([np.zeros((7, 0), np.int64), *self._parts], axis=1)
            whole = whole[:, _order(whole)]
            keys = whole[: _HOUR + 1]
            first = np.flatnonzero(np.append(True, np.any(keys[:, 1:] != keys[:, :-1], axis=0))[: whole.shape[1]])
            if len(first) < whole.shape[1]:
                sums = np.add.reduceat(whole[_GOOD:], first, axis=1)
                whole = np.concatenate([keys[:, first], sums])
            self._parts, self._is_summed = [whole], True
        return self._parts[0]

    def _gather(self, closed: int) -> Ints:
        whole = self._sum()
        ticks, first = np.unique(whole[_TICK], return_index=True)
        units = whole[_GOOD : _UNKNOWN + 1].sum(axis=0)
        most = np.maximum.reduceat(units, first) if len(ticks) else units
        ends = window_end(ticks)
        in_sessions = {tick: sum(one.units for one in some) for tick, some in self.sessions.items() if tick <= closed}
        busy = np.isin(ticks, [tick for tick, n in in_sessions.items() if n >= _SPARSE])
        moved = (ticks <= closed) & (ticks != ends) & (most < _SPARSE) & ~busy
        # A tick with units of sessions outside of `ticks` has no other units.
        is_sparse = dict(zip(ticks.tolist(), moved.tolist(), strict=True))
        for tick, n in sorted(in_sessions.items()):
            if is_sparse.get(tick, n < _SPARSE and tick != window_end(tick)):
                self.sessions[window_end(tick)] += self.sessions.pop(tick)
        if moved.any():
            whole = whole.copy()
            whole[_TICK] = np.where(moved, ends, ticks)[np.searchsorted(ticks, whole[_TICK])]
            self._parts, self._is_summed = [whole], False
        return self._sum()

    def as_json(self) -> list[Any]:
        """Return the open ticks as JSON values, sorted."""
        whole, cells = self._sum().T.tolist(), defaultdict(list)
        for tick, *cell in whole:
            cells[tick].append(cell if cell[-1] else cell[:-1])
        return [[tick, [cells[tick], self.sessions.get(tick, [])]] for tick in sorted({*cells, *self.sessions})]

    def take_json(self, value: Iterable[Any]) -> None:
        """Restore the open ticks from `as_json`."""
        for tick, (cells, sessions) in value:
            entries = np.array([[tick, *cell, 0][:7] for cell in cells], np.int64).reshape(-1, 7).T
            self.add(entries[_TICK], entries[_NUMBER], entries[_HOUR], entries[_GOOD:])
            if sessions:
                self.sessions[tick] = [OpenSessionUnits(*one) for one in sessions]


def _order(whole: Ints) -> Ints:
    """Return the order of entries by tick, series and hour."""
    if not whole.shape[1]:
        return np.zeros(0, np.int64)
    # One number for all three sorts in a third of the time of three of them.
    least = whole[: _HOUR + 1].min(axis=1)
    widths = whole[: _HOUR + 1].max(axis=1) - least + 1
    if float(widths[_TICK]) * float(widths[_NUMBER]) * float(widths[_HOUR]) >= _LARGEST_KEY:
        return np.lexsort(whole[_HOUR::-1])
    ticks, numbers, hours = whole[: _HOUR + 1] - least[:, None]
    return np.argsort((ticks * widths[_NUMBER] + numbers) * widths[_HOUR] + hours, kind="stable")
