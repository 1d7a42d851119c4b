"""Configuration of a fleet, and the layout of its state in memory."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

import numpy as np

from gapwatch.streams.detectors.arrays import Bools, Floats, Ints
from gapwatch.streams.detectors.bets import BetTable
from gapwatch.streams.detectors.contexts import DAYS, HOURS, ticks_to_a_known_hour
from gapwatch.streams.detectors.recovery import RECOVERY_DELTAS
from gapwatch.streams.detectors.ring import Ring


@dataclass(frozen=True)
class FleetConfig:
    """Configuration of all series of a fleet; its repr is part of the fingerprint of a snapshot.

    Attributes:
        table: The bets.
        seasonal: Learn a baseline for each hour of the week.
        strata: Number of strata (weight classes), 1 to 32; each has its own baseline, all share the evidence.
        sessions: Units are sessions with a mean in [0, 1] (rates only), not counts.
        burn_in_units: Units that only feed the baseline, before the first bet.
        context_units: Units that an hour needs, from two earlier days, before it has a baseline of its own.
        margins: Compute a second set of evidence, beyond the margins of `margins`: tickets, pages and notes need both.
        usual_noise: Daily noise that is assumed for a week, standard deviation in log odds.
        ring_buckets: Single buckets in the ring of each series; 0 for no ring (no rollback, no change point).
        ring_hours: Hours in the ring, before those buckets.
    """

    table: BetTable
    seasonal: bool = True
    strata: int = 1
    sessions: bool = False
    burn_in_units: int = 50
    context_units: int = 50
    margins: bool = True
    usual_noise: float = 0.1
    ring_buckets: int = 256
    ring_hours: int = 256

    def __post_init__(self) -> None:
        if not 1 <= self.strata <= 32:
            raise ValueError(f"strata is {self.strata}; a series has 1 to 32, merge the smallest into one")
        if self.sessions and self.table.kind != "rate":
            raise ValueError(f"sessions are a unit for rates, not for a {self.table.kind}; monitor its failure rate")

    def knows_hour(self, hour: int, units: Floats, age: Ints) -> Bools:
        """Return True for each series that has a baseline of its own for an hour; of series with seasons.

        Args:
            hour: Hour of the week, 0 to 167.
            units: Units of each series in the hour, from `Baseline.alpha`.
            age: Ticks since the first unit of each series.
        """
        result: Bools = (units >= self.context_units) & (age >= ticks_to_a_known_hour(hour))
        return result

    def layout(self) -> dict[str, tuple[tuple[int, ...], type]]:
        """Return shape (without the series) and type of each array of the state, in a fixed order."""
        bets, bins = self.table.count, self.table.bins
        count_type = np.float32 if self.sessions else np.uint32
        one: tuple[int, ...] = ()
        return {
            "prior": ((bins,), np.float64),
            "pooled": ((self.strata, bins), np.float64),
            "hours": ((self.strata, HOURS if self.seasonal else 0, bins), count_type),
            "squares": (one, np.float64),
            "own": ((self.strata if self.seasonal else 0, bins), np.float64),
            "own_hour": (one, np.uint32),
            "season": (one, np.float64),
            "hours_seen": (one, np.float64),
            "first_bucket": (one, np.uint32),
            "last_bucket": (one, np.uint32),
            "evidence": ((bets,), np.float64),
            "margin_evidence": ((bets if self.margins else 0,), np.float64),
            "least_tilts": ((len(self.table.shapes) if self.margins else 0, 2), np.float64),
            "min_factor": (one, np.float32),
            "min_share": (one, np.float32),
            "noticed": (one, np.int8),
            "held_since": (one, np.uint32),
            "rise": ((bets,), np.float64),
            "rise_bucket": ((bets,), np.uint32),
            "rise_units": ((bets,), np.float32),
            "margin": (one, np.float64),
            "day": (one, np.uint32),
            "day_gap": (one, np.float64),
            "day_information": (one, np.float64),
            "days": (one, np.uint32),
            "days_mean": (one, np.float64),
            "days_squares": (one, np.float64),
            "days_noise": (one, np.float64),
            "days_weight": (one, np.float64),
            "noise": (one, np.float64),
            "weekday_levels": ((DAYS,), np.float32),
            "weekday_weights": ((DAYS,), np.float32),
            "weekday_margins": ((2,), np.float64),
            "phase": (one, np.int8),
            "bad_side": (one, np.int8),
            "cause": (one, np.int16),
            "asked": (one, np.bool_),
            "change_bucket": (one, np.uint32),
            "fired_bucket": (one, np.uint32),
            "still_moved": (one, np.float64),
            "most_moved": (one, np.float32),
            "recovery": ((len(RECOVERY_DELTAS),), np.float64),
            "after": ((bins,), np.float64),
            "after_expected": (one, np.float64),
            "day_before": ((2,), np.float32),
            "ticket_threshold": (one, np.float64),
            "page_threshold": (one, np.float64),
            "tickets_allowed": (one, np.float64),
            "pages_allowed": (one, np.float64),
            "units_today": (one, np.float64),
            "units_seen": (one, np.float64),
            "busiest_day": (one, np.float64),
            "min_ratio": (one, np.float32),
            "min_bad_per_hour": (one, np.float32),
            "expected_tickets": (one, np.float64),
            "expected_pages": (one, np.float64),
            **Ring.layout(bins, self.ring_buckets, self.ring_hours, count_type),
        }

    def fingerprint(self) -> str:
        """Return 12 hex digits that differ for configurations whose states cannot be exchanged."""
        text = json.dumps([repr(self), [[name, shape, kind.__name__] for name, (shape, kind) in self.layout().items()]])
        return hashlib.sha256(text.encode()).hexdigest()[:12]
