"""Pairwise judges: a baseline's output and a candidate's, asked in both orders, so that the order cannot decide.

A pair whose verdict changes with the order counts as a match; their share is the position bias.

Source: Zheng et al. (2023), Judging LLM-as-a-Judge with MT-Bench and Chatbot Arena, section 3.4.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from gapwatch.scorers.errors import UsageError
from gapwatch.scorers.judges.agreement import share
from gapwatch.scorers.judges.scale import Scale, scale_of
from gapwatch.scorers.loading.load import load_portfolio, parse_portfolio
from gapwatch.scorers.portfolio.claim import CompareClaim
from gapwatch.scorers.portfolio.metric import Metric
from gapwatch.sinks.evaluation.lane_results import lane_rows
from gapwatch.sinks.evaluation.paired_difference import PairedShares
from gapwatch.sinks.evaluation.run_pairs import MATCH, OUTPERFORM, UNDERPERFORM, MetricPairs
from gapwatch.sinks.evaluation.scored_run import ScoredExample, ScoredMetric, ScoredRun
from gapwatch.streams.batch.replay import ReplayOptions, replay
from gapwatch.streams.evaluation.metrics.exporting import portfolio_document
from gapwatch.streams.evaluation.metrics.metric import ClaimMetric
from gapwatch.streams.evaluation.metrics.shipped import PAIRWISE, SHIPPED
from gapwatch.streams.evaluation.metrics.use_case import MetricResult
from gapwatch.streams.evaluation.running.llm_client import LLMClient, judge_name, store_judge
from gapwatch.streams.evaluation.running.trace_lines import answer_spans, trace_line

#: The two fields that a claim may compare, the candidate's in the first order first.
_FIELDS = (("output", "attributes.baseline_output"), ("attributes.first_answer", "attributes.second_answer"))
_WORDS = {1: OUTPERFORM, -1: UNDERPERFORM, 0: MATCH}
#: Beginning of the lanes of comparisons.
_LANE = "compare:"


def compares_runs(metric: Mapping[str, Any]) -> bool:
    """Return whether a metric, as a portfolio writes it, compares the outputs of two runs."""
    claim = metric.get("claim") or {}
    inputs = (claim.get("rubric") or {}).get("inputs") or []
    return claim.get("form") == "compare" and any(set(inputs[-2:]) == set(fields) for fields in _FIELDS)


@dataclass(frozen=True)
class PairedOutputs:
    """Outputs of two runs on one example.

    Attributes:
        id: Id of the example.
        input: Input that both answer.
        baseline, candidate: Outputs; None where a call gave none.
    """

    id: str
    input: Any
    baseline: Any
    candidate: Any


def paired_outputs(
    baseline: Mapping[str, ScoredExample], candidate: Mapping[str, ScoredExample]
) -> list[PairedOutputs]:
    """Return the outputs of the examples that two runs share with equal inputs and references."""
    return [
        PairedOutputs(id_, one.inputs, baseline[id_].output, one.output)
        for id_, one in candidate.items()
        if id_ in baseline and (one.inputs, one.reference) == (baseline[id_].inputs, baseline[id_].reference)
    ]


class PairwiseJudging:
    """Judges pairs of outputs by claims of the form compare, on the lane `compare:RUN`.

    Args:
        document: Portfolio, as YAML has it; all its metrics compare the outputs of two runs.
        judge: Answers the pending judge requests of a store.
        store: Store that keeps the lane; None keeps none.
    """

    def __init__(self, document: Mapping[str, Any], judge: Callable[..., Any], store: Path | None) -> None:
        text = yaml.safe_dump(dict(document), sort_keys=False, allow_unicode=True)
        self._portfolio = parse_portfolio(text, "<portfolio of the comparison>", with_references=True)
        self._judge = judge
        self._store = store

    def compare(self, pairs: Sequence[PairedOutputs], run_id: str) -> list[MetricPairs]:
        """Return the comparison by each metric."""
        with tempfile.TemporaryDirectory(prefix="gapwatch-compare-") as folder:
            traces = Path(folder, "pairs.jsonl")
            with traces.open("wb") as file:
                for pair in pairs:
                    if pair.baseline is not None and pair.candidate is not None:
                        file.write(trace_line(self._trace(pair, run_id)))
            store = self._store or Path(folder, "pairs.duckdb")
            lane = f"{_LANE}{run_id}"
            options = ReplayOptions(f"{run_id}.pairs.jsonl", judge=self._judge, lane=lane)
            replay([str(traces)], [self._portfolio], store, options).check_balanced(store)
            from gapwatch.sinks.commands.options import reading

            with reading(store) as con:
                rows = lane_rows(con, lane)
        return [self._compared(metric, pairs, rows, run_id) for metric in self._portfolio.metrics]

    def _trace(self, pair: PairedOutputs, run_id: str) -> dict[str, Any]:
        orders = ((pair.candidate, pair.baseline), (pair.baseline, pair.candidate))
        component = self._portfolio.components[0].id
        return {
            "trace_id": f"{run_id}:{pair.id}", "pipeline": self._portfolio.pipeline, "environment": "evaluation",
            "release": run_id, "spans": answer_spans(pair.id, pair.input, orders, component),
        }  # fmt: skip

    def _compared(
        self, metric: Metric, pairs: Sequence[PairedOutputs], rows: Sequence[Mapping[str, Any]], run_id: str
    ) -> MetricPairs:
        assert isinstance(metric.claim, CompareClaim)
        verdicts: dict[tuple[str, str], Mapping[str, Any]] = {}
        for row in rows:
            # Of several judges the row without a name is that of all of them together.
            if row["metric"] == metric.name and (row["judge"] is None or len(metric.claim.judges) == 1):
                verdicts[row["trace_id"].removeprefix(f"{run_id}:"), row["span_id"]] = row
        scale = scale_of(metric.claim.rubric)
        is_first = metric.claim.rubric.inputs[-2].text in {first for first, _ in _FIELDS}
        words, before, after, undecided = dict[str, str](), dict[str, str](), dict[str, str](), list[str]()
        slots = {"first": 0, "second": 0}
        ties = 0
        for pair in pairs:
            first, second = (verdicts.get((pair.id, span)) for span in ("0", "1"))
            if first is None or second is None or first["score"] is None or second["score"] is None:
                undecided.append(pair.id)
                continue
            chosen = _chosen(first["score"], scale), _chosen(second["score"], scale)
            if chosen[0] == -chosen[1]:
                words[pair.id] = _WORDS[chosen[0] if is_first else -chosen[0]]
                ties += not chosen[0]
            else:
                words[pair.id] = MATCH
                slots["first" if sum(chosen) > 0 else "second"] += 1
            shown = "candidate first: ", "baseline first: "
            before[pair.id], after[pair.id] = (
                said + str(row["band"] or row["score"])
                for said, row in zip(shown if is_first else shown[::-1], (first, second), strict=True)
            )
        counts = {word: sum(one == word for one in words.values()) for word in (MATCH, OUTPERFORM, UNDERPERFORM)}
        found = PairedShares(0, counts[MATCH], counts[OUTPERFORM], counts[UNDERPERFORM])
        notes = (_bias_sentence(slots, len(words)), f"{ties} are ties in both orders.") if words else ()
        return MetricPairs(
            ScoredMetric(metric.name), found, words, before, after, tuple(undecided), "have a winner in both orders",
            notes,
        )  # fmt: skip


def preference_result(found: MetricPairs) -> MetricResult:
    """Return the share of the pairs that prefer the candidate, ties counted half, with the paired interval."""
    pairs = found.pairs
    if not pairs.n:
        return MetricResult(found.metric.name, None, {"n": 0, "undecided": len(found.undecided)})
    score, lower, upper = (0.5 + value / 2 for value in (pairs.difference, *pairs.interval))
    details = {"lower": lower, "upper": upper, "n": pairs.n, "undecided": len(found.undecided)}
    return MetricResult(found.metric.name, score, details)


def _chosen(score: float, scale: Scale) -> int:
    """Return 1 where a verdict prefers the answer that stood first, -1 for the second, 0 for neither."""
    middle = (scale.bands[0].score + scale.bands[-1].score) / 2
    return (score > middle) - (score < middle)


def _bias_sentence(slots: Mapping[str, int], n: int) -> str:
    bias = share(sum(slots.values()), n)
    return (
        f"Position bias: the order decides {sum(slots.values())} of {n} pairs ({bias.value:.1%}, 95 % interval "
        f"{bias.lower:.1%} to {bias.upper:.1%}), {slots['first']} towards the answer that stands first and "
        f"{slots['second']} towards the second; they count as a match."
    )


def judged_preferences(
    baseline: ScoredRun, candidate: ScoredRun, client: LLMClient, portfolio: Path | None
) -> list[MetricPairs]:
    """Return the comparison of two runs by each judge that sees both outputs.

    Args:
        baseline: The earlier run, with its outputs.
        candidate: The later run, with its outputs.
        client: Model that judges.
        portfolio: Portfolio whose metrics of the form compare are used; None, or one without such: the shipped one.

    Raises:
        UsageError: A run has no outputs, or the portfolio is refused.
    """
    for run in (baseline, candidate):
        if not any(one.inputs for one in run.examples.values()):
            raise UsageError(f"the run {run.run_id} has no outputs to judge; give the file of gapwatch eval --json")
    document = _pairwise_document(client, portfolio)
    pairs = paired_outputs(baseline.examples, candidate.examples)
    return PairwiseJudging(document, store_judge(client), None).compare(pairs, f"{candidate.run_id}.{baseline.run_id}")


def _pairwise_document(client: LLMClient, portfolio: Path | None) -> dict[str, Any]:
    if portfolio is not None:
        written: dict[str, Any] = yaml.safe_load(load_portfolio(portfolio, with_references=True).text)
        metrics = [metric for metric in written["metrics"] if compares_runs(metric)]
        if metrics:
            return {**written, "metrics": metrics}
    shipped = [one for one in SHIPPED if isinstance(one, ClaimMetric) and one.metadata.id == PAIRWISE]
    return portfolio_document("comparison", "comparison", shipped, judge=judge_name(client))
