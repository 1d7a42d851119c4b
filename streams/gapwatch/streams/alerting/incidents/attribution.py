"""Attribution of an alert: releases, models and tiers that hold the excess, values new near the change, examples.

attribute(con, moved)          excess of failing (or undecided) traces, by counts
attribute(con, moved, part)    excess of numbers, by their sum; labels by the traces that carry them
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeVar

import numpy as np

from gapwatch.sinks.reading.cause_query import (
    ChangeSpan,
    counted_cells,
    first_seen,
    label_counts,
    outcome_counts,
    score_sums,
)
from gapwatch.sinks.reading.example_rows import outcome_examples, value_examples
from gapwatch.sinks.reading.noted_events import noted_events
from gapwatch.sinks.store.transaction import Connection
from gapwatch.streams.alerting.incidents.alert_cause import (
    AlertExample,
    Cause,
    CountedShare,
    LabelShare,
    MeanShare,
    NewValue,
    NotedNear,
    QuantileMove,
)
from gapwatch.streams.alerting.rules.finding import Part
from gapwatch.streams.alerting.series.slice_units import SeriesKey
from gapwatch.streams.detectors.arrays import Floats
from gapwatch.streams.detectors.change import excess_shares
from gapwatch.streams.detectors.grid import quantiles_of_cells

_FACETS = ("release", "model", "tier", "stratum")
_EXAMPLES = 5
_PARTS = 5
#: Period before the change that parts are compared with. A longer one would name releases that are long gone.
LOOK_BACK = timedelta(days=7)
# A release, a model or a note this long before the change still counts as near it.
_NEAR = timedelta(minutes=30)
# After this time a lane has seen its usual releases and models. A shorter one names a model that 6 % of traces take.
_SETTLED = timedelta(minutes=5)
# A part with fewer units before the change is compared with all parts together.
_LEAST_BEFORE = 30
# Quantiles to show in the place of one that ties hold where it was.
_OTHER_QUANTILES = (0.5, 0.75, 0.95, 0.25, 0.05)
# Relative difference up to which two quantiles count as equal: two numbers of neighbouring cells.
_TIED = 0.02

ShareT = TypeVar("ShareT", CountedShare, MeanShare)


@dataclass(frozen=True)
class Moved:
    """The units of a series that an alert is about.

    Attributes:
        lane: Lane of the series.
        series: Key of the series.
        is_unknown: The share of undecided units moved, not the share of failing ones.
        grew: The share grew; else it shrank, and examples are passing units.
        since: Begin of the change, naive UTC.
        until: End of the tick at which the change was found, naive UTC.
        share_before: Share of the moved units before the change, 0 to 1.
        promised: Share that a bound allows in the window that begins at `since`; None for a shift. The excess is what
            lies beyond this share, whatever the share was before.
    """

    lane: str
    series: SeriesKey
    is_unknown: bool
    grew: bool
    since: datetime
    until: datetime
    share_before: float
    promised: float | None = None


def attribute(con: Connection, moved: Moved, part: Part | None = None) -> Cause:
    """Return the parts that hold the excess, what was new near the change, and example traces.

    Only ticks and rows up to `moved.until` count, so that the answer does not depend on where slices end.

    Args:
        con: Connection in the transaction that holds the ticks up to now.
        moved: The units that moved.
        part: The part of the numbers or labels that moved; None for rates and bounds.

    Returns:
        The cause, without addresses: `AlertExample.url` and `runbook_url` come from the portfolio.
    """
    statistic = None if part is None else part.statistic
    return Cause(
        shares=_shares(con, moved, part),
        labels=_labels(con, moved) if statistic is None else (),
        new=_new_values(con, moved),
        notes=_notes(con, moved),
        examples=_examples(con, moved, part),
        quantile=None if statistic is None else _quantile_move(con, moved, statistic),
    )


def _span(moved: Moved) -> ChangeSpan:
    """Return the period before and since the change."""
    return ChangeSpan(moved.lane, moved.series, moved.since - LOOK_BACK, moved.since, moved.until)


# ---- shares of the excess ----


def _shares(con: Connection, moved: Moved, part: Part | None) -> Mapping[str, tuple[CountedShare | MeanShare, ...]]:
    """Return by facet the parts with the largest shares of the excess; labels have no shares by facet."""
    if part is None:
        return {facet: counted for facet in _FACETS if (counted := _counted_shares(con, moved, facet))}
    if part.statistic is None:
        return {}
    return {facet: means for facet in _FACETS if (means := _mean_shares(con, moved, facet))}


def _counted_shares(con: Connection, moved: Moved, facet: str) -> tuple[CountedShare, ...]:
    """Return the parts by the excess of their moved units, largest first; empty where the store has one part only."""
    rows = outcome_counts(con, _span(moved), facet, is_unknown=moved.is_unknown)
    if len(rows) < 2:
        return ()
    before, before_moved, after, after_moved = np.array([row[1:] for row in rows]).T
    expected = _expected(before, before_moved, default=moved.share_before)
    if moved.promised is not None:
        expected, before = np.full(len(after), moved.promised), np.zeros_like(before)
    shares = excess_shares(after, after_moved, expected)

    def entry(i: int) -> CountedShare:
        return CountedShare(
            value=rows[i][0],
            share=float(shares[i]),
            units=int(after[i]),
            moved=int(after_moved[i]),
            before_units=int(before[i]),
            before_moved=int(before_moved[i]),
        )

    return _largest(shares, after, entry)


def _mean_shares(con: Connection, moved: Moved, facet: str) -> tuple[MeanShare, ...]:
    """Return the parts by the excess of the sum of their numbers, largest first; empty where there is one part only."""
    rows = score_sums(con, _span(moved), facet)
    if len(rows) < 2:
        return ()
    before, sum_before, after, sum_after = np.array([row[1:] for row in rows]).T
    excess = sum_after - after * _expected(before, sum_before, default=0.0)
    total = float(excess.sum())
    if not total or not np.isfinite(total):
        return ()
    shares = excess / total

    def entry(i: int) -> MeanShare:
        return MeanShare(
            value=rows[i][0],
            share=float(shares[i]),
            units=int(after[i]),
            mean=float(sum_after[i] / after[i]),
            before_units=int(before[i]),
            before_mean=float(sum_before[i] / before[i]) if before[i] else None,
        )

    return _largest(shares, after, entry)


def _expected(units: Floats, sums: Floats, *, default: float) -> Floats:
    """Return the mean of each part before the change; of all parts together where a part has few units."""
    whole = sums.sum() / units.sum() if units.sum() else default
    return np.where(units >= _LEAST_BEFORE, sums / np.maximum(units, 1.0), whole)


def _largest(shares: Floats, units: Floats, entry: Callable[[int], ShareT]) -> tuple[ShareT, ...]:
    """Return the entries of the parts that have units since the change, largest share first."""
    order = np.argsort(-shares, kind="stable").tolist()
    return tuple(entry(i) for i in order if units[i])[:_PARTS]


def _labels(con: Connection, moved: Moved) -> tuple[LabelShare, ...]:
    """Return the labels whose share among the spans moved most; empty for a metric without labels."""
    rows = label_counts(con, _span(moved))
    before, after = sum(row.before for row in rows), sum(row.since for row in rows)
    if not before or not after:
        return ()
    parts = [LabelShare(value, b / before, a / after) for value, b, a in rows]
    return tuple(sorted(parts, key=lambda part: (-abs(part.after - part.before), part.value))[:_PARTS])


# ---- near the change ----


def _new_values(con: Connection, moved: Moved) -> tuple[NewValue, ...]:
    """Return releases and models of the pipeline that were first seen near the change."""
    rows = first_seen(con, moved.lane, moved.series, moved.since, moved.until)
    # All values of a lane that has just begun are new, a rare one minutes later; none of them says anything.
    begun = min((row.at for row in rows), default=moved.until)
    near = [NewValue(*row) for row in rows if row.at >= max(moved.since - _NEAR, begun + _SETTLED)]
    return tuple(near[:_PARTS])


def _notes(con: Connection, moved: Moved) -> tuple[NotedNear, ...]:
    """Return what people noted near the change."""
    noted = noted_events(con, moved.series.pipeline, moved.since - _NEAR, moved.until, _PARTS)
    return tuple(NotedNear(one.at, one.text, one.by) for one in noted)


def _examples(con: Connection, moved: Moved, part: Part | None) -> tuple[AlertExample, ...]:
    """Return the first traces since the change that show what grew; for a bound the last ones of its window.

    Where the part of the values shrank, they are traces outside of it. Only stored rows can be shown.
    """
    lane, series, since, until = moved.lane, moved.series, moved.since, moved.until
    if part is None:
        outcome = "unknown" if moved.is_unknown else "fail" if moved.grew else "pass"
        is_last = moved.promised is not None
        rows = outcome_examples(con, lane, series, outcome, since, until, _EXAMPLES, is_last=is_last)
    else:
        rows = value_examples(con, lane, series, part.as_value_part(inside=moved.grew), since, until, _EXAMPLES)
    return tuple(AlertExample(trace, at, observed, release, None) for trace, at, observed, release in rows)


# ---- quantiles of numbers ----


def _quantile_move(con: Connection, moved: Moved, wanted: float) -> QuantileMove:
    """Return one quantile of the numbers before and since the change, within half a percent.

    It is the wanted one. Where ties hold that one in its place, it is the one that moved most.

    Args:
        con: Connection in the transaction.
        moved: The units that moved.
        wanted: Quantile to prefer, in (0, 1).
    """
    before, after = counted_cells(con, _span(moved))
    found = [QuantileMove(q, _quantile(before, q), _quantile(after, q)) for q in (wanted, *_OTHER_QUANTILES)]
    return found[0] if _relative_move(found[0]) > _TIED else max(found, key=_relative_move)


def _relative_move(quantile: QuantileMove) -> float:
    before, after = quantile.before, quantile.after
    if before is None or after is None or before == after:
        return 0.0
    return abs(after - before) / max(abs(before), abs(after))


def _quantile(cells: dict[int, int], q: float) -> float | None:
    (value,) = quantiles_of_cells(cells, (q,))
    return None if value is None else float(f"{value:.4g}")
