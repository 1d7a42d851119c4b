"""The outcomes of one block of a slice, from the query to the ticks and rows made of them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gapwatch.scorers.plan.block import Block
from gapwatch.scorers.plan.codes import OUTCOME_OF_CODE
from gapwatch.scorers.slices.columns import FloatArray


@dataclass
class BlockResult:
    """The final outcomes of one block, after Python scorers and composites.

    Attributes:
        block: The block.
        rows: Which rows of the slice's columns it covers.
        codes: n x m codes.
        scores: n scores by metric number, NaN where there is none; only metrics that have scores.
        labels: n labels by metric number; only metrics that have labels.
        strata: n stratum numbers by metric number; only metrics with strata.
        reasons: Reasons in words by metric number and row of the block, where a code cannot name them.
        final: The outcomes, once the codes change no more.
    """

    block: Block
    rows: slice
    codes: npt.NDArray[np.uint8]
    scores: dict[int, FloatArray] = field(default_factory=dict)
    labels: dict[int, pa.Array] = field(default_factory=dict)
    strata: dict[int, npt.NDArray[np.uint8]] = field(default_factory=dict)
    reasons: dict[tuple[int, int], str] = field(default_factory=dict)

    final: npt.NDArray[np.uint8] | None = None

    @property
    def outcomes(self) -> npt.NDArray[np.uint8]:
        """N x m outcome ids."""
        return self.final if self.final is not None else OUTCOME_OF_CODE.take(self.codes)

    def close(self) -> None:
        """Say that the codes change no more, so that the outcomes need not be found again."""
        self.final = OUTCOME_OF_CODE.take(self.codes)
