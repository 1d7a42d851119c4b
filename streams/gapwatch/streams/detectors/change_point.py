"""Change point of a series: its past baselines, undone from the ring, and the likely starts of the change."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from gapwatch.streams.detectors.arrays import Array, Bools, Floats, Ints, add_up
from gapwatch.streams.detectors.baseline import alpha_of, tells_weekdays
from gapwatch.streams.detectors.bets import BetTable
from gapwatch.streams.detectors.contexts import HOURS, TICKS_A_DAY, TICKS_TO_A_WEEK_BASELINE, day_group
from gapwatch.streams.detectors.evidence import increments
from gapwatch.streams.detectors.fleet import Fleet
from gapwatch.streams.detectors.margins.daily_noise import day_terms
from gapwatch.streams.detectors.ring import Entry
from gapwatch.streams.detectors.sessions import SessionTimes, TimedUnits, session_increments, shift_odds

_LEVEL = 0.95
# Sizes of a change, in log odds, that the date of a change of sessions allows for; and how far the level before the
# change may lie from the baseline, with its standard deviation.
_SIZES = np.array([0.15, 0.3, 0.45, 0.6, 0.8, 1.0, 1.25, 1.5, 1.8, 2.2, 2.6, 3.1, 3.7, 4.5, 5.5, 7.0])
_LEVELS = np.array([-0.6, -0.4, -0.2, 0.0, 0.2, 0.4, 0.6])
_LEVEL_DEVIATION = 0.2


@dataclass(frozen=True)
class Past:
    """Recent past of a series, from its ring.

    Attributes:
        entries: Entries, oldest first.
        counts: Units of the entries, shape (bins, entries).
        alpha: Baseline against which each entry was folded, same shape.
        known: True for entries in hours with a baseline, where bets without a margin were made.
    """

    entries: list[Entry]
    counts: Floats
    alpha: Floats
    known: Bools


def look_back(fleet: Fleet, row: int) -> Past:
    """Return the past of a series with the baseline of each entry, as it was when the entry was folded.

    Entries of one context (stratum and hour) are undone together: the units since are a running sum from the end.
    """
    entries = fleet.ring.entries(row)
    base, first = fleet.baseline.one(row), int(fleet.state["first_bucket"][row])
    bins = fleet.config.table.bins
    counts = np.array([entry.counts for entry in entries]).reshape(len(entries), bins).T
    contexts = np.array([entry.context for entry in entries], np.int64)
    strata, hours = contexts // HOURS, contexts % HOURS
    old = np.array([entry.last - first >= TICKS_TO_A_WEEK_BASELINE for entry in entries])
    alpha, known_hour = np.empty((bins, len(entries))), np.ones(len(entries), np.bool_)
    ages = np.array([entry.first - first for entry in entries])

    def before(whole: Floats, which: Bools, here: Bools) -> Floats:
        """Return present counts less the units since each entry, at least 0."""
        since = np.cumsum(np.where(which, counts, 0.0)[:, ::-1], axis=1)[:, ::-1]
        result: Floats = np.maximum(whole[:, None] - since[:, here], 0.0)
        return result

    for context in np.unique(contexts).tolist():
        stratum, hour = divmod(context, HOURS)
        here, same = contexts == context, strata == stratum
        pooled = before(base.pooled[stratum, :, 0], same, here)
        if not base.seasonal:
            alpha[:, here] = base.prior + pooled
            continue
        members = day_group(hour)
        in_group = same & np.isin(hours, members)
        group = before(sum_of([base.hours[stratum, h, :, 0] for h in members]), in_group, here)
        own = before(base.hours[stratum, hour, :, 0].astype(np.float64), here, here)
        known = alpha_of(base.prior, pooled, group, own, old[here])
        units = np.where(tells_weekdays(own, old[here]), add_up(own), add_up(group))
        # As in the fold: an hour without a baseline is compared with all other hours.
        elsewhere = base.prior + np.maximum(pooled - group, 0.0)
        alpha[:, here] = np.where(units < fleet.config.context_units, elsewhere, known)
        known_hour[here] = fleet.config.knows_hour(hour, units, ages[here])
    return Past(entries, counts, alpha, known_hour)


def day_before(fleet: Fleet, row: int, change_bucket: int) -> tuple[float, float]:
    """Return the level of the part of a day before a change in it, and its information (units times variance).

    Args:
        fleet: The fleet, with a ring.
        row: Row of the series.
        change_bucket: First bucket after the change.

    Returns:
        The level in log odds per unit of the statistic of the daily noise, against the baseline of each hour; twice 0
        where the day began with the change, or in hours without a baseline, whose level may be that of a season.
    """
    past, begun = look_back(fleet, row), change_bucket // TICKS_A_DAY * TICKS_A_DAY
    mine = np.array([begun <= entry.first and entry.last < change_bucket for entry in past.entries], np.bool_)
    if not mine.any() or not past.known[mine].all():
        return 0.0, 0.0
    gaps, information = day_terms(fleet.config.table.noise_statistic, past.alpha[:, mine], past.counts[:, mine])
    told = float(information.sum())
    return (float(gaps.sum()) / told, told) if told > 0.0 else (0.0, 0.0)


def sum_of(parts: list[Array]) -> Floats:
    """Return the sum of counts, as floats."""
    return add_up(np.array(parts, np.float64))


def entry_log_factors(fleet: Fleet, row: int, past: Past) -> Floats:
    """Return the log factor of each bet for each entry, as it was folded."""
    table: BetTable = fleet.config.table
    if not fleet.config.sessions:
        return increments(table, past.alpha, past.counts)
    # Single sessions are not stored; the factor of the mean session stands for each of them.
    units = np.maximum(add_up(past.counts), 1e-12)
    mean = past.alpha[1] / add_up(past.alpha)
    _, variance = fleet.session_moments(slice(row, row + 1))
    which, nothing = np.arange(len(mean)), np.zeros((2, len(mean)))
    one = session_increments(table, len(mean), which, past.counts[1] / units, mean, variance.repeat(len(mean)), nothing)
    return one * units


def likely_starts(factors: Floats, bets: list[int], units: Floats) -> tuple[int, int, int]:
    """Return the first, most likely and last entry of the smallest set with 95 % of the posterior of the start."""
    suffix = np.cumsum(factors[bets, ::-1], axis=1)[:, ::-1]
    return _smallest_set(np.logaddexp.reduce(suffix, axis=0) + np.log(np.maximum(units, 1e-12)))


def likely_split(fleet: Fleet, row: int, past: Past, bins: list[int], *, grew: bool) -> tuple[int, int, int]:
    """Return the 95 % set of the start by the likelihood of two shares, before and since, whatever the hour.

    Each share costs half the logarithm of its units (Schwarz 1978). Units before the ring belong to the first share.
    """
    units, moved = add_up(past.counts), past.counts[bins].sum(axis=0)
    whole = fleet.learned(row)
    older = max(float(whole.sum() - units.sum()), 0.0)
    older_moved = min(max(float(whole[bins].sum() - moved.sum()), 0.0), older)
    before, since = older + np.cumsum(units) - units, np.cumsum(units[::-1])[::-1]
    moved_before, moved_since = older_moved + np.cumsum(moved) - moved, np.cumsum(moved[::-1])[::-1]

    def likelihood(k: Floats, n: Floats) -> Floats:
        share = np.clip(k / np.maximum(n, 1e-12), 1e-12, 1.0 - 1e-12)
        result: Floats = k * np.log(share) + (n - k) * np.log1p(-share) - 0.5 * np.log(np.maximum(n, 1.0))
        return result

    logs = likelihood(moved_before, before) + likelihood(moved_since, since) + np.log(np.maximum(units, 1e-12))
    way = moved_since * before > moved_before * since
    return _smallest_set(np.where(way == grew, logs, -math.inf) if np.any(way == grew) else logs)


@dataclass(frozen=True)
class StartOfChange:
    """Ticks at which a change of sessions may have begun.

    Attributes:
        median: Median of the first tick after the change.
        earliest: First tick of the 95 % set.
        latest: Last tick of the 95 % set.
        is_truncated: The stored traces do not reach back to the change.
    """

    median: int
    earliest: int
    latest: int
    is_truncated: bool


def start_in_sessions(
    fleet: Fleet, row: int, times: SessionTimes, units: TimedUnits, hours: Ints, *, grew: bool
) -> StartOfChange:
    """Return when a change of sessions began, by the times of their traces; call it after the baseline's roll-back.

    Args:
        fleet: Fleet of sessions.
        row: Row of the series.
        times: Times of the series.
        units: The same with open sessions; at least one entry.
        hours: Hour of the week of each entry.
        grew: The share of bad units grew; else it shrank.

    Source:
        Posterior over starts with a uniform prior over units, as in `likely_starts`, by the likelihood of traces
        around the baseline of their hour, over a grid of levels before and sizes of the change. The units of a session
        depend on each other: the likelihood counts m (1 - m) / v units for a session of mean m and variance v, at
        least one and at most all (a quasi-likelihood, Wedderburn 1974). The set begins with the entry before its
        first one, because the change may lie within that tick. Coverage is measured by
        `tests/streams/alerting/evaluation/test_session_dates.py`.
    """
    mean = np.empty(len(hours))
    old = np.array(
        [bool(fleet.state["last_bucket"][row] - fleet.state["first_bucket"][row] >= TICKS_TO_A_WEEK_BASELINE)]
    )
    for hour in np.unique(hours).tolist():
        alpha, _ = fleet.baseline.alpha(slice(row, row + 1), 0, hour, old)
        mean[hours == hour] = alpha[1, 0] / alpha[:, 0].sum()
    scale = _units_of_a_session(fleet, row, times)

    def log_likelihood(tilts: Floats) -> Floats:
        """Return the log likelihood of each entry under each tilt of its baseline, shape (tilts, entries)."""
        share = np.clip(shift_odds(mean, tilts[:, None]), 1e-9, 1.0 - 1e-9)
        result: Floats = scale * (units.bad * np.log(share) + units.good * np.log1p(-share))
        return result

    since = np.cumsum(log_likelihood(_SIZES if grew else -_SIZES)[:, ::-1], axis=1)[:, ::-1]
    until = log_likelihood(_LEVELS)
    until = np.cumsum(until, axis=1) - until - 0.5 * (_LEVELS[:, None] / _LEVEL_DEVIATION) ** 2
    weight = np.log(np.maximum(units.good + units.bad, 1e-12))
    logs = np.logaddexp.reduce(since) + np.logaddexp.reduce(until) + weight
    low, _, high = _smallest_set(logs)
    is_truncated = low == 0 and bool(times.windows)
    median = int(np.searchsorted(np.cumsum(np.exp(logs - np.logaddexp.reduce(logs))), 0.5))
    # The change lies somewhere between two traces; in a sparse series they are far apart.
    middle = (int(units.last[max(median - 1, 0)]) + 1 + int(units.first[median])) // 2
    return StartOfChange(middle, int(units.first[max(low - 1, 0)]), int(units.last[high]), is_truncated)


def _units_of_a_session(fleet: Fleet, row: int, times: SessionTimes) -> float:
    """Return how many independent units one session is worth, from 1 to the harmonic mean of their numbers."""
    centre, variance = (float(moment[0]) for moment in fleet.session_moments(slice(row, row + 1)))
    most = times.closed[0] / times.closed[1] if times.closed[1] else 1.0
    return float(np.clip(centre * (1.0 - centre) / max(variance, 1e-9), 1.0, most))


def _smallest_set(logs: Floats) -> tuple[int, int, int]:
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    order = np.argsort(-weights, kind="stable")
    needed = int(np.searchsorted(np.cumsum(weights[order]), _LEVEL)) + 1
    chosen = order[:needed]
    return int(chosen.min()), int(order[0]), int(chosen.max())
