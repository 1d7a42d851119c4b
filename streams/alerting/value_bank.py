"""The detectors of numbers and labels, and the values that wait for them: five minutes are one bucket, however many."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from streams.alerting.finding import Part
from streams.alerting.open_tick import WINDOW_TICKS, window_end
from streams.detectors.arrays import Floats, Ints
from streams.detectors.bets import LEVELS, number_bets
from streams.detectors.categories import CategoryFleet, label_bets
from streams.detectors.fleet_config import FleetConfig
from streams.detectors.grid import cell_end
from streams.detectors.numbers import NumberFleet
from streams.detectors.watch import Transition

NUMBERS = FleetConfig(number_bets())
LABELS = FleetConfig(label_bets(), page_margin=False)
# Enough for the first and the 99th percentile; the bins of 2,000 would also tell the last of 500, days later.
_NUMBERS_BURN_IN = 500
_QUANTILES = {
    "location": 0.5,
    "spread": 0.95,
    **{f"share above the old p{100 * q:g}": q for q in (0.95, 0.99, 0.998)},
    **{f"share below the old p{100 * q:g}": q for q in (0.05, 0.01)},
    "share below the old p0.2": 0.002,
}


@dataclass
class _Window:
    """Values of one open window.

    Attributes:
        cells: Arrays of number of the series, hour of the week, cell, units; shape (4, entries).
        labels: Number of the series and hour to [units, counts by label].
    """

    cells: list[Ints] = field(default_factory=list)
    labels: dict[tuple[int, int], tuple[list[int], dict[str, int]]] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """How many entries it has."""
        return sum(len(some[0]) for some in self.cells) + sum(len(counts) for _, counts in self.labels.values())

    def summed(self) -> Ints:
        """Return the cells, sorted and each once: the order in which slices came changes nothing."""
        if not self.cells:
            return np.zeros((4, 0), np.int64)
        whole = np.concatenate(self.cells, axis=1)
        whole = whole[:, np.lexsort(whole[2::-1])]
        first = np.flatnonzero(np.append(True, np.any(whole[:3, 1:] != whole[:3, :-1], axis=0)))
        return np.concatenate([whole[:3, first], np.add.reduceat(whole[3], first)[None]])


class ValueBank:
    """Detectors of the values of a lane; rows are made by the `Bank` that it belongs to.

    Attributes:
        numbers: Of measures.
        labels: Of label claims.
        pending: Last tick of each window that is open, to its values.
    """

    def __init__(self) -> None:
        self.numbers = NumberFleet(NUMBERS, burn_in_units=_NUMBERS_BURN_IN)
        self.labels = CategoryFleet(LABELS)
        self.pending: dict[int, _Window] = {}

    @property
    def fleets(self) -> dict[str, NumberFleet | CategoryFleet]:
        """Both, by name."""
        return {"numbers": self.numbers, "labels": self.labels}

    def add_numbers(self, entries: Ints, ticks: Ints) -> None:
        """Put numbers into the open windows.

        Args:
            entries: Number of the series, hour of the week of the event, cell, units; shape (4, entries).
            ticks: In which tick each is folded; it must be open.
        """
        ends = window_end(ticks)
        for end in np.unique(ends).tolist():
            self._open(end).cells.append(entries[:, ends == end])

    def add_labels(self, number: int, hour: int, tick: int, units: int, counts: Mapping[str, int]) -> None:
        """Put labels into an open window; `units` is the number of traces that they are of."""
        whole, sums = self._open(int(window_end(np.int64(tick)))).labels.setdefault((number, hour), ([0], {}))
        whole[0] += units
        for label, n in counts.items():
            sums[label] = sums.get(label, 0) + n

    def _open(self, end: int) -> _Window:
        return self.pending.setdefault(end, _Window())

    def close(self, end: int, row_of: Callable[[str, Iterable[int]], dict[int, int]]) -> list[str]:
        """Fold the window that ends with a tick, if one does.

        Args:
            end: The tick.
            row_of: Gives the rows of series in `numbers` or `labels`.

        Returns:
            The fleets that are to be settled.
        """
        window = self.pending.pop(end, None)
        if window is None:
            return []
        bucket, touched = end - WINDOW_TICKS + 1, []
        cells = window.summed()
        if cells.shape[1]:
            rows = row_of("numbers", np.unique(cells[0]).tolist())
            which = np.array([rows[number] for number in cells[0].tolist()], np.int64)
            for hour in np.unique(cells[1]).tolist():
                some = cells[1] == hour
                self.numbers.fold(bucket, which[some], cells[2, some], cells[3, some], hour)
            touched.append("numbers")
        if window.labels:
            rows = row_of("labels", sorted({number for number, _ in window.labels}))
            for hour in sorted({hour for _, hour in window.labels}):
                units = {
                    rows[number]: one_each(whole[0], counts)
                    for (number, at), (whole, counts) in sorted(window.labels.items())
                    if at == hour
                }
                self.labels.fold(bucket, units, hour)
            touched.append("labels")
        return touched

    def part(self, kind: str, transition: Transition) -> Part | None:
        """Return which part of the values moved; None where the transition names no change."""
        change = transition.change
        if change is None:
            return None
        if kind == "labels":
            labels = self.labels.labels_of(transition.row, change)
            return Part(" or ".join(labels) or "labels that are rare or new", labels=labels)
        table = self.numbers.fleet.config.table
        name = table.shapes[table.shape_of[change.bet]].name
        edges = self.numbers.edges[transition.row].tolist()
        words = {"location": "above the old median", "spread": "outside the old p5 to p95"}
        words_of_part = words.get(name, name.removeprefix("share "))
        if name == "spread":
            above, below = (cell_end(edges[LEVELS.index(q)]) for q in (0.95, 0.05))
            return Part(words_of_part, _QUANTILES[name], above, below, outside=True)
        first, last = min(change.bins), max(change.bins)
        above = cell_end(edges[first - 1]) if first else None
        below = cell_end(edges[last]) if last < len(edges) else None
        return Part(words_of_part, _QUANTILES[name], above, below)

    def units_learned(self, name: str) -> Floats:
        """Return how many units each series of a fleet has learned from; of labels those since they were chosen."""
        fleet = self.fleets[name].fleet
        units: Floats = fleet.state["pooled"].sum(axis=(0, 1))
        if name == "numbers":
            waiting = np.array([sum(cells.values()) for cells in self.numbers.waiting], np.float64)
            units = units + np.where(self.numbers.formed, fleet.state["prior"].sum(axis=0), waiting)
        return units

    def as_json(self) -> list[Any]:
        """Return the open windows as JSON values."""
        return [
            [
                end,
                window.summed().tolist(),
                [[*at, whole[0], sorted(n.items())] for at, (whole, n) in sorted(window.labels.items())],
            ]
            for end, window in sorted(self.pending.items())
        ]

    def take_json(self, value: list[Any]) -> None:
        """Go on from what `as_json` gave."""
        for end, cells, labels in value:
            window = self._open(end)
            window.cells = [np.array(cells, np.int64).reshape(4, -1)]
            window.labels = {(number, hour): ([units], dict(n)) for number, hour, units, n in labels}


def one_window(transition: Transition, *, ends: bool) -> Transition:
    """Return a transition whose change may have come anywhere in the windows at both ends of its interval.

    Args:
        transition: Of a fleet whose buckets are windows.
        ends: Buckets have the number of the last tick of their window (where it is one at all), not of the first.
    """
    change = transition.change
    if change is None:
        return transition
    if not ends:
        return replace(transition, change=replace(change, to_bucket=change.to_bucket + WINDOW_TICKS - 1))
    if window_end(change.from_bucket) != change.from_bucket:
        return transition
    return replace(transition, change=replace(change, from_bucket=change.from_bucket - WINDOW_TICKS + 1))


def one_each(units: int, counts: Mapping[str, int]) -> dict[str, int]:
    """Return counts that add up to at most the number of traces: each trace is one observation, however many labels.

    Args:
        units: Traces.
        counts: How often each label occurs in them.

    Labels of one trace depend on each other. Where there are more labels than traces their shares are kept and the
    sum is that of the traces (whole numbers by largest remainder, ties by name). For traces of about as many labels
    each the evidence is at most that of one label drawn from each: a geometric mean is below the arithmetic one.
    """
    spans = sum(counts.values())
    if spans <= units:
        return dict(counts)
    shares = {label: n * units / spans for label, n in counts.items()}
    result = {label: int(share) for label, share in shares.items()}
    missing = units - sum(result.values())
    for label in sorted(shares, key=lambda label: (result[label] - shares[label], label))[:missing]:
        result[label] += 1
    return {label: n for label, n in result.items() if n}
