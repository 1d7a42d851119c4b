"""After each tick: which series changed their phase, what is known of the change, and what it does to the baseline."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from gapwatch.streams.detectors.arrays import Floats, Ints, add_up
from gapwatch.streams.detectors.change import Change, Interval, find_change, leading_evidence, rate_interval
from gapwatch.streams.detectors.contexts import HOURS, TICKS_A_DAY
from gapwatch.streams.detectors.evidence import mean_evidence
from gapwatch.streams.detectors.fleet import Fleet
from gapwatch.streams.detectors.lifecycle import Event, Evidence, Phase, advance, event_of, is_carried

_TICKS_TO_A_QUESTION = 7 * TICKS_A_DAY
# A change that cannot be told from before, with this many times the units from before, is none.
_MANY = 0.5


@dataclass(frozen=True)
class Transition:
    """One step in the life of an alert.

    Attributes:
        row: The series.
        bucket: The tick that brought it.
        event: What happened.
        evidence_log10: log10 of the M that decided.
        change: Since when and how the series moved; None for events that name no change.
    """

    row: int
    bucket: int
    event: Event
    evidence_log10: float
    change: Change | None = None


@dataclass(frozen=True)
class Sides:
    """M of each series, by the way that is bad.

    Attributes:
        bad: Of the bets towards bad; of all bets where no direction is verified.
        good: Of the bets towards good; 0 where none is verified.
        bad_beyond_margin: As `bad`, with the paging margin; 0 where no direction is verified.
    """

    bad: Floats
    good: Floats
    bad_beyond_margin: Floats


def evidence_by_side(fleet: Fleet) -> Sides:
    """Return M of each series towards bad and good.

    Source, promise: `evidence.mean_evidence`. M towards bad alone decides over tickets and pages of a verified series,
    so a pure improvement spends nothing and pages nobody.
    """
    s, table = fleet.state, fleet.config.table
    bad_side = s["bad_side"]
    up, down = mean_evidence(table, s["evidence"], 1), mean_evidence(table, s["evidence"], -1)
    everything = mean_evidence(table, s["evidence"], None) if np.any(bad_side == 0) else up
    bad = np.where(bad_side > 0, up, np.where(bad_side < 0, down, everything))
    good = np.where(bad_side > 0, down, np.where(bad_side < 0, up, 0.0))
    if not fleet.config.page_margin:
        return Sides(bad, good, np.zeros_like(bad))
    up, down = mean_evidence(table, s["margin_evidence"], 1), mean_evidence(table, s["margin_evidence"], -1)
    return Sides(bad, good, np.where(bad_side > 0, up, np.where(bad_side < 0, down, 0.0)))


def advance_phases(fleet: Fleet, bucket: int) -> list[Transition]:
    """Move every series to its next phase, after all units of a tick are folded.

    Args:
        fleet: The fleet; baselines of series that fire are rolled back to the change point and stand still.
        bucket: Number of the tick.

    Returns:
        What changed, by row. An improvement resets the good side's evidence, so that it is reported once for each
        time that it is found anew; the baseline learns it.

    Promise: at most one open alert a series. Expected tickets and pages without cause stay within the budget of
    `budget.threshold`; see `Fleet.fold` for when not.
    """
    s = fleet.state
    sides = evidence_by_side(fleet)
    phase = s["phase"].copy()
    with np.errstate(over="ignore"):
        recovery = add_up(s["recovery"] / len(s["recovery"]))
    risen = _risen_units(fleet, 1)
    likely = (sides.bad_beyond_margin >= s["page_threshold"]) & (phase < Phase.PAGE)
    likely &= is_carried(sides.bad_beyond_margin, risen) | (phase == Phase.TICKET)
    changes: dict[int, Change] = {}
    large = np.zeros(len(phase), np.bool_)
    for row in np.flatnonzero(likely).tolist():
        large[row] = _is_large(fleet, row, bucket, changes)
    limits = (s["ticket_threshold"], s["page_threshold"])
    found = advance(phase, Evidence(sides.bad, sides.bad_beyond_margin, *limits, large, recovery, risen))
    for row in np.flatnonzero((found >= Phase.TICKET) & (phase < Phase.TICKET)).tolist():
        if not _has_significant_change(fleet, row, changes):
            found[row] = min(phase[row], Phase.SUSPECT)
    seen, transitions = _Seen(sides, recovery, changes), []
    for row in np.flatnonzero(found != phase).tolist():
        transitions.append(_move(fleet, row, bucket, (int(phase[row]), int(found[row])), seen))
    # One that recovers in this tick starts from nothing: its evidence of being better is gone with its ring.
    improved = (sides.good >= s["ticket_threshold"]) & (found < Phase.TICKET) & (phase < Phase.TICKET)
    improved &= is_carried(sides.good, _risen_units(fleet, -1))
    for row in np.flatnonzero(improved).tolist():
        side = -int(s["bad_side"][row])
        change = find_change(fleet, row, side) if fleet.config.ring_buckets else None
        is_significant = change is None or change.is_significant
        if is_significant:
            transitions.append(Transition(row, bucket, Event.IMPROVED, _log10(sides.good[row]), change))
        if is_significant or (change and change.units >= _MANY * change.learned):
            _reset_side(fleet, row, side)
    waiting = (
        (s["fired_bucket"] > 0) & ~s["asked"] & (bucket - s["fired_bucket"].astype(np.int64) >= _TICKS_TO_A_QUESTION)
    )
    for row in np.flatnonzero(waiting).tolist():
        s["asked"][row] = True
        transitions.append(Transition(row, bucket, Event.ASKED, _log10(sides.bad[row])))
    return sorted(transitions, key=lambda t: (t.row, t.event.value))


def _log10(value: float) -> float:
    return math.log10(value) if value > 0.0 else -math.inf


def _side(fleet: Fleet, row: int) -> int | None:
    return int(fleet.state["bad_side"][row]) or None


def _risen_units(fleet: Fleet, way: int) -> Floats:
    """Units since the leading bet of the bad side (1) or the good side (-1) began to rise."""
    s, table = fleet.state, fleet.config.table
    counts = (table.sides[:, None] == way * s["bad_side"]) | (s["bad_side"] == 0)
    leading = np.where(counts, leading_evidence(fleet), -1.0).argmax(axis=0)
    result: Floats = s["rise_units"][leading, np.arange(fleet.series)].astype(np.float64)
    return result


def _has_significant_change(fleet: Fleet, row: int, changes: dict[int, Change]) -> bool:
    """Whether a series that reached its threshold has a change to show.

    A young change may need some more units. One that has had many and still cannot be told from what was before is
    none: the evidence starts anew. To drop such an alarm keeps the promise, it only alarms less.
    """
    if not fleet.config.ring_buckets:
        return True
    if row not in changes:
        changes[row] = find_change(fleet, row, _side(fleet, row))
    change = changes[row]
    if not change.is_significant and change.units >= _MANY * change.learned:
        _reset_side(fleet, row, None)
    return change.is_significant


def _is_large(fleet: Fleet, row: int, bucket: int, changes: dict[int, Change]) -> bool:
    """Whether a change is large enough to page, by the bound of the interval and not by the point."""
    s = fleet.state
    if s["fired_bucket"][row]:
        interval, excess = ongoing_size(fleet, row, bucket)
        lower = interval.lower
    elif fleet.config.ring_buckets:
        changes[row] = find_change(fleet, row, _side(fleet, row))
        lower, excess = changes[row].growth_lower, changes[row].bad_per_hour
    else:
        return True
    return bool(lower >= s["min_ratio"][row] and excess >= s["min_bad_per_hour"][row])


def ongoing_size(fleet: Fleet, row: int, bucket: int) -> tuple[Interval, float]:
    """Return the growth and the excess an hour of an open alert, from units after the alarm only.

    The growth is after / before of the side that grew, as `Change.growth_lower`. These units did not choose the moment
    of the alarm, so the estimate is not biased by it; the interval is that of `change.rate_interval`, over the
    baseline's expected share.
    """
    s, table = fleet.state, fleet.config.table
    cause = int(s["cause"][row])
    moved_bins = table.shapes[table.shape_of[cause]].moved_bins
    bins = [b for b in range(table.bins) if (b in moved_bins) == bool(table.deltas[cause] > 0)]
    whole = fleet.learned(row)
    expected = float(whole[bins].sum() / whole.sum())
    units, moved = float(s["after"][:, row].sum()), float(s["after"][bins, row].sum())
    after = rate_interval(moved, units)
    hours = max(bucket - int(s["fired_bucket"][row]), 1) / 120.0
    scale = 1.0 / expected if expected > 0.0 else math.inf
    return Interval(after.value * scale, after.lower * scale, after.upper * scale), (moved - expected * units) / hours


@dataclass(frozen=True)
class _Seen:
    """What one look at a fleet has found.

    Attributes:
        sides, recovery: Evidence of a shift by side, and of its end.
        changes: Change points that are computed already, by row.
    """

    sides: Sides
    recovery: Floats
    changes: Mapping[int, Change]


def _move(fleet: Fleet, row: int, bucket: int, phases: tuple[int, int], seen: _Seen) -> Transition:
    """Move a series from the first phase to the second."""
    s, sides, (before, after) = fleet.state, seen.sides, phases
    s["phase"][row] = after
    event = event_of(before, after)
    assert event is not None
    change = None
    decided = sides.bad_beyond_margin[row] if event is Event.PAGED else sides.bad[row]
    if event in (Event.TICKETED, Event.PAGED) and before < Phase.TICKET:
        if fleet.config.ring_buckets:
            change = seen.changes.get(row) or find_change(fleet, row, _side(fleet, row))
            roll_back(fleet, row, change.change_bucket)
        s["cause"][row] = change.bet if change else _leading_bet(fleet, row)
        s["change_bucket"][row] = change.change_bucket if change else bucket
        s["fired_bucket"][row] = bucket
    elif event is Event.RECOVERED:
        decided = seen.recovery[row]
        close(fleet, row)
    return Transition(row, bucket, event, _log10(decided), change)


def _leading_bet(fleet: Fleet, row: int) -> int:
    side = _side(fleet, row)
    bets = [c for c in range(fleet.config.table.count) if side is None or fleet.config.table.sides[c] == side]
    return max(bets, key=lambda c: (fleet.state["evidence"][c, row], -c))


def _reset_side(fleet: Fleet, row: int, side: int | None) -> None:
    chosen = (fleet.config.table.sides == side) | (side is None)
    for name in ("evidence", "rise", "rise_units", "margin_evidence"):
        if len(fleet.state[name]):
            fleet.state[name][chosen, row] = 0.0
    fleet.state["rise_bucket"][chosen, row] = fleet.state["last_bucket"][row]


def roll_back(fleet: Fleet, row: int, change_bucket: int) -> None:
    """Take all units since the change point out of the baseline: an incident never becomes the norm.

    Buckets older than the ring's single ones are taken out by the hour. What lies before the ring stays in.
    """
    for entry in fleet.ring.entries(row):
        if entry.last >= change_bucket:
            fleet.baseline.take(row, *divmod(entry.context, HOURS), entry.counts)


def close(fleet: Fleet, row: int) -> None:
    """End an open alert: evidence starts from nothing, the baseline of before the change learns again."""
    s = fleet.state
    for name in ("evidence", "margin_evidence", "rise", "rise_units", "recovery", "after"):
        s[name][:, row] = 0.0
    s["rise_bucket"][:, row] = s["last_bucket"][row]
    if s["fired_bucket"][row]:
        # The ring holds units that the baseline has not: nothing may be taken out that was never put in.
        fleet.ring.clear(row)
    for name in ("fired_bucket", "change_bucket", "day_units", "day_sum"):
        s[name][row] = 0
    s["phase"][row], s["cause"][row], s["asked"][row] = Phase.CALM, -1, False


def accept(fleet: Fleet, row: int, bucket: int) -> Transition:
    """Make what came since the change point the new baseline: a person says that this is normal now.

    Args:
        fleet: The fleet.
        row: A series whose alert is open.
        bucket: The tick at which it was said; part of the order of folds, so that a refold gives the same.

    Raises:
        ValueError: no alert is open.

    Promise: from here on as for a fresh series with that burn-in, as far back as the ring reaches (about 10 days with
    the default). Bins of numbers keep their edges, with a prior of 1/2 each.
    """
    s = fleet.state
    if not s["fired_bucket"][row]:
        raise ValueError(f"series {row} has no open alert to accept; accept only what was found")
    since = int(s["change_bucket"][row])
    fleet.baseline.reset(row)
    for entry in fleet.ring.entries(row):
        if entry.first >= since:
            stratum, hour = divmod(entry.context, HOURS)
            fleet.baseline.add(np.array([row]), stratum, hour, entry.counts[:, None])
    sessions = s["pooled"][:, :, row].sum(axis=0)
    if fleet.config.sessions:
        # The squares of these sessions are gone; a 0/1 outcome has the largest variance that their mean allows.
        s["squares"][row] = sessions[1]
    for name in ("days", "days_mean", "days_squares", "days_noise"):
        s[name][row] = 0
    s["margin"][row] = fleet.config.first_margin
    close(fleet, row)
    return Transition(row, bucket, Event.ACCEPTED, -math.inf)


def turn(fleet: Fleet, rows: Ints, bad_side: int) -> None:
    """Set which way is bad: 1 up, -1 down, 0 unverified. Evidence starts anew, what was learned stays.

    An open alert is closed: its severity followed from the old direction.
    """
    for row in rows.tolist():
        if fleet.state["bad_side"][row] != bad_side:
            close(fleet, row)
    fleet.state["bad_side"][rows] = bad_side
