"""Comparison of two runs of tests, paired by test: McNemar's exact test, and what it can and cannot tell."""

from __future__ import annotations

import math
from dataclasses import dataclass

from gapwatch.sinks.issues.run_outcomes import TestOutcome, TestRun

#: Above this p-value a difference counts as chance.
LEVEL = 0.05
_Z = 1.959963984540054


@dataclass(frozen=True)
class RunComparison:
    """Comparison of a candidate with a baseline, over the tests that both decided.

    Attributes:
        baseline: The earlier run.
        candidate: The later run.
        both_pass, both_fail: Tests with one outcome in both.
        better: Tests that fail in the baseline and pass in the candidate.
        worse: Tests that pass in the baseline and fail in the candidate.
        left_out: Tests of one run alone, or without a decision in one, or asked in another way.
    """

    baseline: TestRun
    candidate: TestRun
    both_pass: tuple[str, ...]
    both_fail: tuple[str, ...]
    better: tuple[str, ...]
    worse: tuple[str, ...]
    left_out: tuple[str, ...]

    @property
    def n(self) -> int:
        """Number of paired tests."""
        return len(self.both_pass) + len(self.both_fail) + len(self.better) + len(self.worse)

    @property
    def difference(self) -> float:
        """Pass rate of the candidate minus that of the baseline, over the paired tests; NaN without one."""
        return (len(self.better) - len(self.worse)) / self.n if self.n else math.nan

    @property
    def interval(self) -> tuple[float, float]:
        """95 % interval of the difference for paired shares (Bonett and Price, 2012)."""
        if not self.n:
            return math.nan, math.nan
        n = self.n + 2
        up, down = (len(self.better) + 1) / n, (len(self.worse) + 1) / n
        middle, half = up - down, _Z * math.sqrt((up + down - (up - down) ** 2) / n)
        return max(middle - half, -1.0), min(middle + half, 1.0)

    @property
    def p_value(self) -> float:
        """p-value of McNemar's exact test, two-sided."""
        return mcnemar_exact(len(self.better), len(self.worse))

    @property
    def word(self) -> str:
        """Word for the candidate: outperform, underperform or match."""
        if not self.n or self.p_value >= LEVEL:
            return "match"
        return "outperform" if len(self.better) > len(self.worse) else "underperform"

    @property
    def sentence(self) -> str:
        """Sentence that says whether the difference can be told from chance at this size."""
        differ = len(self.better) + len(self.worse)
        if not self.n:
            return "The runs share no decided test, so nothing can be compared."
        if not differ:
            return f"Both runs have the same outcome on all {self.n} tests that they share."
        p = f"McNemar's exact test, p = {self.p_value:.3g}"
        if self.p_value < LEVEL:
            return f"The difference can be told from chance: {differ} of {self.n} tests changed ({p})."
        need = least_changes()
        few = f"; fewer than {need} changed tests never suffice" if differ < need else ""
        return f"The difference cannot be told from chance at this size: {differ} of {self.n} tests changed ({p}){few}."


def compare_runs(baseline: TestRun, candidate: TestRun) -> RunComparison:
    """Return the comparison of two runs over the tests that both decided on the same question."""
    places: dict[str, list[str]] = {"pp": [], "ff": [], "fp": [], "pf": [], "": []}
    for id_ in {**baseline.outcomes, **candidate.outcomes}:
        places[_pair(baseline.outcomes.get(id_), candidate.outcomes.get(id_))].append(id_)
    both_pass, both_fail, better, worse, left_out = (tuple(places[name]) for name in ("pp", "ff", "fp", "pf", ""))
    return RunComparison(baseline, candidate, both_pass, both_fail, better, worse, left_out)


def _pair(one: TestOutcome | None, other: TestOutcome | None) -> str:
    if one is None or other is None or "error" in (one.outcome, other.outcome):
        return ""
    if None not in (one.test_sha, other.test_sha) and one.test_sha != other.test_sha:
        return ""
    return one.outcome[0] + other.outcome[0]


def mcnemar_exact(better: int, worse: int) -> float:
    """Return the two-sided p-value of McNemar's exact test: the changes are fair coins.

    Args:
        better: Pairs that changed for the better.
        worse: Pairs that changed for the worse.

    Source: McNemar, Psychometrika 12 (1947); exact by the binomial distribution.
    """
    n = better + worse
    tail = sum(math.comb(n, i) for i in range(min(better, worse) + 1))
    return min(1.0, float(2 * tail / 2**n)) if n else 1.0


def least_changes() -> int:
    """Return the least number of changed tests that can be told from chance, all in one direction."""
    return next(n for n in range(1, 64) if mcnemar_exact(n, 0) < LEVEL)
