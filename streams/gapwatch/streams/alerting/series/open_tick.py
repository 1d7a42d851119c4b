"""Windows of five minutes, by which values and sparse ticks are folded, and values that wait for the end of theirs.

A fold of a fleet costs half a millisecond, for one unit as for a thousand, and a change in so few units cannot be
detected within five minutes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gapwatch.streams.detectors.arrays import Ints

WINDOW_TICKS = 10
"""Ticks of a window: five minutes of event time."""
MOST_OPEN = 300_000
"""Most entries of all open ticks, of 60 to 300 bytes each. They add up where one partition is days ahead of another."""


def window_end(ticks: Any) -> Any:
    """Return the last tick of the window of each tick."""
    return ticks // WINDOW_TICKS * WINDOW_TICKS + WINDOW_TICKS - 1


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
        if not whole.shape[1]:  # a slice may hold labels alone
            return whole
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


def full_until(most: int, sizes: Callable[[], Mapping[int, int]]) -> int:
    """Return the last tick to close so that the open ticks stay within `MOST_OPEN`; 0 where they do already.

    Args:
        most: Number of entries of all open ticks, or more.
        sizes: Returns the number of entries of each open tick.
    """
    if most <= MOST_OPEN:
        return 0
    exact = sizes()
    too_many = sum(exact.values()) - MOST_OPEN
    for tick in sorted(exact) if too_many > 0 else ():
        too_many -= exact[tick]
        if too_many <= 0:
            return tick
    return 0
