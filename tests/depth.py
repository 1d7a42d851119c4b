"""Number of examples that a test tries: all by default, a fifth every day, more on request."""

from __future__ import annotations

import os

#: Times as many examples as the full depth has: `tests/run` sets 0.2, a long search 20.
DEPTH = float(os.environ.get("GAPWATCH_TEST_DEPTH", "1"))


def examples(full: int) -> int:
    """Return how many examples are tried where the full depth has so many; a few are always tried."""
    return max(min(full, 3), round(full * DEPTH))
