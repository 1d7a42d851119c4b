"""Detectors of numbers: a burn-in on the grid, then bins at its order statistics, then a fleet of 26 bins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gapwatch.streams.detectors.arrays import Ints
from gapwatch.streams.detectors.batches.quiet_buckets import Bucket
from gapwatch.streams.detectors.fleet import Fleet
from gapwatch.streams.detectors.fleet_config import FleetConfig
from gapwatch.streams.detectors.grid import count_bins, form_bins


class NumberFleet:
    """Fleet of number series, with the burn-ins that form their bins.

    Attributes:
        fleet: Evidence and baselines of the series whose bins are formed.
        edges: Edges of the bins, shape (series, 25); meaningless until formed.
        formed: True for series with bins.
        waiting: Units by cell of each series in its burn-in.
        burn_in_units: Units after which bins are formed: with 2,000 all tails are monitored, with 100 the middle only.
    """

    def __init__(self, config: FleetConfig, series: int = 0, burn_in_units: int = 2000) -> None:
        self.fleet = Fleet(config)
        self.burn_in_units = burn_in_units
        self.edges: Ints = np.zeros((0, config.table.bins - 1), np.int64)
        self.formed = np.zeros(0, np.bool_)
        self.waiting: list[dict[int, int]] = []
        if series:
            self.add_series(series)

    def add_series(self, count: int) -> Ints:
        """Add empty series; return their rows."""
        self.edges = np.concatenate([self.edges, np.zeros((count, self.edges.shape[1]), np.int64)])
        self.formed = np.concatenate([self.formed, np.zeros(count, np.bool_)])
        self.waiting.extend({} for _ in range(count))
        return self.fleet.add_series(count)

    def fold(self, bucket: int, series: Ints, cells: Ints, counts: Ints, hour: int = 0, stratum: int = 0) -> None:
        """Fold one tick of sparse cells; see `Fleet.fold`.

        Args:
            bucket: Number of the tick.
            series: Row of each entry.
            cells: Cell of each entry, see `grid`.
            counts: Units of each entry, >= 1.
            hour: Hour of the week of the units.
            stratum: Weight class of the units.

        A tick in which a burn-in ends belongs to the burn-in as a whole; bins are formed after it.
        """
        known = self.formed[series]
        if known.any():
            number, binned, rows = self.binned(bucket, series[known], cells[known], counts[known])
            self.fleet.fold(number, binned, rows, hour, stratum)
        touched = set()
        for row, cell, n in zip(series[~known].tolist(), cells[~known].tolist(), counts[~known].tolist(), strict=True):
            histogram = self.waiting[row]
            histogram[cell] = histogram.get(cell, 0) + n
            touched.add(row)
        for row in sorted(touched):
            if sum(self.waiting[row].values()) >= self.burn_in_units:
                self.form(row, self.waiting[row])

    def binned(self, bucket: int, series: Ints, cells: Ints, counts: Ints) -> Bucket:
        """Return one tick of sparse cells of series whose bins are formed, by bin; arguments as in `fold`."""
        rows, which = np.unique(series, return_inverse=True)
        return Bucket(bucket, count_bins(self.edges[rows], which, cells, counts), rows)

    def form(self, row: int, histogram: Mapping[int, int]) -> None:
        """Cut the bins of a series from a burn-in and start its detectors."""
        bins = form_bins(histogram)
        self.edges[row] = bins.edges
        self.fleet.state["prior"][:, row] = bins.prior
        self.formed[row] = True
        self.waiting[row] = {}

    def start_epoch(self, rows: Ints) -> None:
        """Reset these series, including their bins."""
        self.fleet.start_epoch(rows)
        self.formed[rows] = False
        for row in rows.tolist():
            self.waiting[row] = {}

    def head(self) -> dict[str, Any]:
        """Return the state outside the fleet, for `snapshot.snapshot_headed`."""
        return {
            "burn_in_units": self.burn_in_units,
            "formed": self.formed.tolist(),
            "edges": self.edges.tolist(),
            "waiting": [sorted(histogram.items()) for histogram in self.waiting],
        }

    def take_head(self, head: dict[str, Any]) -> None:
        """Restore the state from `head`, for `snapshot.restore_headed`."""
        self.burn_in_units = int(head["burn_in_units"])
        self.formed = np.array(head["formed"], np.bool_)
        self.edges = np.array(head["edges"], np.int64).reshape(self.fleet.series, self.fleet.config.table.bins - 1)
        self.waiting = [{int(cell): int(n) for cell, n in pairs} for pairs in head["waiting"]]
