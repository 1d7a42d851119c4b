"""Outcomes of one block of a slice, from which ticks and rows are made."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gapwatch.scorers.plan.block import Block
from gapwatch.scorers.plan.claim_outcomes import Observed
from gapwatch.scorers.plan.codes import OUTCOME_OF_CODE
from gapwatch.scorers.plan.row_values import BlockRows
from gapwatch.scorers.slices.columns import FloatArray, IntArray


@dataclass
class BlockResult:
    """Outcomes of one block of n rows and m metrics.

    Attributes:
        block: The block.
        rows: Its rows in the slice's columns.
        values: Values of its rows.
        codes: n x m codes of `gapwatch.scorers.plan.codes`.
        scores: n scores by metric number, NaN for no score; only metrics that have scores.
        labels: n labels by metric number; only metrics that have labels.
        strata: n stratum numbers by metric number; only metrics with strata.
        reasons: Reasons in words by metric number and row of the block, where no code exists for them.
        final: The outcomes, set once the codes no longer change.
    """

    block: Block
    rows: slice
    values: BlockRows
    codes: npt.NDArray[np.uint8]
    scores: dict[int, FloatArray] = field(default_factory=dict)
    labels: dict[int, pa.Array] = field(default_factory=dict)
    strata: dict[int, npt.NDArray[np.uint8]] = field(default_factory=dict)
    reasons: dict[tuple[int, int], str] = field(default_factory=dict)

    final: npt.NDArray[np.uint8] | None = None

    @property
    def outcomes(self) -> npt.NDArray[np.uint8]:
        """Outcome ids, n x m."""
        return self.final if self.final is not None else OUTCOME_OF_CODE.take(self.codes)

    def close(self) -> None:
        """Compute the outcomes for good; the codes must not change afterwards."""
        self.final = OUTCOME_OF_CODE.take(self.codes)

    def read(self, observed: Observed, rows: IntArray) -> pa.Array:
        """Return the values of a field in some rows of the block, as numbers or as texts."""
        return pa.array(observed.read(self.values, rows.tolist()), pa.float64() if observed.is_number else pa.string())
