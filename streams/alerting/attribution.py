"""What an alert says of its cause: which releases, models and tiers hold the excess, what was new, which traces."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from sinks.keeping import Connection
from streams.alerting.slice_units import SeriesKey
from streams.detectors.change import excess_shares
from streams.detectors.contexts import TICK_SECONDS

FACETS = ("release", "model", "tier", "stratum")
EXAMPLES = 5
PARTS = 5
# What was before is looked up this far back; further, releases that are long gone would be named.
LOOK_BACK = timedelta(days=7)
_NEAR = timedelta(minutes=30)
# With fewer units of its own before the change a part is held against the whole.
LEAST_BEFORE = 30


@dataclass(frozen=True)
class Moved:
    """Which units are asked for.

    Attributes:
        lane: Of the series.
        series: Its key.
        is_unknown: The share of unknown moved, not the failures.
        grew: The share grew; else it shrank, and the good ones are looked for.
        since: Begin of the change, naive UTC.
        until: End of the tick at which it was found.
        share_before: Share of the moved units before.
        promised: Share that a bound allows in the window that begins with `since`; None for a shift. The excess is what
            lies beyond it, whatever was before.
    """

    lane: str
    series: SeriesKey
    is_unknown: bool
    grew: bool
    since: datetime
    until: datetime
    share_before: float
    promised: float | None = None


def tick_start(tick: int) -> datetime:
    """Return the begin of a tick, naive UTC."""
    return datetime.fromtimestamp(tick * TICK_SECONDS, UTC).replace(tzinfo=None)


def attribute(con: Connection, moved: Moved) -> dict[str, Any]:
    """Return where the excess lies, what was new near the change, and example traces.

    Args:
        con: In the transaction that holds the ticks up to now.
        moved: What moved.

    Only ticks and rows up to `until` count, so that the answer does not depend on where slices end.
    """
    return {
        "shares": {facet: parts for facet in FACETS if (parts := _shares(con, moved, facet))},
        "labels": labels(con, moved),
        "new": new_values(con, moved),
        "annotations": noted_near(con, moved),
        "examples": _examples(con, moved),
    }


def of_series(moved: Moved) -> tuple[str, list[Any]]:
    """Return the condition that holds for the rows of a series whatever its epoch, and its values."""
    key = moved.series
    columns = ("pipeline", "environment", "component", "metric", "metric_version", "judge")
    values = [getattr(key, name) for name in columns]
    conditions = [f"coalesce({name}, '') = ?" for name in columns]
    return " AND ".join(["lane = ?", *conditions]), [moved.lane, *values]


def _shares(con: Connection, moved: Moved, facet: str) -> list[dict[str, Any]]:
    """Return the parts with the largest share of the excess, largest first; none where there is one part only."""
    where, values = of_series(moved)
    # Releases are counted in units; a trace may hold several models and tiers, which are counted in spans.
    level = "unit" if facet == "release" else "span"
    moved_outcomes = ("unknown",) if moved.is_unknown else ("bad", "fail")
    known = "true" if moved.is_unknown else "outcome NOT IN ('unknown', 'skip', 'error')"
    wanted = f"outcome IN ({', '.join(repr(o) for o in moved_outcomes)})"
    rows = con.execute(
        f"""SELECT coalesce(value, ''),
            coalesce(sum(n) FILTER (fold_bucket < ?), 0)::DOUBLE,
            coalesce(sum(n) FILTER (fold_bucket < ? AND {wanted}), 0)::DOUBLE,
            coalesce(sum(n) FILTER (fold_bucket >= ?), 0)::DOUBLE,
            coalesce(sum(n) FILTER (fold_bucket >= ? AND {wanted}), 0)::DOUBLE
        FROM ticks WHERE {where} AND epoch = ? AND level = ? AND facet = ? AND {known}
            AND fold_bucket >= ? AND fold_bucket < ?
        GROUP BY ALL ORDER BY 1""",
        [
            *[moved.since] * 4, *values, moved.series.epoch, level, facet, moved.since - LOOK_BACK, moved.until,
        ],
    ).fetchall()  # fmt: skip
    if not rows:
        return []
    table = np.array([row[1:] for row in rows])
    before, before_moved, after, after_moved = table.T
    whole = before_moved.sum() / before.sum() if before.sum() else moved.share_before
    expected = np.where(before >= LEAST_BEFORE, before_moved / np.maximum(before, 1.0), whole)
    if moved.promised is not None:
        expected, before = np.full(len(after), moved.promised), np.zeros_like(before)
    shares = excess_shares(after, after_moved, expected)
    parts = [
        {
            "value": rows[i][0],
            "share": float(shares[i]),
            "units": int(after[i]),
            "moved": int(after_moved[i]),
            "before_units": int(before[i]),
            "before_moved": int(before_moved[i]),
        }
        for i in np.argsort(-shares, kind="stable").tolist()
        if after[i]
    ]
    return parts[:PARTS]


def labels(con: Connection, moved: Moved) -> list[dict[str, Any]]:
    """Return the labels whose share among the spans moved most, and how; none for what is no label."""
    where, values = of_series(moved)
    rows = con.execute(
        f"""SELECT value, coalesce(sum(n) FILTER (fold_bucket < ?), 0)::DOUBLE,
            coalesce(sum(n) FILTER (fold_bucket >= ?), 0)::DOUBLE
        FROM ticks WHERE {where} AND epoch = ? AND level = 'span' AND facet = 'label' AND value IS NOT NULL
            AND fold_bucket >= ? AND fold_bucket < ?
        GROUP BY ALL ORDER BY 1""",
        [*[moved.since] * 2, *values, moved.series.epoch, moved.since - LOOK_BACK, moved.until],
    ).fetchall()
    before, after = (sum(row[i] for row in rows) for i in (1, 2))
    if not before or not after:
        return []
    parts = [{"value": value, "before": b / before, "after": a / after} for value, b, a in rows]
    return sorted(parts, key=lambda part: (-abs(part["after"] - part["before"]), part["value"]))[:PARTS]


def new_values(con: Connection, moved: Moved) -> list[dict[str, Any]]:
    """Return releases and models of the pipeline that were seen for the first time near the change."""
    rows = con.execute(
        """SELECT facet, value, min(fold_bucket) AS first_seen FROM ticks
        WHERE lane = ? AND pipeline = ? AND environment = ? AND facet IN ('release', 'model') AND value IS NOT NULL
            AND fold_bucket < ?
        GROUP BY ALL ORDER BY abs(epoch(min(fold_bucket)) - epoch(?::TIMESTAMP)), 1 DESC, 2""",
        [moved.lane, moved.series.pipeline, moved.series.environment, moved.until, moved.since],
    ).fetchall()
    begun = min((row[2] for row in rows), default=None)
    return [
        {"facet": facet, "value": value, "at": at.isoformat() + "Z"}
        for facet, value, at in rows
        if at >= moved.since - _NEAR and at > begun
    ][:PARTS]


def noted_near(con: Connection, moved: Moved) -> list[dict[str, Any]]:
    """Return what was noted near the change."""
    rows = con.execute(
        """SELECT "at", "text", "by" FROM annotations WHERE (pipeline = ? OR pipeline IS NULL)
            AND "at" >= ? AND "at" < ? ORDER BY "at", "text" LIMIT ?""",
        [moved.series.pipeline, moved.since - _NEAR, moved.until, PARTS],
    ).fetchall()
    return [{"at": at.isoformat() + "Z", "text": text, "by": by} for at, text, by in rows]


def _examples(con: Connection, moved: Moved) -> list[dict[str, Any]]:
    """Return the first traces since the change that are of the kind that grew; the last ones of a bound's window."""
    where, values = of_series(moved)
    outcome = "unknown" if moved.is_unknown else "fail" if moved.grew else "pass"
    rows = con.execute(
        f"""SELECT trace_id, min(event_at) AS at, arg_min(coalesce(observed, reason), (event_at, span_index)),
            arg_min("release", event_at)
        FROM gaps WHERE {where} AND outcome = ? AND event_at >= ? AND event_at < ?
        GROUP BY trace_id ORDER BY 2 {"DESC" if moved.promised is not None else ""}, 1 LIMIT ?""",
        [*values, outcome, moved.since, moved.until, EXAMPLES],
    ).fetchall()
    return [
        {"trace_id": trace, "at": at.isoformat() + "Z", "observed": observed, "release": release}
        for trace, at, observed, release in rows
    ]
