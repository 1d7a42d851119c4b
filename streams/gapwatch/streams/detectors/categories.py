"""Detectors of labels: a burn-in chooses the labels that get bins of their own, then a fleet of nine bins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gapwatch.streams.detectors.arrays import Ints
from gapwatch.streams.detectors.bets import BetTable, category_bets, frequent_labels
from gapwatch.streams.detectors.change import Change
from gapwatch.streams.detectors.fleet import Fleet
from gapwatch.streams.detectors.fleet_config import FleetConfig

MOST_LABELS = 8
"""Number of labels with a bin of their own; all other labels share the bin "new"."""


def label_bets() -> BetTable:
    """Return bets on the share of each of eight labels and of "new", without a direction; see `category_bets`."""
    return category_bets([f"label {i}" for i in range(1, MOST_LABELS + 1)])


class CategoryFleet:
    """Fleet of label series, each with labels of its own.

    The first `burn_in_units` choose the labels and count for nothing else: otherwise a label that is frequent there by
    chance would be expected as often for ever. A bin without a label is empty, and its bets are always 1.

    Attributes:
        fleet: Evidence and baselines.
        names: Labels of each series, by bin; None until they are chosen.
        waiting: Units by label of each series in its burn-in.
        burn_in_units: Units after which labels are chosen; as many more are learned before the first bet.
    """

    def __init__(self, config: FleetConfig, burn_in_units: int = 100) -> None:
        self.fleet = Fleet(config)
        self.burn_in_units = burn_in_units
        self.names: list[tuple[str, ...] | None] = []
        self.waiting: list[dict[str, float]] = []

    def add_series(self, count: int) -> Ints:
        """Add empty series; return their rows."""
        self.names.extend([None] * count)
        self.waiting.extend({} for _ in range(count))
        return self.fleet.add_series(count)

    def fold(self, bucket: int, units: Mapping[int, Mapping[str, int]], hour: int = 0) -> None:
        """Fold one tick; see `Fleet.fold`.

        Args:
            bucket: Number of the tick.
            units: Row to its units by label, whole numbers >= 1.
            hour: Hour of the week of the units.

        A tick in which a burn-in ends belongs to the burn-in as a whole.
        """
        known = [row for row in sorted(units) if self.names[row] is not None]
        if known:
            counts = np.zeros((self.fleet.config.table.bins, len(known)))
            for column, row in enumerate(known):
                bins = self._bins(row)
                for label, n in units[row].items():
                    counts[bins.get(label, MOST_LABELS), column] += n
            self.fleet.fold(bucket, counts, np.array(known, np.int64), hour)
        for row in sorted(set(units) - set(known)):
            waiting = self.waiting[row]
            for label, n in units[row].items():
                waiting[label] = waiting.get(label, 0) + n
            if sum(waiting.values()) >= self.burn_in_units:
                self._choose(row)

    def _bins(self, row: int) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.names[row] or ())}

    def _choose(self, row: int) -> None:
        names = frequent_labels({label: int(n) for label, n in self.waiting[row].items()}, MOST_LABELS)
        self.names[row], self.waiting[row] = names, {}
        self.fleet.state["prior"][:, row] = 0.0
        self.fleet.state["prior"][[*range(len(names)), MOST_LABELS], row] = 0.5

    def labels_of(self, row: int, change: Change) -> tuple[str, ...]:
        """Return the labels whose share changed; empty for the bin "new"."""
        names = self.names[row] or ()
        return tuple(names[bin_] for bin_ in change.bins if bin_ < len(names))

    def head(self) -> dict[str, Any]:
        """Return the state outside the fleet, for `snapshot.snapshot_headed`."""
        return {
            "burn_in_units": self.burn_in_units,
            "names": self.names,
            "waiting": [sorted(labels.items()) for labels in self.waiting],
        }

    def take_head(self, head: dict[str, Any]) -> None:
        """Restore the state from `head`, for `snapshot.restore_headed`."""
        self.burn_in_units = int(head["burn_in_units"])
        self.names = [None if names is None else tuple(names) for names in head["names"]]
        self.waiting = [dict(pairs) for pairs in head["waiting"]]
