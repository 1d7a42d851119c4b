"""Agreement of two judges, or of a judge and a person: kappa, F1 and shares with confidence intervals."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

#: Quantile of a two-sided 95 % interval.
_Z = 1.959963984540054
#: Bootstrap resamples. With fewer, the ends of an interval vary by more than 0.01.
RESAMPLES = 2_000
_SEED = 20261121

Pair = tuple[str, str]
#: Number of times that each pair occurs.
Counts = Mapping[Pair, int]


@dataclass(frozen=True)
class Estimate:
    """Estimate with its 95 % confidence interval.

    Attributes:
        value: The estimate; NaN where it is not defined.
        lower, upper: Ends of the interval; NaN where it is not defined.
        n: Number of items.
    """

    value: float
    lower: float
    upper: float
    n: int

    def __str__(self) -> str:
        if math.isnan(self.value):
            return f"not defined (n = {self.n})"
        if math.isnan(self.lower):
            return f"{self.value:.2f} (no interval, n = {self.n})"
        return f"{self.value:.2f} ({self.lower:.2f} to {self.upper:.2f}, n = {self.n})"


def cohens_kappa(pairs: Sequence[Pair]) -> float:
    """Return Cohen's kappa of pairs of labels: 1 is full agreement, 0 that of chance; NaN if neither ever varies.

    Source:
        Cohen (1960), A coefficient of agreement for nominal scales.
    """
    return _kappa(Counter(pairs))


def _kappa(counts: Counts) -> float:
    n = sum(counts.values())
    if n == 0:
        return math.nan
    first: Counter[str] = Counter()
    second: Counter[str] = Counter()
    for (a, b), k in counts.items():
        first[a] += k
        second[b] += k
    observed = sum(k for (a, b), k in counts.items() if a == b) / n
    chance = sum(first[label] * second[label] for label in first) / (n * n)
    return math.nan if chance >= 1 else (observed - chance) / (1 - chance)


def _f1(counts: Counts, positive: str) -> float:
    hits = sum(k for (a, b), k in counts.items() if a == positive == b)
    wrong = sum(k for (a, b), k in counts.items() if (a == positive) != (b == positive))
    return math.nan if hits + wrong == 0 else 2 * hits / (2 * hits + wrong)


def share(part: int, n: int) -> Estimate:
    """Return the share `part` / `n` with Wilson's confidence interval."""
    if n == 0:
        return Estimate(math.nan, math.nan, math.nan, 0)
    p = part / n
    middle = (p + _Z * _Z / (2 * n)) / (1 + _Z * _Z / n)
    half = _Z * math.sqrt(p * (1 - p) / n + _Z * _Z / (4 * n * n)) / (1 + _Z * _Z / n)
    return Estimate(p, max(middle - half, 0.0), min(middle + half, 1.0), n)


def estimate(pairs: Sequence[Pair], statistic: Callable[[Counts], float]) -> Estimate:
    """Return a statistic of pairs with a bootstrap confidence interval.

    The interval has the percentiles of resamples with a fixed seed, so equal data give an equal interval. Resamples on
    which the statistic is not defined are left out. The interval is not defined where these are more than half, or
    where all resamples give the same value, as for a judge with a constant answer, or for perfect agreement. It is too
    short with fewer than about twenty pairs, or with an outcome that occurs less than five times.

    Args:
        pairs: Pairs of labels.
        statistic: Function of the number of times that each pair occurs; NaN where it is not defined.
    """
    n, counts = len(pairs), Counter(pairs)
    value = statistic(counts)
    kinds = sorted(counts)
    if not kinds or math.isnan(value):
        return Estimate(value, math.nan, math.nan, n)
    shares = np.array([counts[kind] for kind in kinds]) / n
    drawn = np.random.default_rng(_SEED).multinomial(n, shares, RESAMPLES).tolist()
    found = sorted(x for row in drawn if not math.isnan(x := statistic(dict(zip(kinds, row, strict=True)))))
    if len(found) < RESAMPLES / 2 or found[0] == found[-1]:
        return Estimate(value, math.nan, math.nan, n)
    return Estimate(value, found[int(0.025 * len(found))], found[min(int(0.975 * len(found)), len(found) - 1)], n)


def kappa(pairs: Sequence[Pair]) -> Estimate:
    """Return Cohen's kappa with its confidence interval."""
    return estimate(pairs, _kappa)


def f1(pairs: Sequence[Pair], positive: str = "fail") -> Estimate:
    """Return F1 of pairs (given label, true label) with its confidence interval; NaN where no label is `positive`."""
    return estimate(pairs, lambda counts: _f1(counts, positive))
