"""Fleets and counts that the tests of the detectors share."""

from __future__ import annotations

import numpy as np

from gapwatch.streams.detectors.arrays import Floats
from gapwatch.streams.detectors.bets import BetTable, rate_bets
from gapwatch.streams.detectors.fleet import Fleet
from gapwatch.streams.detectors.fleet_config import FleetConfig

LIMIT = 1e6


def plain(**more: object) -> FleetConfig:
    """Rates without seasons, margin or burn-in, with a small ring."""
    settings: dict[str, object] = {
        "seasonal": False,
        "margins": False,
        "burn_in_units": 0,
        "ring_buckets": 32,
        "ring_hours": 16,
    }
    return FleetConfig(rate_bets(), **(settings | more))  # type: ignore[arg-type]


def same_margin(table: BetTable, margin: float, series: int = 1) -> Floats:
    """The same margin for all shapes and both directions, as the margin form of the evidence takes it."""
    return np.full((len(table.shapes), 2, series), margin)


def rates(config: FleetConfig, series: int, limit: float = LIMIT, bad_side: int = 1) -> Fleet:
    fleet = Fleet(config, series)
    fleet.state["ticket_threshold"][:] = limit
    fleet.state["bad_side"][:] = bad_side
    return fleet


def ticks(rate: Floats | float, units: int, count: int, series: int, seed: int) -> Floats:
    """Counts of `count` ticks, shape (count, 2, series)."""
    k = np.random.default_rng(seed).binomial(units, rate, (count, series)).astype(np.float64)
    return np.stack([units - k, k], axis=1)
