"""Coverage of the interval: 93-97 % if ten effective units of each kind are expected, never too short below that.

Exact sums over the binomial distribution for equal weights; seeded simulation for unequal ones.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

from gapwatch.sinks.catalog.rate_interval import with_interval
from gapwatch.sinks.store.store import Store
from tests.builders import KEPT_AT, NOON, scored_slice
from tests.gapwatch_command import gapwatch

Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Intervals:
    rate: Numbers
    effective: Numbers
    lower: Numbers
    upper: Numbers


def intervals(bad: Numbers, good: Numbers, weights: Numbers) -> Intervals:
    """Run the SQL over many samples at once; a row is one sample, a column the units of one weight."""
    columns = {
        "i": np.arange(len(bad)),
        "wb": bad @ weights,
        "wb2": bad @ weights**2,
        "wg": good @ weights,
        "wg2": good @ weights**2,
        "w3": (bad + good) @ weights**3,
    }
    with duckdb.connect() as con:
        con.register("sums", pa.table(columns))
        sql = with_interval("SELECT * FROM sums")
        found = con.execute(f"SELECT rate, effective_units, lower, upper FROM ({sql}) ORDER BY i").fetchnumpy()
    return Intervals(*(np.ma.filled(found[name], np.nan) for name in ("rate", "effective_units", "lower", "upper")))


def plain(n: int) -> Intervals:
    """Intervals of all outcomes of n units of weight 1."""
    bad = np.arange(n + 1.0)[:, None]
    return intervals(bad, n - bad, np.ones(1))


def binomial(n: int, p: Numbers) -> Numbers:
    """Probabilities of 0..n (rows) at each p (columns)."""
    k = np.arange(n + 1)
    choose = np.array([math.lgamma(n + 1) - math.lgamma(i + 1) - math.lgamma(n - i + 1) for i in k])
    return np.asarray(np.exp(choose[:, None] + k[:, None] * np.log(p) + (n - k[:, None]) * np.log1p(-p)))


@functools.cache
def coverage(n: int) -> tuple[Numbers, Numbers]:
    """Return (rate, exact coverage) at and beside every limit, where coverage has its extremes, and between them."""
    found = plain(n)
    limits = np.unique(np.concatenate([found.lower, found.upper, [10 / n]]))
    limits = limits[(limits > 0) & (limits <= 0.5)]
    p = np.concatenate([limits * (1 - 1e-9), limits, limits * (1 + 1e-9), (limits[1:] + limits[:-1]) / 2])
    covers = (found.lower[:, None] <= p) & (p <= found.upper[:, None])
    return p, (binomial(n, p) * covers).sum(axis=0)


#: A matrix of n by 8 n probabilities each.
LARGE = [pytest.param(n, marks=pytest.mark.slow) for n in (1000, 3000)]


@pytest.mark.parametrize("n", [20, 22, 25, 30, 33, 40, 60, 100, 150, 400, *LARGE])
def test_equal_weights_cover_93_to_97_percent_where_ten_of_each_are_expected(n: int) -> None:
    p, covered = coverage(n)
    enough = n * p >= 10 * (1 - 1e-12)
    assert enough.any()
    assert covered[enough].min() >= 0.93
    assert covered[enough].max() <= 0.971


@pytest.mark.parametrize("n", [1, 2, 3, 5, 8, 10, 15, 20, 30, 60, 100, 400, *LARGE])
def test_equal_weights_are_never_too_short_where_fewer_are_expected(n: int) -> None:
    p, covered = coverage(n)
    few = n * p < 9.9
    assert covered[few].min() >= 0.949
    # In the seam, below ten by 1 %, the narrow limits hold already.
    assert covered[n * p < 10].min() >= 0.94


def test_the_limits_for_few_are_those_of_clopper_and_pearson() -> None:
    # 0 of 10, 1 of 10, 3 of 50, 5 of 5, from tables; Paulson's quantiles are off by 1 % above, by more below.
    assert plain(10).upper[0] == pytest.approx(0.3085, rel=0.01)
    assert plain(10).upper[1] == pytest.approx(0.4450, rel=0.01)
    assert plain(50).upper[3] == pytest.approx(0.1655, rel=0.01)
    assert plain(50).lower[3] == pytest.approx(0.0125, rel=0.03)
    assert 0 < plain(10).lower[1] < 0.00253
    assert (plain(5).lower[5], plain(5).upper[5]) == (pytest.approx(0.4782, rel=0.01), 1.0)


def test_limits_lie_around_the_rate_grow_with_it_and_mirror() -> None:
    for n in (1, 7, 40, 300):
        found = plain(n)
        assert (found.lower <= found.rate).all() and (found.rate <= found.upper).all()
        assert (np.diff(found.lower) >= 0).all() and (np.diff(found.upper) >= 0).all()
        assert found.lower == pytest.approx(1 - found.upper[::-1], abs=1e-12)
        assert (found.lower >= 0).all() and (found.upper <= 1).all()
        assert found.effective == pytest.approx(n)


@dataclass(frozen=True)
class Process:
    """Traces of several kinds: share, rate of failing and probability of being selected of each.

    Effective units are those of the process, not of one sample.
    """

    name: str
    shares: tuple[float, ...]
    rates: tuple[float, ...]
    probabilities: tuple[float, ...]

    @property
    def rate(self) -> float:
        return float(np.dot(self.shares, self.rates))

    def effective_share(self) -> float:
        """Effective units of a trace that the process makes."""
        s, r, p = (np.array(values) for values in (self.shares, self.rates, self.probabilities))
        variance = (1 - self.rate) ** 2 * (s * r / p).sum() + self.rate**2 * (s * (1 - r) / p).sum()
        return float(self.rate * (1 - self.rate) / variance)

    def draw(self, traces: int, samples: int, seed: int) -> tuple[Numbers, Numbers]:
        """Select from `traces` traces, many times: counts of bad and of good units by kind."""
        s, r, p = (np.array(values) for values in (self.shares, self.rates, self.probabilities))
        cells = np.concatenate([s * r * p, s * (1 - r) * p])
        drawn = np.random.default_rng(seed).multinomial(traces, [*cells, max(1 - cells.sum(), 0)], size=samples)
        return drawn[:, : len(s)].astype(float), drawn[:, len(s) : -1].astype(float)


PROCESSES = [
    Process("all seen, rare", (1.0,), (0.01,), (1.0,)),
    Process("uniform, rare", (1.0,), (0.02,), (0.1,)),
    Process("uniform, often", (1.0,), (0.3,), (0.05,)),
    Process("errors all kept, 1 in 10 of the rest", (0.05, 0.95), (0.5, 0.02), (1.0, 0.1)),
    Process("errors all kept, 1 in 20 of the rest", (0.1, 0.9), (0.3, 0.05), (1.0, 0.05)),
    Process("errors all kept, half fail", (0.3, 0.7), (0.9, 0.3), (1.0, 0.2)),
    Process("the failing kind is seen less", (0.3, 0.7), (0.2, 0.02), (0.1, 0.5)),
    Process("the failing kind is seen least", (0.5, 0.5), (0.4, 0.05), (0.05, 0.5)),
    Process("a mixture, alike", (0.4, 0.3, 0.2, 0.1), (0.1, 0.1, 0.1, 0.1), (1.0, 0.5, 0.2, 0.1)),
    Process("a mixture, correlated", (0.4, 0.3, 0.2, 0.1), (0.02, 0.05, 0.1, 0.3), (0.25, 0.3, 0.5, 1.0)),
    Process("a mixture, correlated the other way", (0.4, 0.3, 0.2, 0.1), (0.02, 0.05, 0.1, 0.3), (1.0, 0.5, 0.3, 0.15)),
]
#: Standard error of a coverage of 95 % by simulation: 0.2 %.
SAMPLES = 12_000


def covered(process: Process, expected: float, seed: int = 5) -> float:
    """Share of samples whose interval holds the rate, at so many expected effective units of the rarer outcome."""
    rarer = min(process.rate, 1 - process.rate)
    traces = math.ceil(expected / rarer / process.effective_share())
    bad, good = process.draw(traces, SAMPLES, seed)
    found = intervals(bad, good, 1 / np.array(process.probabilities))
    nothing = np.isnan(found.rate)
    return float(((found.lower <= process.rate) & (process.rate <= found.upper) | nothing).mean())


@pytest.mark.parametrize("expected", [10.5, 15, 25, 60, 200])
@pytest.mark.parametrize("process", PROCESSES, ids=lambda process: process.name)
def test_weighted_intervals_cover_93_to_97_percent_where_ten_of_each_are_expected(
    process: Process, expected: float
) -> None:
    assert 0.93 <= covered(process, expected) <= 0.97


@pytest.mark.parametrize("expected", [2, 4, 7])
@pytest.mark.parametrize("process", PROCESSES, ids=lambda process: process.name)
def test_weighted_intervals_are_not_too_short_where_fewer_are_expected(process: Process, expected: float) -> None:
    # 0.939 where four weights from 1 to 7 meet and the heaviest kind fails most; all others 0.95 or more.
    assert covered(process, expected) >= (0.935 if process == PROCESSES[-1] else 0.945)


@pytest.mark.parametrize("expected", [0.5, 1])
@pytest.mark.parametrize("process", PROCESSES, ids=lambda process: process.name)
def test_even_a_kind_of_which_nothing_was_seen_costs_little(process: Process, expected: float) -> None:
    assert covered(process, expected) >= 0.93


@pytest.mark.parametrize("expected", [10.5, 15, 25, 60])
def test_a_heavy_kind_that_hardly_fails_makes_intervals_too_wide_not_too_short(expected: float) -> None:
    # Less than one bad unit is expected of those that weigh ten; whether it came decides over a third of the variance.
    process = Process(
        "the failing kinds are seen most", (0.4, 0.3, 0.2, 0.1), (0.02, 0.05, 0.1, 0.3), (0.1, 0.2, 0.5, 1.0)
    )
    assert 0.95 <= covered(process, expected) <= 0.99


def test_a_plain_wilson_score_at_the_effective_units_would_break_the_law() -> None:
    process, z = PROCESSES[3], 1.96
    traces = math.ceil(4 / process.rate / process.effective_share())
    bad, good = process.draw(traces, SAMPLES, 5)
    found = intervals(bad, good, 1 / np.array(process.probabilities))
    n, r = found.effective, found.rate
    middle = (r + z * z / 2 / n) / (1 + z * z / n)
    half = z / (1 + z * z / n) * np.sqrt(r * (1 - r) / n + z * z / 4 / n / n)
    assert ((middle - half <= process.rate) & (process.rate <= middle + half)).mean() < 0.93


def test_the_rate_is_that_of_the_process_not_of_what_was_seen() -> None:
    process = PROCESSES[3]
    bad, good = process.draw(20_000, 2_000, 1)
    found = intervals(bad, good, 1 / np.array(process.probabilities))
    assert found.rate.mean() == pytest.approx(process.rate, rel=0.01)
    assert (bad.sum(axis=1) / (bad + good).sum(axis=1)).mean() > 4 * process.rate


@pytest.fixture
def con(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "s.duckdb", create=True) as store:
        yield store


def test_the_view_has_one_row_a_series_and_hour(con: Store) -> None:
    at = [NOON, NOON + timedelta(minutes=59), NOON + timedelta(hours=1), None]
    ticks = [
        {"bucket": moment, "outcome": outcome, "n": n} for moment in at for outcome, n in (("good", 9), ("bad", 1))
    ]
    ticks += [{"outcome": "unknown", "n": 5}, {"level": "span", "outcome": "fail", "n": 50}]
    ticks += [
        {"facet": "tier", "value": "primary", "outcome": "bad", "n": 7},
        {"epoch": "e1", "outcome": "good", "n": 3},
    ]
    con.write_slice(scored_slice(ticks=ticks), KEPT_AT)

    rows = con.query("SELECT epoch, hour, units, bad, unknown, rate FROM rates ORDER BY epoch, hour NULLS LAST")
    hour = NOON + timedelta(hours=1)
    assert rows == [
        ("e0", NOON, 20, 2, 5, 0.1), ("e0", hour, 10, 1, 0, 0.1), ("e0", None, 10, 1, 0, 0.1),
        ("e1", NOON, 3, 0, 0, 0.0),
    ]  # fmt: skip


def test_the_view_weighs_by_one_over_p(con: Store) -> None:
    ticks = [
        {"outcome": "bad", "n": 5, "p": 1.0},
        {"outcome": "good", "n": 5, "p": 1.0},
        {"outcome": "bad", "n": 1, "p": 0.1},
        {"outcome": "good", "n": 8, "p": 0.1},
        {"outcome": "unknown", "n": 10, "p": 0.5},
        {"outcome": "unknown", "n": 5, "p": 1.0},
    ]
    con.write_slice(scored_slice(ticks=ticks), KEPT_AT)
    [(units, bad, rate, effective, share)] = con.query(
        "SELECT units, bad, rate, effective_units, unknown_share FROM rates"
    )
    assert (units, bad, rate, share) == (19, 6, 0.15, 0.2)
    # r (1 - r) W^2 over (1-r)^2 B2 + r^2 G2, with B2 = 5 + 100 and G2 = 5 + 800
    assert effective == pytest.approx(0.15 * 0.85 * 100**2 / (0.85**2 * 105 + 0.15**2 * 805))


def test_only_unknown_units_give_no_rate(con: Store) -> None:
    con.write_slice(scored_slice(ticks=[{"outcome": "unknown", "n": 5}]), KEPT_AT)
    assert con.query("SELECT units, bad, unknown, effective_units, rate, lower, upper, unknown_share FROM rates") == [
        (0, 0, 5, None, None, None, None, 1.0)
    ]


def test_kish_counts_where_every_unit_is_good(con: Store) -> None:
    con.write_slice(
        scored_slice(ticks=[{"outcome": "good", "n": 10, "p": 1.0}, {"outcome": "good", "n": 2, "p": 0.1}]), KEPT_AT
    )
    [(effective, rate, lower, upper)] = con.query("SELECT effective_units, rate, lower, upper FROM rates")
    assert (effective, rate, lower) == (pytest.approx(30**2 / 210), 0.0, 0.0)
    # More than for 12 plain units (0.265), for two of them speak for ten each.
    assert 0.5 < upper < 0.9


def test_a_unit_of_weight_infinity_is_no_reason_to_fail(con: Store) -> None:
    con.write_slice(scored_slice(ticks=[{"outcome": "good", "n": 1, "p": 1e-300}, {"outcome": "bad", "n": 1}]), KEPT_AT)
    assert len(con.query("SELECT * FROM rates")) == 1


def test_the_command_and_the_view_say_the_same(tmp_path: Path) -> None:
    path = tmp_path / "s.duckdb"
    with Store.open(path, create=True) as store:
        ticks = [{"outcome": "bad", "n": 3, "p": 0.5}, {"outcome": "good", "n": 90, "p": 0.2}]
        store.write_slice(scored_slice(ticks=ticks), KEPT_AT)
        [view] = store.query("SELECT units, bad, effective_units, rate, lower, upper FROM rates")
    for per in ("hour", "day", "all"):
        [row] = gapwatch("rates", "--store", path, "--per", per, "--format", "json").json()
        names = ("units", "bad", "effective_units", "rate", "lower", "upper")
        assert tuple(row[name] for name in names) == pytest.approx(view)
