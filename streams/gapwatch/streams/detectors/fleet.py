"""Fleet: all series of one kind in a struct of arrays; one call folds one tick of all of them.

    counts of a tick --> evidence of each bet (margin 0, page margin) --> baseline (unless an alert is open) --> ring

The state is a function of the calls: the same buckets in the same order, from the start or from a snapshot, give the
same bytes on the same machine and numpy. Counts of several workers are added before they are folded.
"""

from __future__ import annotations

import math

import numpy as np

from gapwatch.streams.detectors.arrays import Array, Bools, Floats, Ints, Rows, add_up, positions
from gapwatch.streams.detectors.baseline import Baseline, tells_weekdays
from gapwatch.streams.detectors.budgets.volume import VOLUME, observe_units
from gapwatch.streams.detectors.contexts import (
    HOURS,
    TICKS_A_DAY,
    TICKS_AN_HOUR,
    TICKS_TO_A_WEEK_BASELINE,
)
from gapwatch.streams.detectors.evidence import fold_rise, fold_sum
from gapwatch.streams.detectors.fleet_config import FleetConfig
from gapwatch.streams.detectors.local_level import USUAL_SEASON, season_of
from gapwatch.streams.detectors.log_factors import BucketFactors, FoldedBucket, bucket_factors, learned_moments
from gapwatch.streams.detectors.margins.daily_noise import close_days, day_terms, start_noise
from gapwatch.streams.detectors.margins.min_change import FACTOR, SHARE, refresh_tilts
from gapwatch.streams.detectors.recovery import MOST_MOVED, recovery_increments
from gapwatch.streams.detectors.ring import Ring

# Series folded at once; the arrays of one block stay in the second-level cache of the processor.
_BLOCK = 2048


LEAST_RATIO = 1.25
"""Default of the lower bound of the growth that a page needs ..."""
LEAST_BAD_PER_HOUR = 1.0
"""... and of the bad units an hour above the expected number."""


class OutOfOrderError(ValueError):
    """A bucket was folded after a later one; fold late units in the current bucket."""


