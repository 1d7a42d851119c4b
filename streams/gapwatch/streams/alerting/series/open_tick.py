"""Open ticks: units and values that wait until their tick is closed; sparse ticks are folded by five minutes.

A fold of a fleet costs half a millisecond, for one unit as for a thousand, and a change in so few units cannot be
detected within five minutes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gapwatch.streams.detectors.arrays import Ints

WINDOW_TICKS = 10
"""Ticks of a window: five minutes of event time."""
MOST_OPEN = 300_000
"""Most entries of all open ticks, about 300 bytes each. They add up where one partition is days ahead of another."""
# A tick with fewer units than this of each series waits for the end of its window.
_SPARSE = 20


def window_end(ticks: Any) -> Any:
    """Return the last tick of the window of each tick."""
    return ticks // WINDOW_TICKS * WINDOW_TICKS + WINDOW_TICKS - 1


@dataclass
class OpenTick:
    """Units of one open tick.

    Attributes:
        counts: (Number of the series, hour of the week of the event) to units [good, bad, unknown, decided in
            sessions]; the first two are outside of sessions.
        sessions: (Number of the series, session, tick of its units, units, bad units).
    """

    counts: dict[tuple[int, int], list[int]] = field(default_factory=lambda: defaultdict(lambda: [0, 0, 0, 0]))
    sessions: list[tuple[int, str, int, int, int]] = field(default_factory=list)

    @property
    def size(self) -> int:
        """Number of entries."""
        return len(self.counts) + len(self.sessions)

    @property
    def is_sparse(self) -> bool:
        """True where no series has enough units for a fold of its own."""
        most = max((sum(cell[:3]) for cell in self.counts.values()), default=0)
        return max(most, sum(units for _, _, _, units, _ in self.sessions)) < _SPARSE

    def join(self, other: OpenTick) -> None:
        """Add the units of another tick."""
        for key, cell in other.counts.items():
            mine = self.counts[key]
            for i, n in enumerate(cell):
                mine[i] += n
        self.sessions += other.sessions

    def as_json(self) -> list[Any]:
        """Return the tick as JSON values."""
        cells = [[*at, *(cell if cell[3] else cell[:3])] for at, cell in sorted(self.counts.items())]
        return [cells, self.sessions]

    @classmethod
    def from_json(cls, value: list[Any]) -> OpenTick:
        """Return the tick from `as_json`."""
        counts, sessions = value
        tick = cls()
        for number, hour, *cell in counts:
            tick.counts[number, hour] = [*cell, 0][:4]
        tick.sessions = [(number, session, at, units, bad) for number, session, at, units, bad in sessions]
        return tick


@dataclass
class OpenWindow:
    """Values of one open window: numbers by cell of the grid, and labels.

    Attributes:
        cells: Arrays of (number of the series, hour of the week of the event, cell, units), shape (4, entries).
        labels: (Number of the series, hour of the week) to ([units], counts by label).
    """

    cells: list[Ints] = field(default_factory=list)
    labels: dict[tuple[int, int], tuple[list[int], dict[str, int]]] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Number of entries."""
        return sum(len(some[0]) for some in self.cells) + sum(len(counts) for _, counts in self.labels.values())

    def add_labels(self, number: int, hour: int, units: int, counts: Mapping[str, int]) -> None:
        """Add the labels of some traces of a series; `units` is the number of these traces."""
        whole, sums = self.labels.setdefault((number, hour), ([0], {}))
        whole[0] += units
        for label, n in counts.items():
            sums[label] = sums.get(label, 0) + n

    def summed(self) -> Ints:
        """Return the cells, sorted and each once, so that the order of slices does not matter."""
        if not self.cells:
            return np.zeros((4, 0), np.int64)
        whole = np.concatenate(self.cells, axis=1)
        whole = whole[:, np.lexsort(whole[2::-1])]
        first = np.flatnonzero(np.append(True, np.any(whole[:3, 1:] != whole[:3, :-1], axis=0)))
        return np.concatenate([whole[:3, first], np.add.reduceat(whole[3], first)[None]])

    def as_json(self) -> list[Any]:
        """Return the window as JSON values."""
        labels = [[*at, whole[0], sorted(counts.items())] for at, (whole, counts) in sorted(self.labels.items())]
        return [self.summed().tolist(), labels]

    @classmethod
    def from_json(cls, value: list[Any]) -> OpenWindow:
        """Return the window from `as_json`."""
        cells, labels = value
        return cls(
            [np.array(cells, np.int64).reshape(4, -1)],
            {(number, hour): ([units], dict(counts)) for number, hour, units, counts in labels},
        )


def full_until(sizes: Mapping[int, int]) -> int:
    """Return the last tick to close so that the open ticks stay within `MOST_OPEN`; 0 where they do already.

    Args:
        sizes: Open tick to its number of entries.
    """
    too_many = sum(sizes.values()) - MOST_OPEN
    for tick in sorted(sizes) if too_many > 0 else ():
        too_many -= sizes[tick]
        if too_many <= 0:
            return tick
    return 0


def gather(pending: dict[int, OpenTick], closed: int) -> None:
    """Move the units of sparse closed ticks into the last tick of their window.

    Args:
        pending: Tick to its units; returns an empty entry for a missing tick.
        closed: Watermark: up to this tick the number of units is final.
    """
    for tick in sorted(tick for tick in pending if tick <= closed):
        end = window_end(tick)
        if tick != end and pending[tick].is_sparse:
            sparse = pending.pop(tick)
            pending[end].join(sparse)
