"""Options of thinning; in a file of their own, so that a command can import them quickly."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ThinningOptions:
    """Bound on stored rows.

    Attributes:
        window: Offsets of one partition in a window. Smaller windows react sooner and cut slices more often.
        rows: Expected most rows of one metric and outcome in a window; 0: no bound.
    """

    window: int = 16_384
    rows: int = 1_024
