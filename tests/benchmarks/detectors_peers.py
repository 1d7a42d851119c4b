"""Peers of the e-detector: the oracle CUSUM, windows of 500 units, PSI, and river's ADWIN."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from river.drift import ADWIN

from gapwatch.streams.detectors.arrays import Floats
from tests.benchmarks.detectors_streams import HORIZON, NEVER, PATIENCE, PROMISE, Delays

Draw = Callable[[np.random.Generator, tuple[int, ...]], Floats]
WINDOW = 500
# ADWIN deltas for 5 % false alarms in 50,000 events, found by bisection; the run measures what they give.
TUNED_DELTA = {0.01: 0.054, 0.05: 0.017, 0.2: 0.009}


def cusum_limit(score: Callable[[Floats], Floats], draw: Draw, streams: int, rng: np.random.Generator) -> float:
    """Threshold at which a CUSUM alarms in 5 % of change-free streams of 50,000 events."""
    level, highest = np.zeros(streams), np.zeros(streams)
    for _ in range(HORIZON // 500):
        for row in score(draw(rng, (500, streams))):
            level += row
            np.maximum(level, 0.0, out=level)
            np.maximum(highest, level, out=highest)
    return float(np.quantile(highest, 1.0 - PROMISE))


def cusum_delays(
    score: Callable[[Floats], Floats], before: Draw, after: Draw, limit: float, streams: int, rng: np.random.Generator
) -> Delays:
    level, early = np.zeros(streams), np.zeros(streams, np.bool_)
    for row in score(before(rng, (5000, streams))):
        level = np.maximum(level + row, 0.0)
        early |= level >= limit
    delay = np.full(streams, NEVER)
    for chunk in range(PATIENCE // 500):
        for i, row in enumerate(score(after(rng, (500, streams)))):
            level = np.maximum(level + row, 0.0)
            delay = np.where((level >= limit) & np.isinf(delay), chunk * 500 + i + 1, delay)
        if np.isfinite(delay).all():
            break
    return Delays(delay[~early])


def bernoulli(rate: float) -> Draw:
    return lambda rng, shape: (rng.random(shape, dtype=np.float32) < rate).astype(np.float64)


def bernoulli_score(before: float, after: float) -> Callable[[Floats], Floats]:
    yes, no = np.log(after / before), np.log((1 - after) / (1 - before))
    return lambda x: np.where(x > 0, yes, no)


def window_z(k: Floats, reference_k: Floats, reference_n: int, sign: int) -> Floats:
    """Z of a 500-unit window against a reference, towards `sign`."""
    p0, p1 = (reference_k + 0.5) / (reference_n + 1), k / WINDOW
    return np.asarray(sign * (p1 - p0) / np.sqrt(p0 * (1 - p0) * (1 / WINDOW + 1 / reference_n)))


def window_psi(k: Floats, reference_k: Floats, reference_n: int) -> Floats:
    p0, p1 = (reference_k + 0.5) / (reference_n + 1), (k + 0.5) / (WINDOW + 1)
    return np.asarray((p1 - p0) * np.log(p1 / p0) + (p0 - p1) * np.log((1 - p1) / (1 - p0)))


def window_limit(before: float, sign: int, streams: int, rng: np.random.Generator) -> float:
    """Threshold of the window z test that alarms in 5 % of change-free streams, reference of 2,000 events."""
    reference = rng.binomial(2000, before, streams).astype(float)
    k = rng.binomial(WINDOW, before, (HORIZON // WINDOW, streams)).astype(float)
    return float(np.quantile(window_z(k, reference, 2000, sign).max(axis=0), 1.0 - PROMISE))


def window_delays(
    before: float, after: float, test: Callable[[Floats, Floats], Floats], limit: float, streams: int,
    rng: np.random.Generator,
) -> Delays:  # fmt: skip
    """Windows of 500 one after the other; the change falls anywhere inside one."""
    reference = rng.binomial(2000, before, streams).astype(float)
    early = np.zeros(streams, np.bool_)
    for _ in range(10):
        early |= test(rng.binomial(WINDOW, before, streams).astype(float), reference) >= limit
    old = rng.integers(0, WINDOW, streams)
    delay = np.full(streams, NEVER)
    for window in range(PATIENCE // WINDOW):
        old_here = old if window == 0 else np.zeros_like(old)
        k = rng.binomial(old_here, before) + rng.binomial(WINDOW - old_here, after)
        hit = test(k.astype(float), reference) >= limit
        delay = np.where(hit & np.isinf(delay), (window + 1) * WINDOW - old, delay)
    return Delays(delay[~early])


def adwin_alarms(
    draw: Draw, streams: int, rng: np.random.Generator, delta: float = 0.002, burn_in: int = 2000
) -> float:
    """Share of change-free streams with an alarm in 50,000 events after the burn-in."""
    found = 0
    for _ in range(streams):
        detector, hit = ADWIN(delta=delta), False
        for i, x in enumerate(draw(rng, (burn_in + HORIZON,)).tolist()):
            detector.update(x)
            if i >= burn_in and detector.drift_detected:
                hit = True
                break
        found += hit
    return found / streams


def adwin_stream_alarms(streams: list[list[float]], burn_in: int) -> float:
    """The same for given streams."""
    found = 0
    for stream in streams:
        detector = ADWIN()
        for i, x in enumerate(stream):
            detector.update(x)
            if i >= burn_in and detector.drift_detected:
                found += 1
                break
    return found / len(streams)


def adwin_delays(before: Draw, after: Draw, streams: int, rng: np.random.Generator, delta: float = 0.002) -> Delays:
    values = []
    for _ in range(streams):
        detector, early = ADWIN(delta=delta), False
        for i, x in enumerate(before(rng, (6500 + int(rng.integers(0, 1000)),)).tolist()):
            detector.update(x)
            early |= i >= 2000 and detector.drift_detected
        if early:
            continue
        delay = NEVER
        for i, x in enumerate(after(rng, (PATIENCE,)).tolist()):
            detector.update(x)
            if detector.drift_detected:
                delay = i + 1
                break
        values.append(delay)
    return Delays(np.array(values))
