"""Rates: false alarms in 72 cells, delays with a known and with a learned baseline, peers in the same run."""

from __future__ import annotations

import math

import numpy as np

from gapwatch.streams.detectors.change import divergence
from tests.benchmarks import detectors_peers as peers
from tests.benchmarks.detectors_report import Report, row_text
from tests.benchmarks.detectors_streams import (
    HORIZON,
    LIMIT,
    PROMISE,
    Delays,
    Size,
    alarms,
    bare,
    rate_delays,
    rate_fleet,
)

RATES = (0.001, 0.005, 0.01, 0.05, 0.2, 0.5)
BURN_INS = (0, 50, 200, 500, 2000, 10000)
CELLS = [(p, r) for p in (0.01, 0.05, 0.2) for r in (1.5, 2.0, 4.0)] + [(p, 0.5) for p in (0.01, 0.05, 0.2)]


def false_alarms(size: Size, report: Report) -> None:
    """72 cells: 6 rates, 6 burn-ins, up and down; 5 % are promised in 50,000 events.

    With --full unit by unit, which is where false alarms are most: larger buckets see fewer moments.
    """
    step = 1 if size.name == "full" else 10
    cells = [(p, b) for p in RATES for b in BURN_INS]
    rng = np.random.default_rng(1)
    rates = np.repeat([p for p, _ in cells], size.null)
    fleet = rate_fleet(bare(), rates, np.repeat([b for _, b in cells], size.null), rng)
    hits = {side: np.zeros(len(rates), np.bool_) for side in (1, -1)}
    for bucket in range(1, HORIZON // step + 1):
        k = rng.binomial(step, rates) if step > 1 else rng.random(len(rates), np.float32) < rates
        fleet.fold(bucket, np.stack([step - k, k]))
        for side, hit in hits.items():
            hit |= alarms(fleet, side)
    shares = []
    for side, name in ((1, "up"), (-1, "down")):
        table = hits[side].reshape(len(RATES), len(BURN_INS), size.null).mean(axis=2)
        shares.append(table)
        report.line(f"\nfalse alarms in 50,000 events, {name}, % (columns: burn-in {', '.join(map(str, BURN_INS))})")
        for p, row in zip(RATES, table, strict=True):
            report.line(row_text(f"p0 {p}", [f"{100 * share:.1f}" for share in row]))
    found = np.array(shares)
    bound = PROMISE + 3 * np.sqrt(PROMISE * (1 - PROMISE) / size.null)
    over = int((found > bound).sum())
    top, mean = 100 * found.max(), 100 * found.mean()
    text = f"highest {top:.1f} % (5 % + 3 se is {100 * bound:.1f}), {over} over; {step} unit(s) a bucket"
    report.goal("false alarms, 72 cells: each <= 5 % + 3 se", text, over == 0)
    report.goal("false alarms, 72 cells: mean <= 4.5 %", f"{mean:.1f} %", mean <= 4.5)


def planned_delay(before: float, after: float) -> float:
    """Return the units after which a change of a known rate is seen: (ln A + ln KL) / KL.

    Source: Lorden (1971) with the second-order term of the mixture.
    """
    information = divergence(after, before)
    return max((math.log(LIMIT) + math.log(information)) / information, 1.0)


def delays(size: Size, report: Report) -> None:
    """Medians against the oracle, ADWIN and windows, cell by cell."""
    rng = np.random.default_rng(2)
    table: dict[str, list[str]] = {}
    ratios: dict[str, list[float]] = {}

    def note(name: str, text: str) -> None:
        table.setdefault(name, []).append(text)

    def ratio(name: str, value: float) -> None:
        ratios.setdefault(name, []).append(value)

    tuned_alarms = ", ".join(
        f"p0 {p} delta {d} {100 * peers.adwin_alarms(peers.bernoulli(p), size.peers, rng, d):.1f} %"
        for p, d in peers.TUNED_DELTA.items()
    )
    report.line(f"\nfalse alarms of the tuned ADWIN in 50,000 events: {tuned_alarms}")
    for p0, factor in CELLS:
        p1 = p0 * factor
        one_by_one = size.peers if p0 >= 0.05 else size.peers // 2
        score = peers.bernoulli_score(p0, p1)
        null, moved = peers.bernoulli(p0), peers.bernoulli(p1)
        limit = peers.cusum_limit(score, null, size.calibration, rng)
        oracle = peers.cusum_delays(score, null, moved, limit, size.delay, rng)
        step = max(1, int(oracle.median / 400))
        known, _, _ = rate_delays(p0, p1, None, size.delay, step, rng)
        learned, _, _ = rate_delays(p0, p1, 2000, size.delay, step, rng)
        sign = 1 if factor > 1 else -1
        z_limit = peers.window_limit(p0, sign, size.calibration, rng)
        z = peers.window_delays(p0, p1, lambda k, r, s=sign: peers.window_z(k, r, 2000, s), z_limit, size.delay, rng)
        psi = peers.window_delays(p0, p1, lambda k, r: peers.window_psi(k, r, 2000), 0.1, size.delay, rng)
        adwin = peers.adwin_delays(null, moved, one_by_one, rng)
        plan = planned_delay(p0, p1)
        note("oracle CUSUM (both rates known)", str(oracle))
        note("e-detector, rate known", str(known))
        note("e-detector, learned from 2,000", str(learned))
        note("planning formula", f"{plan:.0f}")
        note("window 500 z, matched to 5 %", str(z))
        note("PSI 500 at 0.1", str(psi))
        note("ADWIN default", str(adwin))
        ratio("known", known.median / oracle.median)
        ratio(
            "learned .05" if p0 >= 0.05 else "learned .01" if factor != 1.5 else "learned .01 x1.5",
            learned.median / oracle.median,
        )
        ratio("adwin", _times(adwin, learned))
        ratio("window", _times(z, learned))
        if factor == 4 and p0 >= 0.05:
            ratio("window x4", z.median / learned.median)
        tuned = peers.adwin_delays(null, moved, one_by_one, rng, peers.TUNED_DELTA[p0])
        note("ADWIN, delta tuned to 5 %", str(tuned))
        ratio("tuned", _times(tuned, learned))
    report.line("\ndelay in events, median/95th (share seen), " + ", ".join(f"{p}x{r:g}" for p, r in CELLS))
    for name, cells in table.items():
        report.line(row_text(name, cells))
    report.goal("delay / oracle, rate known: <= 1.35", _range(ratios["known"]), max(ratios["known"]) <= 1.35)
    report.goal(
        "delay / oracle, learned, p0 >= .05: <= 1.6", _range(ratios["learned .05"]), max(ratios["learned .05"]) <= 1.6
    )
    report.goal(
        "same, p0 .01 at x2, x4, -50 %: <= 2.1", _range(ratios["learned .01"]), max(ratios["learned .01"]) <= 2.1
    )
    report.goal("ADWIN default / learned: >= 1.15", _range(ratios["adwin"]), min(ratios["adwin"]) >= 1.15)
    report.goal("ADWIN tuned / learned: >= 1/1.05", _range(ratios["tuned"]), min(ratios["tuned"]) >= 1 / 1.05)
    report.goal("window z / learned: >= 1.3", _range(ratios["window"]), min(ratios["window"]) >= 1.3)
    report.goal("window z / learned at x4, p0 >= .05: >= 4", _range(ratios["window x4"]), min(ratios["window x4"]) >= 4)


def peer_false_alarms(size: Size, report: Report) -> None:
    rng = np.random.default_rng(3)
    texts = []
    for p in (0.01, 0.05, 0.2):
        reference = rng.binomial(2000, p, size.calibration).astype(float)
        k = rng.binomial(500, p, (100, size.calibration)).astype(float)
        z = (peers.window_z(k, reference, 2000, 1) >= 1.645).any(axis=0).mean()
        psi = (peers.window_psi(k, reference, 2000) >= 0.1).any(axis=0).mean()
        adwin = peers.adwin_alarms(peers.bernoulli(p), size.events, rng)
        texts.append(
            f"p0 {p}: window z at p < .05 {100 * z:.0f}, PSI at 0.1 {100 * psi:.1f}, ADWIN default {100 * adwin:.1f}"
        )
    report.line("\nfalse alarms of the peers in 50,000 events, %: " + "; ".join(texts))


def _times(peer: Delays, own: Delays) -> float:
    """Return how many times longer the peer takes; where both medians are "never", by the shares of streams seen."""
    if np.isfinite(own.median):
        return peer.median / own.median
    if np.isfinite(peer.median):
        return 0.0
    return float(np.isfinite(own.values).mean() / max(np.isfinite(peer.values).mean(), 1e-3))


def _range(values: list[float]) -> str:
    return f"{min(values):.2f} to {max(values):.2f}" if np.isfinite(max(values)) else f"{min(values):.2f} to never"
