"""Paired differences of two runs: shares by McNemar's exact test, numbers by the paired t-test."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

#: Above this p-value a difference counts as chance.
LEVEL = 0.05
_Z = 1.959963984540054


@dataclass(frozen=True)
class PairedShares:
    """Two shares of passes over the same items.

    Attributes:
        both_pass, both_fail: Number of items with one outcome in both runs.
        better: Number of items that fail in the baseline and pass in the candidate.
        worse: Number of items that pass in the baseline and fail in the candidate.
    """

    both_pass: int
    both_fail: int
    better: int
    worse: int

    @property
    def n(self) -> int:
        """Number of items."""
        return self.both_pass + self.both_fail + self.better + self.worse

    @property
    def difference(self) -> float:
        """Share of the candidate minus that of the baseline; NaN without an item."""
        return (self.better - self.worse) / self.n if self.n else math.nan

    @property
    def interval(self) -> tuple[float, float]:
        """95 % interval of the difference for paired shares.

        Source:
            Bonett and Price (2012), Adjusted Wald confidence interval for a difference of binomial proportions based
            on paired data.
        """
        if not self.n:
            return math.nan, math.nan
        n = self.n + 2
        up, down = (self.better + 1) / n, (self.worse + 1) / n
        middle, half = up - down, _Z * math.sqrt((up + down - (up - down) ** 2) / n)
        return max(middle - half, -1.0), min(middle + half, 1.0)

    @property
    def p_value(self) -> float:
        """p-value of McNemar's exact test, two-sided."""
        return mcnemar_exact(self.better, self.worse)

    def sentence(self, noun: str, verb: str = "changed") -> str:
        """Return the sentence that says whether the difference can be told from chance at this size.

        Args:
            noun: What the items are, in the plural, such as tests.
            verb: What an item did that counts for one of the runs.
        """
        differ = self.better + self.worse
        if not self.n:
            return f"The runs share no decided {noun[:-1]}, so nothing can be compared."
        if not differ:
            return f"Both runs have the same outcome on all {self.n} {noun} that they share."
        p = f"McNemar's exact test, p = {self.p_value:.3g}"
        if self.p_value < LEVEL:
            return f"The difference can be told from chance: {differ} of {self.n} {noun} {verb} ({p})."
        need = least_changes()
        few = f"; fewer than {need} never suffice" if differ < need else ""
        return f"The difference cannot be told from chance at this size: {differ} of {self.n} {noun} {verb} ({p}){few}."


@dataclass(frozen=True)
class PairedNumbers:
    """Two means over the same items.

    Attributes:
        differences: Number of the candidate minus that of the baseline, for each item.
    """

    differences: Sequence[float]

    @property
    def n(self) -> int:
        """Number of items."""
        return len(self.differences)

    @property
    def difference(self) -> float:
        """Mean of the differences; NaN without an item."""
        return math.fsum(self.differences) / self.n if self.n else math.nan

    @property
    def interval(self) -> tuple[float, float]:
        """95 % interval of the mean difference by Student's t; NaN for fewer than two items."""
        if self.n < 2:
            return math.nan, math.nan
        half = two_sided_t(0.95, self.n - 1) * self._error
        return self.difference - half, self.difference + half

    @property
    def p_value(self) -> float:
        """p-value of the paired t-test, two-sided; 1 where it is not defined."""
        if self.n < 2:
            return 1.0
        if not self._error:
            return 0.0 if self.difference else 1.0
        return 1.0 - t_within(abs(self.difference) / self._error, self.n - 1)

    @property
    def _error(self) -> float:
        mean = self.difference
        return math.sqrt(math.fsum((one - mean) ** 2 for one in self.differences) / (self.n - 1) / self.n)

    def sentence(self, noun: str, verb: str = "changed") -> str:
        """Return the sentence that says whether the difference can be told from chance at this size.

        Args:
            noun: What the items are, in the plural, such as examples.
            verb: As for shares.
        """
        if self.n < 2:
            return f"The runs share {self.n} numbers, too few to compare."
        if not any(self.differences):
            return f"Both runs have the same number on all {self.n} {noun} that they share; none {verb}."
        can = "can" if self.p_value < LEVEL else "cannot"
        at = "" if self.p_value < LEVEL else " at this size"
        p = f"paired t-test over {self.n} {noun}, p = {self.p_value:.3g}"
        return f"The difference {can} be told from chance{at} ({p})."


def word_of(pairs: PairedShares | PairedNumbers, better: str = "higher") -> str:
    """Return the word for the candidate: outperform, underperform or match.

    Args:
        pairs: The paired outcomes or numbers.
        better: The better direction, higher or lower; of anything else a difference is only `higher` or `lower`.
    """
    if not pairs.n or not pairs.difference or pairs.p_value >= LEVEL:
        return "match"
    moved = "higher" if pairs.difference > 0 else "lower"
    if better not in ("higher", "lower"):
        return moved
    return "outperform" if moved == better else "underperform"


def mcnemar_exact(better: int, worse: int) -> float:
    """Return the two-sided p-value of McNemar's exact test: the changes are fair coins.

    Args:
        better: Pairs that changed for the better.
        worse: Pairs that changed for the worse.

    Source: McNemar, Psychometrika 12 (1947); exact by the binomial distribution.
    """
    n = better + worse
    tail = sum(math.comb(n, i) for i in range(min(better, worse) + 1))
    return min(1.0, 2 * tail / 2**n) if n else 1.0


def least_changes() -> int:
    """Return the least number of changed tests that can be told from chance, all in one direction."""
    return next(n for n in range(1, 64) if mcnemar_exact(n, 0) < LEVEL)


def t_within(t: float, freedom: int) -> float:
    """Return the probability that Student's t is within -t and t.

    Args:
        t: Not negative.
        freedom: Degrees of freedom, at least 1.

    Source: Abramowitz and Stegun, 26.7.3 and 26.7.4, exact for whole degrees of freedom.
    """
    angle = math.atan(t / math.sqrt(freedom))
    if freedom == 1:
        return 2 * angle / math.pi
    sine, cosine = math.sin(angle), math.cos(angle)
    term = total = cosine if freedom % 2 else 1.0
    for k in range(2 + freedom % 2, freedom - 1, 2):
        term *= cosine * cosine * (k - 1) / k
        total += term
    return 2 / math.pi * (angle + sine * total) if freedom % 2 else sine * total


def two_sided_t(level: float, freedom: int) -> float:
    """Return the t within which, on both sides, Student's distribution has this probability."""
    low, high = 0.0, 1.0
    while t_within(high, freedom) < level:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if t_within(middle, freedom) < level else (low, middle)
    return (low + high) / 2
