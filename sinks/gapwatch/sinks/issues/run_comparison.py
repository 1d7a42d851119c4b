"""Comparison of two runs of tests, paired by test: McNemar's exact test, and what it can and cannot tell."""

from __future__ import annotations

from dataclasses import dataclass

from gapwatch.sinks.evaluation.paired_difference import PairedShares, word_of
from gapwatch.sinks.issues.run_outcomes import TestOutcome, TestRun


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
    def pairs(self) -> PairedShares:
        """Counts of the paired tests."""
        return PairedShares(len(self.both_pass), len(self.both_fail), len(self.better), len(self.worse))

    @property
    def word(self) -> str:
        """Word for the candidate: outperform, underperform or match."""
        return word_of(self.pairs)

    @property
    def sentence(self) -> str:
        """Sentence that says whether the difference can be told from chance at this size."""
        return self.pairs.sentence("tests")


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
