"""Advances the phases of a fleet after each tick: transitions, change points, rollback, recovery, decisions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from gapwatch.streams.detectors.arrays import Array, Floats, Ints, add_up
from gapwatch.streams.detectors.change import Change, find_change, leading_evidence, rate_interval
from gapwatch.streams.detectors.change_point import day_before
from gapwatch.streams.detectors.contexts import HOURS, TICKS_A_DAY
from gapwatch.streams.detectors.evidence import mean_evidence
from gapwatch.streams.detectors.fleet import Fleet
from gapwatch.streams.detectors.learning.held_back import LONGEST_HOLD, hold, release, roll_back
from gapwatch.streams.detectors.lifecycle import (
    LEAST_PER_UNIT,
    Event,
    Evidence,
    Phase,
    advance,
    event_of,
    is_carried,
)
from gapwatch.streams.detectors.margins.daily_noise import forget_today, start_noise
from gapwatch.streams.detectors.pages.page_size import is_large
from gapwatch.streams.detectors.recovery import STILL_MOVED, still_moved

_TICKS_TO_A_QUESTION = 7 * TICKS_A_DAY
# A change that is not significant after this share of the units before it counts as no change.
_MANY = 0.5


# A change that is seen and not told: not yet said, and said.
_SEEN, _SAID = 1, 2


@dataclass(frozen=True)
class Transition:
    """One step in the life of an alert.

    Attributes:
        row: Row of the series.
        bucket: Tick of the transition.
        event: Kind of the transition.
        evidence_log10: log10 of the M that decided; -inf for a decision of a person.
        change: Change of the series; None for events that name no change.
    """

    row: int
    bucket: int
    event: Event
    evidence_log10: float
    change: Change | None = None


@dataclass(frozen=True)
class Sides:
    """Evidence M of each series, by bad and good direction.

    Attributes:
        seen: M of any change in the bad direction, however small; of all bets where no direction is verified.
        bad: M of a change that is worth telling: the smaller of `seen` and the M beyond the margins.
        good: As `bad`, in the good direction; 0 where no direction is verified.
    """

    seen: Floats
    bad: Floats
    good: Floats


def evidence_by_side(fleet: Fleet) -> Sides:
    """Return M of each series in the bad and in the good direction.

    Source, promise: `evidence.mean_evidence`. Each M is an e-detector, of no change and of no change beyond the
    margins; so is the smaller of both, of the two together. Only M in the bad direction decides on tickets and pages of
    a verified series, so a pure improvement spends no budget and pages nobody.
    """
    s = fleet.state
    seen, good = _by_side(fleet, s["evidence"])
    if not fleet.config.margins:
        return Sides(seen, seen, good)
    bad_beyond, good_beyond = _by_side(fleet, s["margin_evidence"])
    return Sides(seen, np.minimum(seen, bad_beyond), np.minimum(good, good_beyond))


def _by_side(fleet: Fleet, evidence: Array) -> tuple[Floats, Floats]:
    """Return M in the bad and in the good direction."""
    table, bad_side = fleet.config.table, fleet.state["bad_side"]
    up, down = mean_evidence(table, evidence, 1), mean_evidence(table, evidence, -1)
    everything = mean_evidence(table, evidence, None) if np.any(bad_side == 0) else up
    bad = np.where(bad_side > 0, up, np.where(bad_side < 0, down, everything))
    return bad, np.where(bad_side > 0, down, np.where(bad_side < 0, up, 0.0))


def advance_phases(fleet: Fleet, bucket: int) -> list[Transition]:
    """Move every series to its next phase, after all units of a tick are folded.

    Args:
        fleet: The fleet; baselines of series that start to fire are rolled back to the change point and frozen.
        bucket: Number of the tick.

    Returns:
        Transitions, by row. An improvement resets the evidence of the good direction, so it is reported once each time
        that it is found; the baseline learns it.

    Promise: at most one open alert a series. The expected false tickets and pages stay within the budget of
    `budget.threshold`; see `Fleet.fold` for the exceptions.
    """
    s = fleet.state
    sides = evidence_by_side(fleet)
    _learn_sizes(fleet)
    phase = s["phase"].copy()
    with np.errstate(over="ignore"):
        recovery = add_up(s["recovery"] / len(s["recovery"]))
    risen = risen_units(fleet, 1)
    # A series whose direction nobody confirmed never pages, and without margins nothing does.
    page_threshold = np.where((s["bad_side"] != 0) & fleet.config.margins, s["page_threshold"], np.inf)
    likely = (sides.bad >= page_threshold) & (phase < Phase.PAGE)
    likely &= is_carried(sides.bad, risen) | (phase == Phase.TICKET)
    changes: dict[int, Change] = {}
    large = np.zeros(len(phase), np.bool_)
    for row in np.flatnonzero(likely).tolist():
        if fleet.config.ring_buckets and not s["fired_bucket"][row]:
            changes[row] = _find(fleet, row, _side(fleet, row))
        large[row] = is_large(fleet, row, bucket, changes.get(row))
    limits = (s["ticket_threshold"], page_threshold)
    found = advance(phase, Evidence(sides.seen, sides.bad, *limits, large, recovery, risen))
    for row in np.flatnonzero((found >= Phase.TICKET) & (phase < Phase.TICKET)).tolist():
        if not _has_significant_change(fleet, row, changes):
            found[row] = min(phase[row], Phase.SUSPECT)
    seen, transitions = _Seen(sides, recovery, changes), []
    for row in np.flatnonzero(found != phase).tolist():
        transitions.append(_move(fleet, row, bucket, (int(phase[row]), int(found[row])), seen))
    transitions += _notice_small(fleet, bucket, found, sides)
    # A series that recovers in this tick starts without evidence, so it cannot be improved as well.
    improved = (sides.good >= s["ticket_threshold"]) & (found < Phase.TICKET) & (phase < Phase.TICKET)
    improved &= is_carried(sides.good, risen_units(fleet, -1))
    for row in np.flatnonzero(improved).tolist():
        side = -int(s["bad_side"][row])
        change = _find(fleet, row, side) if fleet.config.ring_buckets else None
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
    if fleet.config.ring_buckets:
        _hold_suspected(fleet, bucket)
    return sorted(transitions, key=lambda t: (t.row, t.event.value))


def _notice_small(fleet: Fleet, bucket: int, found: Array, sides: Sides) -> list[Transition]:
    """Return the changes that were surely there, but not surely beyond the margins: seen and not told.

    Each is returned once: when it has been there for a day, or when it is over before.
    """
    s = fleet.state
    suspect = found == Phase.SUSPECT
    s["noticed"][suspect & (s["noticed"] == 0) & (sides.seen >= s["ticket_threshold"])] = _SEEN
    waiting = s["noticed"] == _SEEN
    transitions = []
    if waiting.any():
        since = s["rise_bucket"][_leading(fleet, 1), np.arange(fleet.series)].astype(np.int64)
        due = waiting & ((found == Phase.CALM) | (suspect & (bucket - since >= TICKS_A_DAY)))
        for row in np.flatnonzero(due).tolist():
            s["noticed"][row] = _SAID
            change = _find(fleet, row, _side(fleet, row)) if fleet.config.ring_buckets else None
            transitions.append(Transition(row, bucket, Event.NOTICED, _log10(sides.seen[row]), change))
    s["noticed"][~suspect] = 0
    return transitions


def _hold_suspected(fleet: Fleet, bucket: int) -> None:
    """Hold back the units under young suspicions, and learn those under suspicions that are over."""
    s = fleet.state
    suspected, held = s["phase"] == Phase.SUSPECT, s["held_since"] > 0
    if not (suspected | held).any():
        return
    since = s["rise_bucket"][_leading(fleet, 1), np.arange(fleet.series)].astype(np.int64)
    wanted = suspected & (bucket - since <= LONGEST_HOLD)
    for row in np.flatnonzero(wanted & ~held).tolist():
        hold(fleet, row, int(since[row]))
    for row in np.flatnonzero(held & ~wanted).tolist():
        release(fleet, row)


def _find(fleet: Fleet, row: int, side: int | None) -> Change:
    """Return the change of a series from its whole past, with the units that were held back."""
    release(fleet, row)
    return find_change(fleet, row, side)


def _log10(value: float) -> float:
    return math.log10(value) if value > 0.0 else -math.inf


def _side(fleet: Fleet, row: int) -> int | None:
    return int(fleet.state["bad_side"][row]) or None


def risen_units(fleet: Fleet, way: int) -> Floats:
    """Return the units since the leading bet of the bad (1) or good (-1) direction began to rise.

    They are infinite where it has not risen by `LEAST_PER_UNIT`: no start has a likelihood ratio of that size, so M,
    the sum over all starts, only counts them. In a series that never fails it grows by about one a unit.
    """
    s, at = fleet.state, (_leading(fleet, way), np.arange(fleet.series))
    result: Floats = np.where(s["rise"][at] >= math.log(LEAST_PER_UNIT), s["rise_units"][at], math.inf)
    return result


def _leading(fleet: Fleet, way: int) -> Ints:
    """Return the leading bet of each series in the bad (1) or good (-1) direction."""
    bad_side = fleet.state["bad_side"]
    counts = (fleet.config.table.sides[:, None] == way * bad_side) | (bad_side == 0)
    result: Ints = np.where(counts, leading_evidence(fleet), -1.0).argmax(axis=0)
    return result


def _has_significant_change(fleet: Fleet, row: int, changes: dict[int, Change]) -> bool:
    """Return True where a series that reached its threshold has a significant change.

    A young change may need more units. A change with many units that is still not significant is dropped, and the
    evidence is reset. This keeps the promise: it only lowers the number of alarms.
    """
    if not fleet.config.ring_buckets:
        return True
    if row not in changes:
        changes[row] = _find(fleet, row, _side(fleet, row))
    change = changes[row]
    if not change.is_significant and change.units >= _MANY * change.learned:
        _reset_side(fleet, row, None)
    return change.is_significant


@dataclass(frozen=True)
class _Seen:
    """Results of one tick that all transitions share.

    Attributes:
        sides: Evidence by direction.
        recovery: Evidence of the recovery detector.
        changes: Changes that are computed already, by row.
    """

    sides: Sides
    recovery: Floats
    changes: Mapping[int, Change]


def _move(fleet: Fleet, row: int, bucket: int, phases: tuple[int, int], seen: _Seen) -> Transition:
    """Move a series from the first of two phases to the second, and return the transition."""
    s, sides, (before, after) = fleet.state, seen.sides, phases
    s["phase"][row] = after
    event = event_of(before, after)
    assert event is not None
    change = None
    decided = sides.bad[row]
    if event in (Event.TICKETED, Event.PAGED) and before < Phase.TICKET:
        if fleet.config.ring_buckets:
            change = seen.changes.get(row) or _find(fleet, row, _side(fleet, row))
            s["day_before"][:, row] = day_before(fleet, row, change.change_bucket)
            roll_back(fleet, row, change.change_bucket)
        s["cause"][row] = change.bet if change else _leading_bet(fleet, row)
        s["change_bucket"][row] = change.change_bucket if change else bucket
        s["fired_bucket"][row] = bucket
        forget_today(s, np.array([row]))
        s["still_moved"][row] = STILL_MOVED
        if fleet.config.table.kind == "rate":
            half = still_moved(change.growth_lower if change else 0.0, float(s["most_moved"][row]))
            s["still_moved"][row] = max(_least_tilt(fleet, row), half)
    elif event is Event.RECOVERED:
        decided = seen.recovery[row]
        close(fleet, row)
    return Transition(row, bucket, event, _log10(decided), change)


def _least_tilt(fleet: Fleet, row: int) -> float:
    """Return the tilt up to which a change of a firing series is not worth telling: below it nothing is moved."""
    if not fleet.config.margins:
        return 0.0
    table, bet = fleet.config.table, int(fleet.state["cause"][row])
    return float(fleet.state["least_tilts"][table.shape_of[bet], 0 if table.deltas[bet] > 0 else 1, row])


def _learn_sizes(fleet: Fleet) -> None:
    """Raise what counts as still moved in firing rates to the size that their change has by the units since.

    When an alert fires its change has few units, and is surely there, but of no sure size: a rate that went from 7 % to
    26 % was surely 1.5 times as high, and had to come below 1.25 times to count as recovered.
    """
    s, table = fleet.state, fleet.config.table
    if table.kind != "rate":
        return
    for row in np.flatnonzero((s["fired_bucket"] > 0) & (s["still_moved"] < s["most_moved"])).tolist():
        units, expected = float(s["after"][:, row].sum()), float(s["after_expected"][row])
        if not units or not 0.0 < expected < units:
            continue
        grown = 1 if table.deltas[s["cause"][row]] > 0 else 0
        learned = fleet.learned(row)
        before = rate_interval(float(learned[grown]), float(learned.sum()))
        after = rate_interval(float(s["after"][grown, row]), units)
        # The level of the hours since may differ from that of all hours.
        level = before.upper * (expected / units / before.value if before.value > 0.0 else 1.0)
        if 0.0 < level < 1.0 and after.lower < 1.0:
            growth = after.lower * (1.0 - level) / (level * (1.0 - after.lower))
            s["still_moved"][row] = max(s["still_moved"][row], still_moved(growth, float(s["most_moved"][row])))


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


def close(fleet: Fleet, row: int) -> None:
    """Close an open alert: the evidence is reset, and the baseline from before the change learns again."""
    s = fleet.state
    for name in ("evidence", "margin_evidence", "rise", "rise_units", "recovery", "after"):
        s[name][:, row] = 0.0
    s["after_expected"][row] = 0.0
    s["rise_bucket"][:, row] = s["last_bucket"][row]
    if s["fired_bucket"][row]:
        # The ring holds units that the baseline does not: they must never be subtracted from it.
        fleet.ring.clear(row)
    for name in ("fired_bucket", "change_bucket"):
        s[name][row] = 0
    forget_today(s, np.array([row]))
    s["phase"][row], s["cause"][row], s["asked"][row] = Phase.CALM, -1, False


def accept(fleet: Fleet, row: int, bucket: int) -> Transition:
    """Make the units since the change point the new baseline: a person says that the new level is right.

    Args:
        fleet: The fleet.
        row: Row of a series whose alert is open.
        bucket: Tick of the decision; part of the order of folds, so that a refold gives the same state.

    Raises:
        ValueError: the series has no open alert.

    Promise: as for a new series with these units as burn-in. The ring reaches back about 10 days by default. Bins of
    numbers keep their edges, with a prior of 1/2 each.
    """
    s = fleet.state
    if not s["fired_bucket"][row]:
        raise ValueError(f"series {row} has no open alert to accept")
    since = int(s["change_bucket"][row])
    fleet.baseline.reset(row)
    fleet.state["own"][..., row] = 0.0
    for entry in fleet.ring.entries(row):
        if entry.first >= since:
            stratum, hour = divmod(entry.context, HOURS)
            fleet.baseline.add(np.array([row]), stratum, hour, entry.counts[:, None])
    sessions = s["pooled"][:, :, row].sum(axis=0)
    if fleet.config.sessions:
        # The squares of these sessions are not stored; a 0/1 outcome has the largest variance that their mean allows.
        s["squares"][row] = sessions[1]
    start_noise(fleet.config, s, np.array([row]))
    close(fleet, row)
    return Transition(row, bucket, Event.ACCEPTED, -math.inf)


def turn(fleet: Fleet, rows: Ints, bad_side: int) -> None:
    """Set the bad direction: 1 up, -1 down, 0 unverified. The evidence is reset; the baseline stays.

    An open alert is closed, because its severity followed from the old direction.
    """
    for row in rows.tolist():
        if fleet.state["bad_side"][row] != bad_side:
            close(fleet, row)
    fleet.state["bad_side"][rows] = bad_side
