"""Detectors of values: numbers of measures and scores, and mixes of labels."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from gapwatch.streams.alerting.evaluation.series_detectors import Learned
from gapwatch.streams.alerting.evaluation.series_rows import SeriesRows
from gapwatch.streams.alerting.rules.finding import Finding, Part, Watched
from gapwatch.streams.alerting.series.open_tick import WINDOW_TICKS, OpenWindow, window_end
from gapwatch.streams.alerting.series.slice_units import OpenTicks
from gapwatch.streams.alerting.series.slice_values import Labels, Numbers, SliceValues
from gapwatch.streams.detectors.arrays import Ints
from gapwatch.streams.detectors.batches.quiet_buckets import Bucket, fold_buckets
from gapwatch.streams.detectors.bets import LEVELS, number_bets
from gapwatch.streams.detectors.categories import CategoryFleet, label_bets
from gapwatch.streams.detectors.fleet import Fleet
from gapwatch.streams.detectors.fleet_config import FleetConfig
from gapwatch.streams.detectors.grid import cell_end
from gapwatch.streams.detectors.numbers import NumberFleet
from gapwatch.streams.detectors.snapshot import restore_headed, snapshot_headed
from gapwatch.streams.detectors.watch import Transition, advance_phases

NUMBERS = FleetConfig(number_bets())
LABELS = FleetConfig(label_bets())
# Enough for the 1st and the 99th percentile. 2,000 would add the tails at 0.2 %, days later.
_NUMBERS_BURN_IN = 500
_QUANTILES = {
    "location": 0.5,
    "spread": 0.95,
    **{f"share above the old p{100 * q:g}": q for q in (0.95, 0.99, 0.998)},
    **{f"share below the old p{100 * q:g}": q for q in (0.05, 0.01)},
    "share below the old p0.2": 0.002,
}


class ValueDetectors:
    """Detectors of the values of one lane; see `SeriesDetectors`.

    The values of five minutes are folded as one bucket, whose number is that of its first tick.

    Args:
        rows: Rows of the lane.

    Attributes:
        numbers: Fleet of numbers: of measures, and scores of verdicts.
        labels: Fleet of labels.
        pending: Last tick of each open window to its values.
    """

    def __init__(self, rows: SeriesRows) -> None:
        self.numbers = NumberFleet(NUMBERS, burn_in_units=_NUMBERS_BURN_IN)
        self.labels = CategoryFleet(LABELS)
        self.pending: dict[int, OpenWindow] = defaultdict(OpenWindow)
        self._rows = rows
        self._left_out: set[tuple[int, str]] = set()
        rows.watched |= {name: [] for name in self.fleets}

    @property
    def fleets(self) -> dict[str, Fleet]:
        """Fleets of numbers and of labels, by name; the names are also the kinds of their rows."""
        return {"numbers": self.numbers.fleet, "labels": self.labels.fleet}

    def add(self, content: SliceValues, there: OpenTicks) -> None:
        """Add the values of a slice to the open windows; late ones join the current window with their own hour."""
        self._add_numbers(content.numbers, there)
        self._add_labels(content.labels, there)
        for kind, left_out in (("numbers", content.numbers.left_out), ("labels", content.labels.left_out)):
            self._left_out |= {(self._rows.number_of(key), kind) for key in left_out}

    def _add_numbers(self, content: Numbers, there: OpenTicks) -> None:
        if not len(content.which):
            return
        which = np.array([self._rows.number_of(key) for key in content.series], np.int64)[content.which]
        entries = np.stack([which, self._rows.hours(which, content.ticks), content.cells, content.n])
        ends = window_end(there.fold_ticks(content.ticks))
        for end in np.unique(ends).tolist():
            self.pending[end].cells.append(entries[:, ends == end])

    def _add_labels(self, content: Labels, there: OpenTicks) -> None:
        for entry in content.found:
            number = self._rows.number_of(entry.series)
            window = self.pending[window_end(there.fold_tick(entry.tick))]
            window.add_labels(number, self._rows.hour(number, entry.tick), entry.units, entry.counts)

    def most_entries(self) -> int:
        """Return the number of open entries."""
        return sum(self.sizes().values())

    def sizes(self) -> dict[int, int]:
        """Return the number of entries of each open window."""
        return {end: one.size for end, one in self.pending.items()}

    def ready(self, closed: int) -> Iterable[int]:
        """Return the last ticks of the closed windows."""
        return [end for end in self.pending if end <= closed]

    def is_plain(self, tick: int) -> bool:
        """Return whether the window that ends with a ready tick makes no new row."""
        window = self.pending.get(tick)
        return window is None or not self._rows.without_row(_keys_of(window))

    def fold(self, ticks: Sequence[int]) -> list[Finding]:
        """Fold the windows that end with some ticks, if they hold values."""
        windows = [(tick, window) for tick in ticks if (window := self.pending.pop(tick, None)) is not None]
        found = self._fold_numbers([(tick, cells) for tick, one in windows if (cells := one.summed()).shape[1]])
        for tick, window in windows:
            if window.labels:
                bucket = tick - WINDOW_TICKS + 1
                self._fold_labels(bucket, window)
                found += self._found("labels", tick, advance_phases(self.labels.fleet, bucket))
        return found

    def _found(self, name: str, tick: int, steps: Sequence[Transition]) -> list[Finding]:
        return self._rows.take_findings(name, tick, tick - WINDOW_TICKS + 1, steps, partial(self._part, name))

    def _fold_numbers(self, windows: list[tuple[int, Ints]]) -> list[Finding]:
        """Fold the numbers of some windows; neighbours of one hour, of series with bins, are folded at once."""
        found: list[Finding] = []
        at = 0
        while at < len(windows):
            hour, stop = self._plain_hour(windows[at][1]), at + 1
            while hour is not None and stop < len(windows) and self._plain_hour(windows[stop][1]) == hour:
                stop += 1
            some = windows[at:stop]
            if hour is None:
                steps = [self._fold_window(*some[0])]
            else:
                steps = fold_buckets(self.numbers.fleet, hour, [self._bucket(*window) for window in some])
            for (tick, _), moved in zip(some, steps, strict=True):
                found += self._found("numbers", tick, moved)
            at = stop
        return found

    def _plain_hour(self, cells: Ints) -> int | None:
        """Return the hour of the week of a window whose series have rows and bins; None where it has several."""
        hours = set(cells[1].tolist())
        rows = self._rows.rows(cells[0], "numbers") if len(hours) == 1 else None
        is_plain = rows is not None and (rows >= 0).all() and self.numbers.formed[rows].all()
        return hours.pop() if is_plain else None

    def _bucket(self, tick: int, cells: Ints) -> Bucket:
        return self.numbers.binned(tick - WINDOW_TICKS + 1, self._rows.rows(cells[0], "numbers"), cells[2], cells[3])

    def _fold_window(self, tick: int, cells: Ints) -> list[Transition]:
        """Fold the numbers of one window, and make their rows; burn-ins may end."""
        self._rows.make(self, "numbers", [(number, "numbers") for number in np.unique(cells[0]).tolist()])
        which, bucket = self._rows.rows(cells[0], "numbers"), tick - WINDOW_TICKS + 1
        for hour in np.unique(cells[1]).tolist():
            some = cells[1] == hour
            self.numbers.fold(bucket, which[some], cells[2, some], cells[3, some], hour)
        return advance_phases(self.numbers.fleet, bucket)

    def _fold_labels(self, bucket: int, window: OpenWindow) -> None:
        numbers = sorted({number for number, _ in window.labels})
        self._rows.make(self, "labels", [(number, "labels") for number in numbers])
        rows = {number: self._rows.row(number, "labels") for number in numbers}
        for hour in sorted({hour for _, hour in window.labels}):
            units = {
                rows[number]: one_each(whole[0], counts)
                for (number, at), (whole, counts) in sorted(window.labels.items())
                if at == hour
            }
            self.labels.fold(bucket, units, hour)

    def _part(self, kind: str, transition: Transition) -> Part | None:
        """Return the part of the values that moved; None where the transition names no change."""
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

    def left_out(self) -> list[Watched]:
        """Return numbers and labels that are not monitored because all their traces were in sessions."""
        series = self._rows.series
        return [Watched(series[number], kind) for number, kind in sorted(self._rows.without_row(self._left_out))]

    def waiting(self) -> Iterator[tuple[int, str]]:
        """Yield the (number of the series, kind) of open values."""
        for window in self.pending.values():
            yield from _keys_of(window)

    def grow(self, name: str, count: int) -> Ints:
        """Add empty series to a fleet, and return their rows."""
        return self.numbers.add_series(count) if name == "numbers" else self.labels.add_series(count)

    def learned(self, name: str) -> Learned:
        """Return the baselines of a fleet; labels count units from the end of their burn-in."""
        state = self.fleets[name].state
        units = state["pooled"].sum(axis=(0, 1))
        if name == "numbers":
            waiting = np.array([sum(cells.values()) for cells in self.numbers.waiting], np.float64)
            units = units + np.where(self.numbers.formed, state["prior"].sum(axis=0), waiting)
        return Learned(units, None)

    # ---- the state ----

    def as_json(self) -> dict[str, Any]:
        """Return everything but the fleets as JSON values."""
        return {
            "values": [[end, *window.as_json()] for end, window in sorted(self.pending.items())],
            "left_out": sorted(self._left_out),
        }

    def take_json(self, value: Mapping[str, Any]) -> None:
        """Restore the state from `as_json`."""
        self.pending.update((end, OpenWindow.from_json(window)) for end, *window in value["values"])
        self._left_out = {(number, kind) for number, kind in value["left_out"]}

    def snapshots(self) -> dict[str, bytes]:
        """Return each fleet as bytes, by name."""
        return {"numbers": snapshot_headed(self.numbers), "labels": snapshot_headed(self.labels)}

    def restore(self, snapshots: Mapping[str, bytes]) -> None:
        """Restore the fleets from `snapshots`; SnapshotError where they cannot be read."""
        self.numbers = restore_headed(NumberFleet(NUMBERS), snapshots["numbers"])
        self.labels = restore_headed(CategoryFleet(LABELS), snapshots["labels"])


def _keys_of(window: OpenWindow) -> Iterator[tuple[int, str]]:
    """Yield the (number of the series, kind) of the values of a window."""
    for entries in window.cells:
        yield from ((number, "numbers") for number in sorted(set(entries[0].tolist())))
    yield from ((number, "labels") for number, _ in window.labels)


def one_each(units: int, counts: Mapping[str, int]) -> dict[str, int]:
    """Return label counts scaled down to at most one label a trace, because a trace is one observation.

    Labels of one trace depend on each other. Where there are more labels than traces, their shares stay and their sum
    becomes the number of traces (whole numbers by largest remainder, ties by name). For traces with about equally many
    labels the evidence is at most that of one label drawn from each: a geometric mean is below the arithmetic one.

    Args:
        units: Number of traces.
        counts: Label to its number of occurrences in these traces.
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
