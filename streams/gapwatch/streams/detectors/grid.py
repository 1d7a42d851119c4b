"""Bins of numbers: from counts on the fixed 1 % grid to bins that end at order statistics of a burn-in.

The grid is that of ticks (`value_histogram`): cell 0 below 1e-12 in size, else sign(x) (floor(ln|x| / ln 1.01)
+ 2778). Cells are 1 % wide and grow with x; numbers in one cell are equal for a detector. A test compares this
module, which needs only numpy, with `value_histogram`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gapwatch.streams.detectors.arrays import Floats, Ints
from gapwatch.streams.detectors.bets import LEVELS

_OFFSET = 2778
_LOG_STEP = math.log(1.01)
_LEAST = 1e-12
_HALF = 1.005
_BEFORE_ALL = -(2**31)
_AFTER_ALL = 2**31
# Values of the burn-in beyond an order statistic that it needs.
_LEAST_BEYOND = 4


def cell_of(value: float) -> int:
    """Return the cell of a finite number, as `value_histogram.histogram_cells` does."""
    if abs(value) < _LEAST:
        return 0
    cell = math.floor(math.log(abs(value)) / _LOG_STEP) + _OFFSET
    return cell if value > 0 else -cell


def cell_end(cell: int) -> float | None:
    """Return the upper end of a cell, as a number; None for the marks before the first and after the last cell."""
    if abs(cell) >= _AFTER_ALL:
        return None
    if cell == 0:
        return _LEAST
    size = math.exp(_LOG_STEP * (abs(cell) - _OFFSET + (1 if cell > 0 else 0)))
    return size if cell > 0 else -size


def cell_middle(cell: int) -> float:
    """Return the middle of a cell, which is within half a percent of every number in it."""
    end = cell_end(cell) if cell else 0.0
    return 0.0 if end is None else end / _HALF if cell > 0 else end * _HALF


def quantiles_of_cells(histogram: Mapping[int, int], levels: Sequence[float]) -> list[float | None]:
    """Return quantiles of counted cells, within half a percent; None without units."""
    cells = sorted(cell for cell, n in histogram.items() if n > 0)
    if not cells:
        return [None] * len(levels)
    up_to = np.cumsum([histogram[cell] for cell in cells])
    positions = np.searchsorted(up_to, np.array(levels) * up_to[-1])
    return [cell_middle(cells[min(int(position), len(cells) - 1)]) for position in positions]


def quantiles_of_bins(edges: Ints, masses: Floats, levels: Sequence[float]) -> list[float | None]:
    """Return quantiles of binned units, taken as evenly spread in each bin; None where no edge is near.

    Args:
        edges: Edges of one series, as in `Bins`.
        masses: Units by bin, or any multiple of them.
        levels: Levels of the quantiles, in (0, 1).
    """
    ends = [None, *(cell_end(int(edge)) for edge in edges), None]
    up_to = np.cumsum(masses)
    found: list[float | None] = []
    for level in levels:
        wanted = level * float(up_to[-1])
        position = min(int(np.searchsorted(up_to, wanted)), len(masses) - 1)
        low, high = ends[position], ends[position + 1]
        if 0 < position < len(edges) and edges[position] - edges[position - 1] == 1:
            found.append(cell_middle(int(edges[position])))  # a frequent value with a bin of its own
        elif low is None or high is None or not masses[position]:
            found.append(high if low is None else low)
        else:
            found.append(high - (high - low) * float(up_to[position] - wanted) / float(masses[position]))
    return found


@dataclass(frozen=True)
class Bins:
    """Bins of one series of numbers.

    Attributes:
        edges: Last cell of each bin but the last, non-decreasing; where two are equal, the later bin is empty.
        prior: Dirichlet parameters from the burn-in, one for each bin; 0 for a bin that no number can fall into.
    """

    edges: Ints
    prior: Floats


def form_bins(histogram: Mapping[int, int], levels: tuple[float, ...] = LEVELS) -> Bins:
    """Return bins that cut a burn-in at its order statistics.

    Args:
        histogram: Cell to number of units, at least one unit.
        levels: Levels, ascending, in (0, 1). Levels with fewer than four units beyond them are dropped.

    Returns:
        Bins with len(levels) + 1 positions. A cell that holds several levels (a frequent value) becomes a bin of its
        own, in the middle of the positions that it covers.

    Source:
        Given its edges at order statistics, the probabilities of the bins are Dirichlet(spacings) for every continuous
        distribution (Wilks 1962, 8.7), so the predictive shares are the true law on average over the burn-in,
        distribution-free, for any size. On the grid, values within 1 % are tied, and a bin ends at the end of its
        cell: then the promise is approximate (measured in docs/figures/detectors.md). It does not hold for a burn-in
        whose units depend on each other.

    Raises:
        ValueError: The burn-in holds no unit.
    """
    cells = np.array(sorted(cell for cell, n in histogram.items() if n > 0), np.int64)
    if not len(cells):
        raise ValueError("a burn-in without a unit has no order statistics; wait for units")
    counts = np.array([histogram[int(cell)] for cell in cells], np.int64)
    up_to = np.cumsum(counts)
    units = int(up_to[-1])
    ranks = np.array([max(round(level * (units + 1)), 1) for level in levels])
    usable = [min(level, 1.0 - level) * units >= _LEAST_BEYOND for level in levels]
    at = np.array([cells[min(int(np.searchsorted(up_to, rank)), len(cells) - 1)] for rank in ranks])
    edges = _edges_at(at, usable)
    bins = _bin_of(edges[None, :], cells)
    prior = np.bincount(bins, counts, len(levels) + 1).astype(np.float64)
    prior[_bin_of(edges[None, :], np.array([_AFTER_ALL - 1]))[0]] += 1.0
    reachable = np.diff(edges, prepend=_BEFORE_ALL, append=_AFTER_ALL) > 0
    return Bins(edges, np.where(reachable & (prior == 0.0), 0.5, prior))


def _edges_at(at: Ints, usable: list[bool]) -> Ints:
    """Return edges for the cells of the levels; a cell that several levels share gets the middle position."""
    edges = np.empty(len(at), np.int64)
    before = _BEFORE_ALL
    position = 0
    while position < len(at):
        if not usable[position]:
            # Dropped level: positions below the first usable level stay empty, those above the last are never reached.
            edges[position] = before if position < len(at) // 2 else _AFTER_ALL
            position += 1
            continue
        last = position
        while last + 1 < len(at) and usable[last + 1] and at[last + 1] == at[position]:
            last += 1
        if last == position or at[position] - 1 <= before:
            edges[position : last + 1] = at[position]
            if last > position:
                edges[position : (position + last) // 2 + 1] = before
                edges[(position + last) // 2 + 1 : last + 1] = at[position]
        else:
            middle = (position + 1 + last) // 2
            edges[position:middle] = at[position] - 1
            edges[middle : last + 1] = at[position]
        before = int(at[position])
        position = last + 1
    return edges


def _bin_of(edges: Ints, cells: Ints) -> Ints:
    """Return the bin of each cell: the number of edges below it. `edges` has one row for all cells, or one each."""
    result: Ints = (edges < cells[:, None]).sum(axis=1)
    return result


def count_bins(edges: Ints, series: Ints, cells: Ints, counts: Ints) -> Floats:
    """Return the units of each bin, shape (bins, series), from sparse cells.

    Args:
        edges: Shape (series, bins - 1).
        series: Series of each entry, as a row of `edges`.
        cells: Cell of each entry.
        counts: Units of each entry.
    """
    width = edges.shape[1] + 1
    flat = series * width + _bin_of(edges[series], cells)
    summed = np.bincount(flat, counts, len(edges) * width)
    return np.ascontiguousarray(summed.reshape(len(edges), width).T)
