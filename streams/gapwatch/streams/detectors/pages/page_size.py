"""Size of a change that pages: its growth beyond the smallest of a page, and beyond what days take by themselves."""

from __future__ import annotations

from gapwatch.streams.detectors.change import Change, rate_interval
from gapwatch.streams.detectors.change_point import day_before
from gapwatch.streams.detectors.contexts import TICKS_AN_HOUR
from gapwatch.streams.detectors.fleet import Fleet
from gapwatch.streams.detectors.margins.min_change import gap_of
from gapwatch.streams.detectors.pages.page_growth import growth_of, least_tilt


def is_large(fleet: Fleet, row: int, bucket: int, change: Change | None) -> bool:
    """Return True where a change is large enough to page, by the lower bound of its interval.

    It must exceed the smallest growth of a page, and the growth that days of the series take by themselves.

    Args:
        fleet: The fleet.
        row: Row of the series.
        bucket: Number of the tick.
        change: Change of a series without an open alert; None for a fleet without a ring.
    """
    s, table = fleet.state, fleet.config.table
    if s["fired_bucket"][row]:
        bet, began, changed = int(s["cause"][row]), int(s["fired_bucket"][row]), int(s["change_bucket"][row])
        lower, excess, before = _ongoing_size(fleet, row, bucket)
        earlier = (float(s["day_before"][0, row]), float(s["day_before"][1, row]))
    elif change is not None:
        lower, excess, bet, began = change.growth_lower, change.bad_per_hour, change.bet, change.change_bucket
        before = change.before.value if table.deltas[bet] > 0.0 else 1.0 - change.before.value
        earlier, changed = (0.0, 0.0), began
    else:
        return True
    if lower < s["min_ratio"][row] or excess < s["min_bad_per_hour"][row]:
        return False
    if change is not None and not s["fired_bucket"][row]:
        earlier = day_before(fleet, row, changed)
    tilt = least_tilt(s, row, (changed, began, bucket), 0 if table.deltas[bet] > 0.0 else 1, earlier)
    shape = table.shapes[table.shape_of[bet]]
    return bool(lower >= growth_of(before, tilt * gap_of(shape, fleet.learned(row))))


def _ongoing_size(fleet: Fleet, row: int, bucket: int) -> tuple[float, float, float]:
    """Return the lower bound of the growth of an open alert, its excess an hour, and the share that is expected.

    The growth is after / before of the side that grew, as `Change.growth_lower`, of the units after the alarm. They did
    not trigger it, so the estimate is not biased by it; the interval is that of `change.rate_interval`, over the
    share that the baseline expects in their hours.
    """
    s, table = fleet.state, fleet.config.table
    cause = int(s["cause"][row])
    moved_bins = table.shapes[table.shape_of[cause]].moved_bins
    bins = [b for b in range(table.bins) if (b in moved_bins) == bool(table.deltas[cause] > 0)]
    units, moved = float(s["after"][:, row].sum()), float(s["after"][bins, row].sum())
    expected = float(s["after_expected"][row])
    share = expected / units if units > 0.0 else 0.0
    hours = max(bucket - int(s["fired_bucket"][row]), 1) / TICKS_AN_HOUR
    lower = rate_interval(moved, units).lower / share if share > 0.0 else 0.0
    return lower, (moved - expected) / hours, share
