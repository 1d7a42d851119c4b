"""Finds releases whose failure rate differs from that of all other releases together."""

from __future__ import annotations

import math
from collections.abc import Sequence

from gapwatch.sinks.reading.release_rates import ReleaseRate, differing_releases
from gapwatch.sinks.store.transaction import Connection

#: Fewest traces of a release, and of the others, for a comparison.
FEWEST_UNITS = 5
#: Most lines of the report.
MOST_ROWS = 12


def standing_out(con: Connection, pipeline: str, metrics: Sequence[str]) -> list[ReleaseRate]:
    """Compare each release of a pipeline with all its other releases together, metric by metric.

    A release differs if the two 95 % confidence intervals do not overlap. Of 200 comparisons without a real
    difference, about one is reported.

    Args:
        con: Connection to a store.
        pipeline: Pipeline of the releases.
        metrics: Names of the metrics to compare.

    Returns:
        At most `MOST_ROWS` differences, the strongest release first.
    """
    found = differing_releases(con, pipeline, FEWEST_UNITS)
    rows = sorted((row for row in found if row.metric in metrics), key=lambda row: (-_strength(row), row.metric))
    chosen = rows[:MOST_ROWS]
    order = list(dict.fromkeys(row.release for row in chosen))
    return sorted(chosen, key=lambda row: (order.index(row.release), -_strength(row)))


def _strength(row: ReleaseRate) -> float:
    """Return the distance of two rates: difference in log odds between the near ends of their intervals."""
    if row.lower > row.other_upper:
        return _log_odds(row.lower) - _log_odds(row.other_upper)
    return _log_odds(row.other_lower) - _log_odds(row.upper)


def _log_odds(share: float) -> float:
    share = min(max(share, 1e-4), 1 - 1e-4)
    return math.log(share / (1 - share))
