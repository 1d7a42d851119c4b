"""Numbers: scores Beta(8, 2), latencies log-normal with a 2 % Pareto tail of infinite variance, on the grid."""

from __future__ import annotations

import math

import numpy as np

from gapwatch.scorers.slices.value_histogram import histogram_cells
from gapwatch.streams.detectors.arrays import Floats
from gapwatch.streams.detectors.bets import number_bets
from gapwatch.streams.detectors.fleet import Fleet
from gapwatch.streams.detectors.grid import count_bins, form_bins
from tests.benchmarks import detectors_peers as peers
from tests.benchmarks.detectors_peers import Draw
from tests.benchmarks.detectors_report import Report, row_text
from tests.benchmarks.detectors_streams import HORIZON, LIMIT, NEVER, PATIENCE, PROMISE, Delays, Size, alarms, bare

SIGMA = 0.6
TAIL_FROM, TAIL_INDEX = 3.0, 1.5


def scores(a: float, b: float, collapse: float = 0.0) -> Draw:
    def draw(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        x = rng.beta(a, b, shape)
        return np.where(rng.random(shape) < collapse, rng.beta(2, 8, shape), x) if collapse else x

    return draw


def score_density(a: float, b: float, collapse: float = 0.0):  # type: ignore[no-untyped-def]
    def beta(x: Floats, p: float, q: float) -> Floats:
        norm = math.lgamma(p + q) - math.lgamma(p) - math.lgamma(q)
        return np.exp(norm + (p - 1) * np.log(x) + (q - 1) * np.log1p(-x))

    return lambda x: (1 - collapse) * beta(x, a, b) + collapse * beta(x, 2, 8)


def latencies(factor: float = 1.0, tail: float = 0.02) -> Draw:
    def draw(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        slow = TAIL_FROM * (1.0 - rng.random(shape)) ** (-1.0 / TAIL_INDEX)
        return factor * np.where(rng.random(shape) < tail, slow, rng.lognormal(0.0, SIGMA, shape))

    return draw


def latency_density(factor: float = 1.0, tail: float = 0.02):  # type: ignore[no-untyped-def]
    def density(y: Floats) -> Floats:
        x = y / factor
        body = np.exp(-0.5 * (np.log(x) / SIGMA) ** 2) / (x * SIGMA * math.sqrt(2 * math.pi))
        slow = np.where(
            x >= TAIL_FROM, TAIL_INDEX * TAIL_FROM**TAIL_INDEX / np.maximum(x, 1e-9) ** (TAIL_INDEX + 1), 0.0
        )
        return ((1 - tail) * body + tail * slow) / factor

    return density


KINDS = {
    "scores": (scores(8, 2), score_density(8, 2), {
        "mean .80->.78": (scores(7.8, 2.2), score_density(7.8, 2.2)),
        "mean .80->.75": (scores(7.5, 2.5), score_density(7.5, 2.5)),
        "spread only": (scores(4, 1), score_density(4, 1)),
        "10% collapse to .2": (scores(8, 2, 0.1), score_density(8, 2, 0.1)),
    }),
    "latencies": (latencies(), latency_density(), {
        "all x1.1": (latencies(1.1), latency_density(1.1)),
        "all x1.25": (latencies(1.25), latency_density(1.25)),
        "all x2": (latencies(2.0), latency_density(2.0)),
        "slow tail 2%->6%": (latencies(1.0, 0.06), latency_density(1.0, 0.06)),
    }),
}  # fmt: skip


class Streams:
    """Number series that share nothing but the law they are drawn from; each has bins from its own burn-in."""

    def __init__(self, draw: Draw, burn_in: int, streams: int, rng: np.random.Generator) -> None:
        self.fleet = Fleet(bare(number_bets()), streams)
        self.edges = np.empty((streams, 25), np.int64)
        self.bucket = 0
        for row, values in enumerate(histogram_cells(draw(rng, (streams, burn_in)))):
            cells, counts = np.unique(values, return_counts=True)
            bins = form_bins(dict(zip(cells.tolist(), counts.tolist(), strict=True)))
            self.edges[row] = bins.edges
            self.fleet.state["prior"][:, row] = bins.prior

    def fold(self, values: Floats, rows: np.ndarray) -> None:
        """Fold one bucket, shape (rows, units)."""
        self.bucket += 1
        which = np.repeat(np.arange(len(rows)), values.shape[1])
        counts = count_bins(self.edges[rows], which, histogram_cells(values).ravel(), np.ones(values.size, np.int64))
        self.fleet.fold(self.bucket, counts, rows)


def false_alarms(size: Size, report: Report) -> None:
    step = 25
    streams = {"quick": 100, "full": 1000}[size.name]
    found = {}
    for kind, (draw, _, _) in KINDS.items():
        for burn_in in (100, 500, 2000):
            rng = np.random.default_rng(burn_in)
            series = Streams(draw, burn_in, streams, rng)
            waiting = np.arange(streams)
            for _ in range(HORIZON // step):
                series.fold(draw(rng, (len(waiting), step)), waiting)
                waiting = waiting[~alarms(series.fleet, None, rows=waiting)]
            found[kind, burn_in] = 1.0 - len(waiting) / streams
    report.line(
        "\nnumbers, false alarms in 50,000 events, %: "
        + ", ".join(f"{k} {b}: {100 * v:.1f}" for (k, b), v in found.items())
    )
    bound = PROMISE + 3 * np.sqrt(PROMISE * 0.95 / streams)
    small = [v for (_, b), v in found.items() if b == 100]
    report.goal(
        "numbers, burn-in 100, heavy tails included: <= 5 %",
        f"{100 * min(small):.1f} to {100 * max(small):.1f} %",
        max(small) <= PROMISE,
    )
    report.goal(
        "numbers, all burn-ins: <= 5 % + 3 se",
        f"highest {100 * max(found.values()):.1f} %",
        max(found.values()) <= bound,
    )


def delays(size: Size, report: Report) -> None:
    rng = np.random.default_rng(11)
    streams = {"quick": 60, "full": 300}[size.name]
    ratios, collapse = [], NEVER
    for kind, (draw, density, changes) in KINDS.items():
        table: dict[str, list[str]] = {}
        for name, (moved, moved_density) in changes.items():

            def score(x: Floats, f=density, g=moved_density) -> Floats:  # type: ignore[no-untyped-def]
                return np.log(g(x) / f(x))

            limit = peers.cusum_limit(score, draw, size.calibration // 4, rng)
            oracle = peers.cusum_delays(score, draw, moved, limit, streams, rng)
            found = _delays(draw, moved, streams, max(1, int(oracle.median / 50)), rng)
            table.setdefault("oracle CUSUM (both laws known)", []).append(str(oracle))
            table.setdefault("e-detector, learned from 2,000", []).append(str(found))
            adwin = peers.adwin_delays(draw, moved, size.events, rng)
            table.setdefault("ADWIN default, raw", []).append(str(adwin))
            if kind == "latencies":
                log = peers.adwin_delays(_log(draw), _log(moved), size.events, rng)
                table.setdefault("ADWIN default, log", []).append(str(log))
            table.setdefault("PSI 500 at 0.1, ten bins", []).append(str(_psi_delays(draw, moved, streams, rng)))
            if name.startswith("10%"):
                collapse = found.median
            else:
                ratios.append(found.median / oracle.median)
        report.line(f"\n{kind}, delay in events: " + ", ".join(changes))
        for name, cells in table.items():
            report.line(row_text(name, cells))
        alarm = peers.adwin_alarms(draw, size.events, rng)
        report.line(f"  ADWIN default, raw: false alarms in 50,000 events {100 * alarm:.0f} %")
    report.goal(
        "numbers: delay / oracle <= 2.3 for location, spread, tail",
        f"{min(ratios):.2f} to {max(ratios):.2f}",
        max(ratios) <= 2.3,
    )
    report.goal("scores: 10 % collapse seen in <= 60 units", f"{collapse:.0f}", collapse <= 60)


def _delays(before: Draw, after: Draw, streams: int, step: int, rng: np.random.Generator) -> Delays:
    series = Streams(before, 2000, streams, rng)
    everyone = np.arange(streams)
    early = np.zeros(streams, np.bool_)
    for _ in range(100):
        series.fold(before(rng, (streams, 50)), everyone)
        early |= alarms(series.fleet, None)
    delay = np.full(streams, NEVER)
    waiting = everyone[~early]
    for passed in range(step, PATIENCE + 1, step):
        if not len(waiting):
            break
        series.fold(after(rng, (len(waiting), step)), waiting)
        hit = alarms(series.fleet, None, LIMIT, waiting)
        delay[waiting[hit]] = passed
        waiting = waiting[~hit]
    return Delays(delay[~early])


def _log(draw: Draw) -> Draw:
    return lambda rng, shape: np.log(draw(rng, shape))


def _psi_delays(before: Draw, after: Draw, streams: int, rng: np.random.Generator) -> Delays:
    """Windows of 500 against a reference of 2,000 cut at its deciles."""
    reference = np.sort(before(rng, (streams, 2000)), axis=1)
    edges = reference[:, 200::200][:, :9]
    old = rng.integers(0, 500, streams)
    delay = np.full(streams, NEVER)
    for window in range(PATIENCE // 500):
        x = after(rng, (streams, 500))
        if window == 0:
            x = np.where(np.arange(500) < old[:, None], before(rng, (streams, 500)), x)
        bins = (x[:, :, None] > edges[:, None, :]).sum(axis=2)
        share = np.stack([(bins == b).sum(axis=1) for b in range(10)]) / 500 + 1e-3
        psi = ((share - 0.101) * np.log(share / 0.101)).sum(axis=0)
        delay = np.where((psi >= 0.1) & np.isinf(delay), (window + 1) * 500 - old, delay)
        if np.isfinite(delay).all() or window > 30:
            break
    return Delays(delay)