class Fleet:
    """Series of one kind, in a struct of arrays whose last axis is the series.

    Attributes:
        config: Configuration of all series of the fleet.
        state: Arrays by the names of `FleetConfig.layout`.
    """

    def __init__(self, config: FleetConfig, series: int = 0) -> None:
        self.config = config
        self.state: dict[str, Array] = {
            name: np.zeros((*shape, 0), kind) for name, (shape, kind) in config.layout().items()
        }
        if series:
            self.add_series(series)

    @classmethod
    def of(cls, config: FleetConfig, state: dict[str, Array]) -> Fleet:
        """Return a fleet of some arrays; those that its use does not need may be left out."""
        made = cls.__new__(cls)
        made.config, made.state = config, state
        return made

    @property
    def series(self) -> int:
        """Number of series."""
        return int(self.state["phase"].shape[0])

    @property
    def baseline(self) -> Baseline:
        """Baseline of all series, as a view."""
        return Baseline(self.state["prior"], self.state["pooled"], self.state["hours"])

    def learned(self, row: int) -> Floats:
        """Return the baseline of one series, all hours and strata together: units by bin, including the prior."""
        whole: Floats = self.state["prior"][:, row] + self.state["pooled"][:, :, row].sum(axis=0)
        return whole

    def has_baseline(self, hours: Ints) -> Bools:
        """Return True for each series that has a baseline for the hour of its last tick.

        Such a series has finished its burn-in. With seasons it has also seen this hour of the day on two earlier days,
        with enough units. After the burn-in, another hour is compared with all hours, as far as a day's season allows.

        Args:
            hours: Hour of the week of the last tick of each series.
        """
        known = self._has_burnt_in(slice(0, self.series)).copy()
        age = self.state["last_bucket"].astype(np.int64) - self.state["first_bucket"].astype(np.int64)
        for hour in np.unique(hours).tolist() if self.config.seasonal else ():
            rows = np.flatnonzero(hours == hour)
            _, own = self.baseline.alpha(rows, 0, hour, age[rows] >= TICKS_TO_A_WEEK_BASELINE)
            known[rows] &= self.config.knows_hour(hour, own, age[rows])
        return known

    def session_moments(self, rows: Rows) -> tuple[Floats, Floats]:
        """Return the mean and the variance of all learned sessions of some series, shape (series,) each."""
        return learned_moments(self.state, rows)

    def has_burnt_in(self) -> Bools:
        """Return True for each series that has finished its burn-in: bets are made on its units."""
        return self._has_burnt_in(slice(0, self.series))

    @property
    def ring(self) -> Ring:
        """Recent past of all series, as a view."""
        return Ring(self.state, self.config.ring_buckets, self.config.ring_hours)

    def add_series(self, count: int) -> Ints:
        """Add empty series; return their rows."""
        first = self.series
        for name, array in self.state.items():
            self.state[name] = np.concatenate([array, np.zeros((*array.shape[:-1], count), array.dtype)], axis=-1)
        rows = np.arange(first, first + count)
        self.start_epoch(rows)
        self.state["min_ratio"][rows] = LEAST_RATIO
        self.state["min_bad_per_hour"][rows] = LEAST_BAD_PER_HOUR
        self.state["min_factor"][rows] = FACTOR
        self.state["min_share"][rows] = SHARE
        self.state["most_moved"][rows] = MOST_MOVED
        return rows

    def start_epoch(self, rows: Ints) -> None:
        """Reset the baseline and the evidence of these series: a new judge, sampler or set of bins is another measure.

        Thresholds, volume and direction stay. Expected false alarms stay as well, because the budget was spent.
        """
        chosen = ("min_ratio", "min_bad_per_hour", "min_factor", "min_share", "most_moved")
        kept = ("bad_side", "ticket_threshold", "page_threshold", *chosen, *VOLUME)
        for name, array in self.state.items():
            if name not in (*kept, "expected_tickets", "expected_pages"):
                array[..., rows] = 0
        self.state["prior"][:, rows] = 0.5
        start_noise(self.config, self.state, rows)
        self.state["season"][rows] = USUAL_SEASON
        self.state["hours_seen"][rows] = 1.0
        self.state["cause"][rows] = -1
        for name in ("ticket_threshold", "page_threshold"):
            limit = self.state[name]
            limit[rows] = np.where(limit[rows] > 0.0, limit[rows], math.inf)

    def fold(self, bucket: int, counts: Array, rows: Ints | None = None, hour: int = 0, stratum: int = 0) -> None:
        """Fold one tick: the units of each bin, for some or all series, in one context.

        Args:
            bucket: Number of the tick, positive, not before the series' last.
            counts: Shape (bins, rows). A series without a unit is left untouched, bit for bit.
            rows: Distinct series; None for all. Fold a series with units in several contexts once for each context.
            hour: Hour of the week of the units, from `contexts.hour_of_week`; for late units that of their event.
            stratum: Weight class of the units.

        Raises:
            OutOfOrderError: the tick lies before one that was folded.
            ValueError: counts have another shape or are negative; bucket, hour or stratum is out of range.

        Promise, with the thresholds of `budget`: expected false alarms of a series up to any time are at most the sum
        of units / A. It holds on average over the prior for counts of independent units with a steady law in each
        context. It does not hold for units of unmarked sessions, seasons finer than an hour, or daily noise above
        the margin. A burn-in during an incident makes the incident the baseline.
        """
        if self.config.sessions:
            raise ValueError("this fleet counts sessions; call fold_sessions")
        self._check(bucket, hour, stratum)
        if counts.shape != (self.config.table.bins, self.series if rows is None else len(rows)):
            raise ValueError(f"counts have shape {counts.shape}; one row for each bin, one column for each series")
        if counts.size and counts.min() < 0:
            raise ValueError("a count is negative; refold the ticks to correct counts")
        for start in range(0, self.series if rows is None else len(rows), _BLOCK):
            stop = min(start + _BLOCK, self.series if rows is None else len(rows))
            chosen: Rows = slice(start, stop) if rows is None else rows[start:stop]
            block = np.ascontiguousarray(counts[:, start:stop], dtype=np.float64)
            self._fold_block(chosen, bucket, block, hour, stratum, None)

    def fold_sessions(
        self, bucket: int, which: Ints, y: Floats, hour: int = 0, stratum: int = 0, rows: Ints | None = None
    ) -> None:
        """Fold the sessions that ended in one tick: one e-value each.

        Args:
            bucket: As in `fold`.
            which: Series of each session, as a position in `rows`.
            y: Share of the units of each session that count as "yes", in [0, 1].
            hour: As in `fold`.
            stratum: As in `fold`.
            rows: Distinct series; None for the series in `which`.

        Raises:
            OutOfOrderError: as in `fold`.
            ValueError: a mean outside [0, 1].

        Promise: as in `fold`, under any dependence of units inside a session; sessions must not depend on each other.
        """
        if not self.config.sessions:
            raise ValueError("this fleet counts units; call fold")
        self._check(bucket, hour, stratum)
        if not np.all((y >= 0.0) & (y <= 1.0)):
            raise ValueError("a session's mean lies outside [0, 1]; pass bad / units")
        if rows is None:
            rows, which = np.unique(which, return_inverse=True)
        which = which.astype(np.int64)
        if not len(rows):
            return
        counts = np.stack([np.bincount(which, 1.0 - y, len(rows)), np.bincount(which, y, len(rows))]).astype(np.float64)
        self._fold_block(rows, bucket, counts, hour, stratum, (which, y))

    def _check(self, bucket: int, hour: int, stratum: int) -> None:
        if not (0 < bucket < 2**32 and 0 <= hour < HOURS and 0 <= stratum < self.config.strata):
            raise ValueError(
                f"bucket {bucket}, hour {hour}, stratum {stratum}: a tick's number, an hour of the week (0 to 167) and "
                f"a stratum below {self.config.strata} are expected"
            )

    def _fold_block(
        self, rows: Rows, bucket: int, counts: Floats, hour: int, stratum: int, sessions: tuple[Ints, Floats] | None
    ) -> None:
        s = self.state
        units = add_up(counts)
        if sessions is not None:
            units = np.bincount(sessions[0], None, len(units)).astype(np.float64)
        seen = units > 0.0
        if np.any(seen & (s["last_bucket"][rows] > bucket)):
            raise OutOfOrderError(f"bucket {bucket} comes after a later one; fold late units in the current bucket")
        first = s["first_bucket"][rows]
        first = np.where(seen & (first == 0), bucket, first)
        s["first_bucket"][rows] = first
        s["last_bucket"][rows] = np.where(seen, bucket, s["last_bucket"][rows])
        close_days(self.config, s, rows, bucket // TICKS_A_DAY, seen)
        observe_units(s, rows, units)
        self.begin_hours(rows, bucket, hour, seen)

        age = bucket - first.astype(np.int64)
        alpha, own = self.baseline.alpha(rows, stratum, hour, age >= TICKS_TO_A_WEEK_BASELINE)
        ready = seen & self._has_burnt_in(rows)
        known = ready
        if self.config.seasonal:
            known = ready & self.config.knows_hour(hour, own, age)
        has_weekday = self._has_weekday(rows, stratum, hour, age)
        now = FoldedBucket(rows, bucket, hour, stratum, counts, units, sessions, alpha, has_weekday)
        add_evidence(self.config, s, rows, bucket, seen, bucket_factors(self.config, s, now, ready, known))
        self._fold_open_alerts(now, own)
        self._learn(now)

    def _has_weekday(self, rows: Rows, stratum: int, hour: int, age: Ints) -> Bools | None:
        """Return True for each series whose baseline is that of the hour of the week; None where no series is old."""
        old = age >= TICKS_TO_A_WEEK_BASELINE
        if not (self.config.seasonal and self.config.margins and old.any()):
            return None
        return tells_weekdays(self.state["hours"][stratum, hour][:, rows], old)

    def begin_hours(self, rows: Rows, bucket: int, hour: int, seen: Bools) -> None:
        """Begin an hour of the series whose first unit of it this is: its own units, and the season so far."""
        s = self.state
        new = seen & (s["own_hour"][rows] != bucket // TICKS_AN_HOUR)
        index = positions(rows)[new]
        if self.config.margins:
            refresh_tilts(self.config.table, s, rows, seen, index)
        if not len(index):
            return
        s["own_hour"][index] = bucket // TICKS_AN_HOUR
        if not self.config.seasonal:
            return
        hours = s["hours"][..., index].sum(axis=0, dtype=np.float64)
        # The first hour was seen from somewhere in its middle.
        hours_ago = bucket // TICKS_AN_HOUR - s["first_bucket"][index].astype(np.int64) // TICKS_AN_HOUR
        whole = (np.arange(HOURS)[:, None] != (hour - hours_ago) % HOURS) | (hours_ago >= HOURS)
        s["season"][index], s["hours_seen"][index] = season_of(self.config.table.noise_statistic, hours, whole)
        s["own"][:, :, index] = 0.0

    def _has_burnt_in(self, rows: Rows) -> Bools:
        units = np.zeros_like(self.state["squares"][rows])
        for stratum in range(self.config.strata):
            units += add_up(self.state["pooled"][stratum][:, rows])
        if self.config.table.kind == "number":
            # The burn-in of numbers is their prior: the spacings of the values that their bins were cut from.
            units += add_up(self.state["prior"][:, rows])
        result: Bools = units >= self.config.burn_in_units
        return result

    def _learn(self, now: FoldedBucket) -> None:
        """Add the units to the ring, to the day unless an alert is open, to the baseline unless they are held back."""
        s, rows, stratum = self.state, now.rows, now.stratum
        calm = s["fired_bucket"][rows] == 0
        learns = calm & (s["held_since"][rows] == 0)
        counts = now.counts if calm.all() else now.counts * calm
        if self.config.margins:
            gap, information = day_terms(self.config.table.noise_statistic, now.alpha, counts)
            s["day_gap"][rows] += gap
            s["day_information"][rows] += information
        self.baseline.add(rows, stratum, now.hour, counts if learns.all() else now.counts * learns)
        if self.config.seasonal:
            s["own"][stratum][:, rows] += counts
        if now.sessions is not None:
            which, y = now.sessions
            s["squares"][rows] += np.bincount(which, y * y, len(calm)) * learns
        if self.config.ring_buckets:
            index = positions(rows)
            seen = add_up(now.counts) > 0.0
            chosen, units = (index, now.counts) if seen.all() else (index[seen], now.counts[:, seen])
            self.ring.write(chosen, now.number, stratum * HOURS + now.hour, units)

    def _level_before(self, now: FoldedBucket, own: Floats) -> Floats:
        """Return the baseline from before each open alert: of this hour where it was known by then, else of all hours.

        A few units of one earlier day are no level to recover to: an alert would stay open after its incident.
        """
        if not self.config.seasonal:
            return now.alpha
        s = self.state
        age = s["fired_bucket"][now.rows].astype(np.int64) - s["first_bucket"][now.rows].astype(np.int64)
        known = self.config.knows_hour(now.hour, own, age)
        whole = s["prior"][:, now.rows] + s["pooled"][now.stratum][:, now.rows]
        return np.where(known, now.alpha, whole)

    def _fold_open_alerts(self, now: FoldedBucket, own: Floats) -> None:
        s, counts = self.state, now.counts
        firing = np.flatnonzero((s["fired_bucket"][now.rows] > 0) & (now.units > 0.0))
        if not len(firing):
            return
        index = positions(now.rows)[firing]
        alpha = self._level_before(now, own)
        s["after"][:, index] += counts[:, firing]
        for bet in np.unique(s["cause"][index]).tolist():
            some = s["cause"][index] == bet
            chosen, columns = index[some], firing[some]
            shape, way = (
                self.config.table.shapes[self.config.table.shape_of[bet]],
                np.sign(self.config.table.deltas[bet]),
            )
            g = np.array(shape.g) * way
            grown = np.isin(np.arange(self.config.table.bins), shape.moved_bins) == (way > 0.0)
            level = add_up(alpha[:, columns] * grown[:, None]) / add_up(alpha[:, columns])
            s["after_expected"][chosen] += add_up(counts[:, columns]) * level
            factors = recovery_increments(g, alpha[:, columns], counts[:, columns], s["still_moved"][chosen])
            s["recovery"][:, chosen] = fold_sum(s["recovery"][:, chosen], factors, now.units[columns])


def add_evidence(
    config: FleetConfig, s: dict[str, Array], rows: Rows, bucket: int, seen: Bools, factors: BucketFactors
) -> None:
    """Fold the log factors of one bucket into the evidence of some series, and count the false alarms to expect.

    Args:
        config: Configuration of the fleet.
        s: State arrays of the fleet, by name.
        rows: Series.
        bucket: Number of the tick.
        seen: True for the series with a unit.
        factors: Log factors of the bucket, and the units that count.
    """
    starts, certain = factors.starts, factors.certain
    s["evidence"][:, rows] = fold_sum(s["evidence"][:, rows], factors.plain, starts)
    s["expected_tickets"][rows] += starts / s["ticket_threshold"][rows]
    if config.margins:
        s["margin_evidence"][:, rows] = fold_sum(s["margin_evidence"][:, rows], factors.beyond, certain)
        s["expected_pages"][rows] += certain / s["page_threshold"][rows]
    rise, fell = fold_rise(s["rise"][:, rows], factors.plain)
    fell &= seen
    s["rise"][:, rows] = rise
    s["rise_bucket"][:, rows] = np.where(fell, bucket, s["rise_bucket"][:, rows])
    s["rise_units"][:, rows] = np.where(fell, 0.0, s["rise_units"][:, rows] + starts)
