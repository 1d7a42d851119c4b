"""`FoldedSlice`: a slice that the watch has folded, ready to be stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gapwatch.scorers.slices.slices import ScoredSlice
from gapwatch.sinks.store.transaction import Step


@dataclass(frozen=True)
class FoldedSlice:
    """Folded slice, for `Store.write_slice`.

    Attributes:
        scored: Slice with the fold tick of each row.
        steps: Steps for `also`: alerts, partitions that event time waited for, every five minutes the
            state. Often empty.
        opened: Number of alerts that this slice opened.
    """

    scored: ScoredSlice
    steps: Sequence[tuple[str, Step]]
    opened: int
