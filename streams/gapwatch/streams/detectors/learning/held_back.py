"""Units under a suspected change: held back from the baseline until the suspicion is over, and out of it for an alert.

suspected ----- units since the hour of its begin leave the baseline; new ones go to the ring only
   | cleared, or two days old: all of them are learned
   v fires:   all units since the change point leave the baseline
"""

from __future__ import annotations

import numpy as np

from gapwatch.streams.detectors.contexts import HOURS, TICKS_A_DAY, TICKS_AN_HOUR
from gapwatch.streams.detectors.fleet import Fleet
from gapwatch.streams.detectors.ring import Entry

LONGEST_HOLD = 2 * TICKS_A_DAY
"""Ticks since a change began after which its units are learned all the same: a change that is too small to be told
becomes the baseline. The ring reaches back further."""
# Units that a baseline keeps at least. With the 50 of a burn-in a shift of 0 to 20 % at conversation 140 was not told,
# because the hour in which it began took 60 of them away.
_LEAST_LEFT = 100.0


def hold(fleet: Fleet, row: int, since: int) -> None:
    """Take the units since the begin of an hour out of the baseline, and hold back those that come.

    Slots of the ring do not span two hours, so `release` adds exactly what this takes. Where most of a young baseline
    would leave, nothing is held back: a change cannot be told from a few units before it.

    Args:
        fleet: The fleet, with a ring.
        row: Row of the series.
        since: Tick at which the suspected change began.
    """
    began = max(since // TICKS_AN_HOUR * TICKS_AN_HOUR, 1)
    if began <= fleet.state["first_bucket"][row]:
        return
    entries = [entry for entry in fleet.ring.entries(row) if entry.first >= began]
    units = sum(float(entry.counts.sum()) for entry in entries)
    if float(fleet.learned(row).sum()) - units >= max(_LEAST_LEFT, units):
        _move_units(fleet, row, entries, -1)
        fleet.state["held_since"][row] = began


def release(fleet: Fleet, row: int) -> None:
    """Learn the units that were held back, if any."""
    began = int(fleet.state["held_since"][row])
    if began:
        _move_units(fleet, row, [e for e in fleet.ring.entries(row) if e.first >= began], 1)
        fleet.state["held_since"][row] = 0


def roll_back(fleet: Fleet, row: int, change_bucket: int) -> None:
    """Subtract all units since the change point from the baseline, so that an incident never becomes the baseline.

    Buckets older than the single ones of the ring are subtracted by the hour. Units before the ring stay.
    """
    for entry in fleet.ring.entries(row):
        if entry.last >= change_bucket:
            fleet.baseline.take(row, *divmod(entry.context, HOURS), entry.counts)
    fleet.state["own"][..., row] = 0.0


def _move_units(fleet: Fleet, row: int, entries: list[Entry], way: int) -> None:
    """Add the units of some slots to the baseline, or take them out; the squares of sessions follow their sum."""
    s = fleet.state
    before = float(s["pooled"][:, -1, row].sum())
    for entry in entries:
        stratum, hour = divmod(entry.context, HOURS)
        if way > 0:
            fleet.baseline.add(np.array([row]), stratum, hour, entry.counts[:, None])
        else:
            fleet.baseline.take(row, stratum, hour, entry.counts)
    if fleet.config.sessions and before > 0.0:
        s["squares"][row] *= float(s["pooled"][:, -1, row].sum()) / before
