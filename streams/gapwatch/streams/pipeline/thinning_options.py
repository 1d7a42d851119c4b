"""How rows are bounded: options of a command, and therefore light to import."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ThinningOptions:
    """How rows are bounded.

    Attributes:
        window: Offsets of one partition between two decisions. Fewer react sooner and cut slices more often.
        rows: Most rows of one metric and outcome in a window, in expectation; 0: no bound.
    """

    window: int = 16_384
    rows: int = 1_024
