"""Simulated streams and the detectors that run over many of them at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gapwatch.streams.detectors.arrays import Bools, Floats
from gapwatch.streams.detectors.bets import BetTable, rate_bets
from gapwatch.streams.detectors.evidence import mean_evidence
from gapwatch.streams.detectors.fleet import Fleet
from gapwatch.streams.detectors.fleet_config import FleetConfig

HORIZON = 50_000
PROMISE = 0.05
LIMIT = HORIZON / PROMISE
PATIENCE = 44_000
NEVER = np.inf


@dataclass(frozen=True)
class Size:
    """Amount of simulation: streams for false alarms, thresholds, delays, and peers that go one by one."""

    name: str
    null: int
    calibration: int
    delay: int
    peers: int
    events: int


QUICK = Size("quick", 200, 400, 200, 60, 20)
FULL = Size("full", 500, 4000, 2000, 1000, 200)


@dataclass(frozen=True)
class Delays:
    """Delays of the streams that did not alarm before the change; infinite where it was never seen."""

    values: Floats

    @property
    def median(self) -> float:
        return float(np.median(self.values)) if len(self.values) else NEVER

    @property
    def late(self) -> float:
        return float(np.quantile(self.values, 0.95, method="higher")) if len(self.values) else NEVER

    def __str__(self) -> str:
        seen = np.isfinite(self.values).mean() if len(self.values) else 0.0
        text = f"{_whole(self.median)}/{_whole(self.late)}"
        return text if seen >= 0.995 else f"{text} ({100 * seen:.0f}%)"


def _whole(x: float) -> str:
    return f"{x:.0f}" if np.isfinite(x) else "never"


def bare(table: BetTable | None = None, **more: object) -> FleetConfig:
    """A fleet that only detects: no season, no ring, no burn-in of its own."""
    settings: dict[str, object] = {
        "seasonal": False, "margins": False, "ring_buckets": 0, "ring_hours": 0, "burn_in_units": 0,
    }  # fmt: skip
    return FleetConfig(table or rate_bets(), **(settings | more))  # type: ignore[arg-type]


def rate_fleet(config: FleetConfig, rates: Floats, burn_in: Floats | int | None, rng: np.random.Generator) -> Fleet:
    """A fleet with a learned baseline; `burn_in` None: the rate is known."""
    fleet = Fleet(config, len(rates))
    if burn_in is None:
        bad, units = rates * 1e12, np.full(len(rates), 1e12)
    else:
        units = np.broadcast_to(np.asarray(burn_in), rates.shape)
        bad = rng.binomial(units.astype(np.int64), rates).astype(np.float64)
    fleet.state["pooled"][0, 0] = units - bad
    fleet.state["pooled"][0, 1] = bad
    return fleet


def alarms(fleet: Fleet, side: int | None, limit: float = LIMIT, rows: object = slice(None)) -> Bools:
    """Return the series that are at or above the limit."""
    result: Bools = mean_evidence(fleet.config.table, fleet.state["evidence"][:, rows], side) >= limit  # type: ignore[index]
    return result


def warm_up(fleet: Fleet, rates: Floats, side: int | None, rng: np.random.Generator) -> tuple[Bools, int]:
    """Fold 4,500 to 5,499 events before the change; return who alarmed, and the next bucket."""
    early = np.zeros(len(rates), np.bool_)
    extra = rng.integers(0, 1000, len(rates))
    sizes = [np.full(len(rates), 50)] * 90 + [(extra + i) // 20 for i in range(20)]
    for bucket, units in enumerate(sizes, 1):
        k = rng.binomial(units, rates)
        fleet.fold(bucket, np.stack([units - k, k]))
        early |= alarms(fleet, side)
    return early, len(sizes) + 1


def rate_delays(
    before: float, after: float, burn_in: int | None, streams: int, step: int, rng: np.random.Generator,
    side: int | None = None, config: FleetConfig | None = None,
) -> tuple[Delays, Fleet, Bools]:  # fmt: skip
    """Delay of the e-detector in events, folded `step` events at a time after the change."""
    rates = np.full(streams, before)
    fleet = rate_fleet(config or bare(), rates, burn_in, rng)
    side = side if side is not None else (1 if after > before else -1)
    early, bucket = warm_up(fleet, rates, side, rng)
    delay = np.full(streams, NEVER)
    waiting = np.flatnonzero(~early)
    for passed in range(step, PATIENCE + 1, step):
        if not len(waiting):
            break
        k = rng.binomial(step, after, len(waiting))
        fleet.fold(bucket, np.stack([step - k, k]), waiting)
        bucket += 1
        hit = alarms(fleet, side, rows=waiting)
        delay[waiting[hit]] = passed
        waiting = waiting[~hit]
    return Delays(delay[~early]), fleet, early
