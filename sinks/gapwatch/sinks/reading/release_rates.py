"""Failure rates of each release of a pipeline, compared with those of all other releases together."""

from __future__ import annotations

from dataclasses import dataclass

import duckdb

from gapwatch.sinks.catalog.rate_interval import rates_sql


@dataclass(frozen=True)
class ReleaseRate:
    """Failure rate of a metric in one release and in all others.

    Attributes:
        release: Name of the release.
        metric: Name of the metric.
        units: Number of good and bad traces of the release.
        rate: Failure rate of the release, 0 to 1.
        lower: Lower limit of its 95 % confidence interval.
        upper: Upper limit of its 95 % confidence interval.
        other_rate: Failure rate of the other releases together, 0 to 1.
        other_lower: Lower limit of its 95 % confidence interval.
        other_upper: Upper limit of its 95 % confidence interval.
    """

    release: str
    metric: str
    units: int
    rate: float
    lower: float
    upper: float
    other_rate: float
    other_lower: float
    other_upper: float


_RELEASES = "(SELECT * REPLACE ('all' AS facet) FROM ticks WHERE facet = 'release' AND level = 'unit')"
_OTHERS = """(
    SELECT t.* REPLACE ('all' AS facet), r.release AS against
    FROM ticks t JOIN (
        SELECT DISTINCT pipeline, value AS release FROM ticks WHERE facet = 'release' AND level = 'unit'
    ) r ON t.pipeline = r.pipeline AND t.value <> r.release
    WHERE t.facet = 'release' AND t.level = 'unit')"""


def differing_releases(con: duckdb.DuckDBPyConnection, pipeline: str, fewest_units: int) -> list[ReleaseRate]:
    """Return the rates of releases whose confidence interval does not overlap that of all others together.

    Args:
        con: Connection to a store.
        pipeline: Pipeline of the releases.
        fewest_units: Smallest number of units of a release, and of the others, for a comparison.

    Returns:
        The rates, unordered.
    """
    mine = rates_sql("metric, value AS release", "pipeline = $p", _RELEASES)
    others = rates_sql("metric, against AS release", "pipeline = $p", _OTHERS)
    rows = con.execute(
        f"""SELECT m.release, m.metric, m.units, m.rate, m.lower, m.upper,
            o.rate AS other_rate, o.lower AS other_lower, o.upper AS other_upper
        FROM ({mine}) m JOIN ({others}) o USING (metric, release)
        WHERE m.units >= $n AND o.units >= $n AND (m.lower > o.upper OR m.upper < o.lower)""",
        {"p": pipeline, "n": fewest_units},
    ).fetchall()
    return [ReleaseRate(*row) for row in rows]
