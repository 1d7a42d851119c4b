"""What an alert says of its cause: which releases, models and tiers hold the excess, what was new, which traces."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from gapwatch.sinks.reading.cause_query import ChangeSpan, first_seen, label_counts, outcome_counts
from gapwatch.sinks.reading.example_rows import outcome_examples
from gapwatch.sinks.reading.noted_events import noted_events
from gapwatch.sinks.store.transaction import Connection
from gapwatch.sinks.store.utc_text import utc_text
from gapwatch.streams.alerting.series.slice_units import SeriesKey
from gapwatch.streams.detectors.change import excess_shares
from gapwatch.streams.detectors.contexts import TICK_SECONDS

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


def span_of(moved: Moved) -> ChangeSpan:
    """Return the ticks of a series before and since its change."""
    return ChangeSpan(moved.lane, moved.series, moved.since - LOOK_BACK, moved.since, moved.until)


def _shares(con: Connection, moved: Moved, facet: str) -> list[dict[str, Any]]:
    """Return the parts with the largest share of the excess, largest first; none where there is one part only."""
    rows = outcome_counts(con, span_of(moved), facet, is_unknown=moved.is_unknown)
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
    rows = label_counts(con, span_of(moved))
    before, after = sum(row.before for row in rows), sum(row.since for row in rows)
    if not before or not after:
        return []
    parts: list[dict[str, Any]] = [{"value": value, "before": b / before, "after": a / after} for value, b, a in rows]
    return sorted(parts, key=lambda part: (-abs(part["after"] - part["before"]), part["value"]))[:PARTS]


def new_values(con: Connection, moved: Moved) -> list[dict[str, Any]]:
    """Return releases and models of the pipeline that were seen for the first time near the change."""
    rows = first_seen(con, moved.lane, moved.series, moved.since, moved.until)
    begun = min((row.at for row in rows), default=moved.until)
    return [
        {"facet": facet, "value": value, "at": utc_text(at)}
        for facet, value, at in rows
        if at >= moved.since - _NEAR and at > begun
    ][:PARTS]


def noted_near(con: Connection, moved: Moved) -> list[dict[str, Any]]:
    """Return what was noted near the change."""
    noted = noted_events(con, moved.series.pipeline, moved.since - _NEAR, moved.until, PARTS)
    return [{"at": utc_text(one.at), "text": one.text, "by": one.by} for one in noted]


def _examples(con: Connection, moved: Moved) -> list[dict[str, Any]]:
    """Return the first traces since the change that are of the kind that grew; the last ones of a bound's window."""
    outcome = "unknown" if moved.is_unknown else "fail" if moved.grew else "pass"
    is_last = moved.promised is not None
    rows = outcome_examples(con, moved.lane, moved.series, outcome, moved.since, moved.until, EXAMPLES, is_last=is_last)
    return [
        {"trace_id": trace, "at": utc_text(at), "observed": observed, "release": release}
        for trace, at, observed, release in rows
    ]
