"""Which releases stand out: those whose rate is surely not that of all the others together."""

from __future__ import annotations

import math
from collections.abc import Sequence

from gapwatch.sinks.reading.release_rates import ReleaseRate, differing_releases
from gapwatch.sinks.store.transaction import Connection

#: Units of a release, and of the others, below which a comparison says nothing.
FEWEST_UNITS = 5
#: More are not read by anybody.
MOST_ROWS = 12


def standing_out(con: Connection, pipeline: str, metrics: Sequence[str]) -> list[ReleaseRate]:
    """Compare each release of a pipeline with all its other releases together, metric by metric.

    Two 95 % intervals that do not touch: of 200 comparisons without a difference, about one comes out so.

    Args:
        con: Of a store.
        pipeline: Whose releases.
        metrics: Names of the metrics that are of interest.

    Returns:
        At most `MOST_ROWS`, the strongest release first.
    """
    found = differing_releases(con, pipeline, FEWEST_UNITS)
    rows = sorted((row for row in found if row.metric in metrics), key=lambda row: (-_strength(row), row.metric))
    chosen = rows[:MOST_ROWS]
    order = list(dict.fromkeys(row.release for row in chosen))
    return sorted(chosen, key=lambda row: (order.index(row.release), -_strength(row)))


def _strength(row: ReleaseRate) -> float:
    """Return how far apart two rates are: log odds between the near ends of their intervals."""
    if row.lower > row.other_upper:
        return _log_odds(row.lower) - _log_odds(row.other_upper)
    return _log_odds(row.other_lower) - _log_odds(row.upper)


def _log_odds(share: float) -> float:
    share = min(max(share, 1e-4), 1 - 1e-4)
    return math.log(share / (1 - share))
