"""Array types of the detectors, and a sum with a fixed order of additions."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.int64]
Bools: TypeAlias = npt.NDArray[np.bool_]
Array: TypeAlias = npt.NDArray[Any]
# Series of a call: positions, or a range of neighbours (a view, no copy).
Rows: TypeAlias = npt.NDArray[np.int64] | slice

# A call of numpy costs about a microsecond. For wide rows that is little, and a running sum would write all of them.
_MANY = 3
_NARROW = 500


def positions(rows: Rows) -> Ints:
    """Return the positions of the series of a call, shape (series,)."""
    return np.arange(rows.start, rows.stop) if isinstance(rows, slice) else rows


def add_up(rows: Array) -> Floats:
    """Return the sum over the first axis, one row after the other.

    `numpy.sum` chooses its order of additions by shape and layout, so a series would get other last bits in a fleet of
    one than in a fleet of thousands. A refold must not depend on the other series.
    """
    if rows.ndim > 1 and len(rows) > _MANY and rows[0].size < _NARROW:
        # The same additions in the same order, in one call.
        running: Floats = np.add.accumulate(rows, axis=0, dtype=np.float64)
        last: Floats = running[-1]
        return last
    total: Floats = rows[0].astype(np.float64)
    for row in rows[1:]:
        total += row
    return total
