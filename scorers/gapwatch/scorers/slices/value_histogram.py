"""Histograms of scores: counts by cells of one logarithmic grid, the same for every metric and every version."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gapwatch.scorers.slices.columns import FloatArray, IntArray

#: Cells of the value histogram are powers of this number; 1 % is finer than any shift worth an alert.
CELL_RATIO = 1.01
#: Smallest magnitude that is distinguished from 0; its cell is 1.
SMALLEST = 1e-12
CELL_OFFSET = 2778


def histogram_cells(values: FloatArray) -> npt.NDArray[np.int32]:
    """Return the cell of each finite value: 0 near zero, else by sign and logarithm, positive from 1e-12 on."""
    magnitude = np.abs(values)
    near_zero = magnitude < SMALLEST
    logarithm = np.floor(np.log(np.where(near_zero, 1.0, magnitude)) / np.log(CELL_RATIO)) + CELL_OFFSET
    return np.where(near_zero, 0, np.sign(values) * logarithm).astype(np.int32)


def histogram_maps(
    group_of_item: IntArray,
    outcomes: npt.NDArray[np.uint8],
    scores: FloatArray,
    metric_of_column: IntArray,
    counts: IntArray,
) -> pa.Array:
    """Return the value histograms of some metrics as one MAP for each count that is not 0, null without scores.

    Args:
        group_of_item: Group of each of n items, from 0 to f - 1.
        outcomes: n x s outcome ids, of the s metrics that have scores.
        scores: n x s scores, NaN for no score.
        metric_of_column: Number of each of the s metrics among all m.
        counts: f x m x width counts, 0 for the first outcome (not applicable).
    """
    _, metrics, width = counts.shape
    which, metric, outcome = np.nonzero(counts)
    inside = np.isfinite(scores)
    cells = histogram_cells(scores[inside]).astype(np.int64)
    row = (((group_of_item * metrics)[:, None] + metric_of_column) * width + outcomes)[inside]
    span = 1 << 32
    distinct, n = np.unique(row * span + (cells + (span >> 1)), return_counts=True)
    row_of_cell = distinct // span
    wanted = (which * metrics + metric) * width + outcome
    bounds = np.searchsorted(row_of_cell, wanted), np.searchsorted(row_of_cell, wanted, side="right")
    # `wanted` ascends, so the cells of each row follow those of the row before.
    offsets = np.append(bounds[0], bounds[1][-1:]).astype(np.int32) if len(wanted) else np.zeros(1, np.int32)
    empty = bounds[0] == bounds[1]
    keys = pa.array((distinct % span - (span >> 1)).astype(np.int32))
    starts = pa.array(offsets, mask=np.append(empty, False)) if empty.any() else pa.array(offsets)
    return pa.MapArray.from_arrays(starts, keys, pa.array(n.astype(np.int64)))
