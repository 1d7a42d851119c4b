"""Comparison of two runs of an evaluation, paired by the id of the example."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gapwatch.sinks.evaluation.paired_difference import PairedNumbers, PairedShares, word_of
from gapwatch.sinks.evaluation.scored_run import ScoredMetric, ScoredRun

#: Words for one example, and for a run as a whole.
OUTPERFORM, UNDERPERFORM, MATCH = "outperform", "underperform", "match"


@dataclass(frozen=True)
class MetricPairs:
    """Comparison of two runs by one metric.

    Attributes:
        metric: The metric.
        pairs: Paired outcomes or numbers.
        words: outperform, underperform or match for the candidate, by the id of the example.
        before, after: Value of the baseline and of the candidate, by the id of the example, for people.
        undecided: Shared examples that one of the runs did not decide.
        verb: What a pair did that counts for one of the runs.
        notes: Further sentences, such as the position bias of a judge.
    """

    metric: ScoredMetric
    pairs: PairedShares | PairedNumbers
    words: Mapping[str, str]
    before: Mapping[str, float | str]
    after: Mapping[str, float | str]
    undecided: tuple[str, ...] = ()
    verb: str = "changed"
    notes: tuple[str, ...] = ()

    @property
    def word(self) -> str:
        """Word for the candidate over all pairs."""
        return word_of(self.pairs, self.metric.better)

    @property
    def sentence(self) -> str:
        """Sentence that says whether the difference can be told from chance at this size."""
        return self.pairs.sentence("examples", self.verb)

    def count(self, word: str, ids: Sequence[str] | None = None) -> int:
        """Return the number of examples with a word, of all pairs or of some."""
        return sum(self.words.get(id_) == word for id_ in (self.words if ids is None else ids))


@dataclass(frozen=True)
class RunPairs:
    """Comparison of a candidate with a baseline over the examples that both have.

    Attributes:
        baseline, candidate: The runs.
        shared: Ids of the examples of both.
        changed: Ids of examples whose inputs or reference differ; they are left out.
        metrics: Comparison by each metric that both have.
    """

    baseline: ScoredRun
    candidate: ScoredRun
    shared: tuple[str, ...]
    changed: tuple[str, ...]
    metrics: tuple[MetricPairs, ...]

    @property
    def alone(self) -> tuple[int, int]:
        """Number of examples that only the baseline has, and only the candidate."""
        one, other = self.baseline.examples.keys(), self.candidate.examples.keys()
        return len(one - other), len(other - one)

    def tags(self) -> dict[str, list[str]]:
        """Return the shared examples by tag, of tags that at least two have."""
        groups: dict[str, list[str]] = {}
        for id_ in self.shared:
            for tag in self.candidate.examples[id_].tags or self.baseline.examples[id_].tags:
                groups.setdefault(tag, []).append(id_)
        return {tag: ids for tag, ids in sorted(groups.items()) if len(ids) > 1}


def compare_scored(baseline: ScoredRun, candidate: ScoredRun, further: Sequence[MetricPairs] = ()) -> RunPairs:
    """Return the comparison of two runs.

    Args:
        baseline: The earlier run.
        candidate: The later run.
        further: Comparisons by judges that saw both outputs.
    """
    both = [id_ for id_ in candidate.examples if id_ in baseline.examples]
    changed = tuple(id_ for id_ in both if not _is_same(baseline, candidate, id_))
    shared = tuple(id_ for id_ in both if id_ not in set(changed))
    known = {metric.name: metric for metric in baseline.metrics}
    pairs = [
        _pairs(baseline, candidate, metric, shared)
        for metric in candidate.metrics
        if metric.name in known and any(metric.name in candidate.examples[id_].scores for id_ in shared)
    ]
    return RunPairs(baseline, candidate, shared, changed, (*pairs, *further))


def _is_same(baseline: ScoredRun, candidate: ScoredRun, id_: str) -> bool:
    one, other = baseline.examples[id_], candidate.examples[id_]
    if None in (one.inputs, other.inputs):  # of a lane
        return True
    return bool((one.inputs, one.reference) == (other.inputs, other.reference))


def _pairs(baseline: ScoredRun, candidate: ScoredRun, metric: ScoredMetric, shared: Sequence[str]) -> MetricPairs:
    words: dict[str, str] = {}
    before: dict[str, float | str] = {}
    after: dict[str, float | str] = {}
    undecided: list[str] = []
    differences: list[float] = []
    places: Counter[tuple[float, float]] = Counter()
    for id_ in shared:
        one, other = (run.examples[id_].scores.get(metric.name) for run in (baseline, candidate))
        values = [
            None if told is None or told.passes is None else told.score if metric.is_number else float(told.passes)
            for told in (one, other)
        ]
        if values[0] is None or values[1] is None:
            undecided.append(id_)
            continue
        places[values[0], values[1]] += 1
        differences.append(values[1] - values[0])
        words[id_] = _word(differences[-1], metric.better)
        before[id_], after[id_] = (_shown(value, metric.is_number) for value in (values[0], values[1]))
    pairs: PairedShares | PairedNumbers = PairedNumbers(tuple(differences))
    if not metric.is_number:
        pairs = PairedShares(places[1, 1], places[0, 0], places[0, 1], places[1, 0])
    return MetricPairs(metric, pairs, words, before, after, tuple(undecided))


def _word(difference: float, better: str) -> str:
    if not difference or better not in ("higher", "lower"):
        return MATCH
    return OUTPERFORM if (difference > 0) == (better == "higher") else UNDERPERFORM


def _shown(value: float, is_number: bool) -> float | str:
    return value if is_number else ("pass" if value else "fail")
