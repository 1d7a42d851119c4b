"""Which releases stand out: those whose rate is surely not that of all the others together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import duckdb

from sinks.rate_interval import rates_sql

#: Units of a release, and of the others, below which a comparison says nothing.
FEWEST_UNITS = 5
#: More are not read by anybody.
MOST_ROWS = 12

Row = dict[str, Any]


def standing_out(con: duckdb.DuckDBPyConnection, pipeline: str, metrics: Sequence[str]) -> list[Row]:
    """Compare each release of a pipeline with all its other releases together, metric by metric.

    Two 95 % intervals that do not touch: of 200 comparisons without a difference, about one comes out so.

    Args:
        con: Of a store.
        pipeline: Whose releases.
        metrics: Names of the metrics that are of interest.

    Returns:
        At most `MOST_ROWS` rows, the strongest release first: release, metric, units, rate, lower, upper, other_rate,
        other_lower, other_upper.
    """
    mine = rates_sql("metric, value AS release", "pipeline = $p", _RELEASES)
    others = rates_sql("metric, against AS release", "pipeline = $p", _OTHERS)
    result = con.execute(
        f"""SELECT m.*, o.rate AS other_rate, o.lower AS other_lower, o.upper AS other_upper
        FROM ({mine}) m JOIN ({others}) o USING (metric, release)
        WHERE m.units >= {FEWEST_UNITS} AND o.units >= {FEWEST_UNITS} AND (m.lower > o.upper OR m.upper < o.lower)""",
        {"p": pipeline},
    )
    names = [column[0] for column in result.description]
    rows = [dict(zip(names, row, strict=True)) for row in result.fetchall()]
    rows = sorted((row for row in rows if row["metric"] in metrics), key=lambda row: (-_strength(row), row["metric"]))
    chosen = rows[:MOST_ROWS]
    order = list(dict.fromkeys(row["release"] for row in chosen))
    return sorted(chosen, key=lambda row: (order.index(row["release"]), -_strength(row)))


_RELEASES = "(SELECT * REPLACE ('all' AS facet) FROM ticks WHERE facet = 'release' AND level = 'unit')"
_OTHERS = """(
    SELECT t.* REPLACE ('all' AS facet), r.release AS against
    FROM ticks t JOIN (
        SELECT DISTINCT pipeline, value AS release FROM ticks WHERE facet = 'release' AND level = 'unit'
    ) r ON t.pipeline = r.pipeline AND t.value <> r.release
    WHERE t.facet = 'release' AND t.level = 'unit')"""


def _strength(row: Row) -> float:
    """Return how far apart two rates are: log odds between the near ends of their intervals."""
    if row["lower"] > row["other_upper"]:
        return _log_odds(row["lower"]) - _log_odds(row["other_upper"])
    return _log_odds(row["other_lower"]) - _log_odds(row["upper"])


def _log_odds(share: float) -> float:
    share = min(max(share, 1e-4), 1 - 1e-4)
    return math.log(share / (1 - share))
