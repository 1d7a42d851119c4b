"""Evaluation: calls a function on a data set, and scores the traces by the code of production, on a lane of theirs."""

from __future__ import annotations

import inspect
import math
import tempfile
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import yaml

from gapwatch.scorers.errors import UsageError
from gapwatch.scorers.loading.load import load_portfolio, parse_portfolio
from gapwatch.scorers.portfolio.claim import MeasureClaim
from gapwatch.scorers.portfolio.component import MODEL_KINDS
from gapwatch.scorers.portfolio.metric import Metric
from gapwatch.sinks.evaluation.run_pairs import MetricPairs, compare_scored
from gapwatch.sinks.evaluation.scored_run import LANE, ScoredExample, ScoredRun, scored_run
from gapwatch.streams.batch.replay import ReplayOptions, replay
from gapwatch.streams.evaluation.datasets.example import Example
from gapwatch.streams.evaluation.metrics.exporting import APP, TOOLS, portfolio_document
from gapwatch.streams.evaluation.metrics.metric import ClaimMetric, EvaluationMetric, SetMetric
from gapwatch.streams.evaluation.metrics.registry import installed_metrics
from gapwatch.streams.evaluation.metrics.router import MetricRouter, Selected, met_needs
from gapwatch.streams.evaluation.metrics.shipped import PAIRWISE
from gapwatch.streams.evaluation.metrics.shipped_scorers import ShippedScorers
from gapwatch.streams.evaluation.metrics.use_case import MetricMetadata, MetricResult, UseCase
from gapwatch.streams.evaluation.reports.gate import ERROR_RATE
from gapwatch.streams.evaluation.reports.run_result import EvaluationRun
from gapwatch.streams.evaluation.running.example_calls import CallLimits, ExampleCalls
from gapwatch.streams.evaluation.running.llm_client import LLMClient, judge_name, store_judge
from gapwatch.streams.evaluation.running.pairwise import (
    PairwiseJudging,
    compares_runs,
    paired_outputs,
    preference_result,
)
from gapwatch.streams.evaluation.running.trace_lines import trace_line, trace_of


@dataclass(frozen=True)
class EvaluationPlan:
    """Settings of an evaluation.

    Attributes:
        use_case: Use case of the function.
        metrics: Ids of exactly the metrics to use; None: those of the preset, or of the task.
        preset: lightweight or deep_dive; None: the defaults of the task.
        client: Model that judges; None: metrics that need one are left out.
        portfolio: Portfolio of the pipeline, whose metrics are scored as well; None: only those of the evaluation.
        component: Component of the function in that portfolio; None: its first that a model answers.
        store: Store that keeps the lane of the run; None: none is kept.
        traces: File that keeps the traces of the run; None: none is kept.
        limits: Limits of the calls.
        baseline: Name of the run to compare with.
        compared: That run; None: nothing is compared.
        on_done: Called with the number of examples that are done.
    """

    use_case: UseCase
    metrics: Sequence[str] | None = None
    preset: str | None = None
    client: LLMClient | None = None
    portfolio: Path | None = None
    component: str | None = None
    store: Path | None = None
    traces: Path | None = None
    limits: CallLimits = field(default_factory=CallLimits)
    baseline: str | None = None
    compared: ScoredRun | None = None
    on_done: Callable[[int], None] = lambda _done: None


def run_evaluation(function: Callable[..., Any], examples: list[Example], plan: EvaluationPlan) -> EvaluationRun:
    """Evaluate a function.

    Args:
        function: The function; its arguments are the inputs of the examples.
        examples: Examples; filled by the calls.
        plan: Metrics, models, store and limits.

    Raises:
        UsageError: A metric, the portfolio or the store is refused, or the first example does not fit the function.
        JobError: The store cannot be written.
    """
    selected = selected_metrics(examples, plan)
    explicit = [name for name in plan.metrics or () if name in selected.left_out]
    if explicit:
        raise UsageError(f"the metric {explicit[0]} cannot be computed: {selected.left_out[explicit[0]]}")
    _check_arguments(function, examples[0])
    name = getattr(function, "__name__", type(function).__name__)
    scoring = _Scoring(plan, selected.metrics, name)
    run_id = f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{uuid.uuid4().hex[:8]}"
    ExampleCalls(function, plan.limits).run(examples, plan.on_done)
    results, outcomes = scoring.score(examples, run_id)
    preferences = scoring.preferences(examples, run_id)
    results += map(preference_result, preferences)
    for metric in selected.metrics:
        if isinstance(metric, SetMetric):
            results.append(metric.compute(examples))
    order = {metric.metadata.id: i for i, metric in enumerate(selected.metrics)}
    results.sort(key=lambda result: order.get(result.metric_id, len(order)))
    described = [metric.metadata for metric in selected.metrics] + scoring.further_metadata()
    run = EvaluationRun(
        run_id, _described(plan.use_case, examples), described, results, examples, plan.baseline, name,
        selected.left_out, outcomes,
    )  # fmt: skip
    if plan.compared is not None:
        run.comparison = compare_scored(plan.compared, scored_run(run.to_json()), preferences)
    return run


def selected_metrics(examples: Sequence[Example], plan: EvaluationPlan) -> Selected:
    """Return the metrics of an evaluation, and those that its data set or the lack of a model leave out.

    Raises:
        UsageError: A metric, the preset or the task is unknown.
    """
    router = MetricRouter(installed_metrics())
    chosen = router.select_metrics(plan.use_case, plan.metrics, plan.preset)
    has_outputs = plan.compared is not None and any(one.inputs for one in plan.compared.examples.values())
    if has_outputs and plan.metrics is None and plan.preset is None:
        # A baseline asks for a comparison; the defaults of the tasks have none.
        pairwise = router.registry.get_metric(PAIRWISE)
        chosen += [pairwise] if plan.use_case.task_type in pairwise.metadata.task_types else []
    has = {
        "reference": any(example.reference is not None for example in examples),
        "context": any(example.context is not None for example in examples),
        "tool_trace": plan.use_case.task_type == "tool_calling",
        "baseline": has_outputs,
    }
    return met_needs(chosen, frozenset(name for name, found in has.items() if found), plan.client is not None)


def check_gated(examples: Sequence[Example], plan: EvaluationPlan, gated: Sequence[str]) -> None:
    """Refuse a gate on a metric that will not be computed, before any example is called.

    Args:
        examples: Examples of the data set.
        plan: Settings of the evaluation.
        gated: Names in the gate.

    Raises:
        UsageError: A name is no metric of the evaluation.
    """
    selected = selected_metrics(examples, plan)
    known = [metric.metadata.id for metric in selected.metrics]
    if plan.portfolio is not None:
        known += [metric.name for metric in load_portfolio(plan.portfolio, with_references=True).metrics]
    for name in gated:
        if name not in known and name != ERROR_RATE:
            why = selected.left_out.get(name, f"it is no metric of this evaluation, which has {', '.join(known)}")
            raise UsageError(f"gate: {name}: {why}")


def _described(use_case: UseCase, examples: Sequence[Example]) -> UseCase:
    schema = use_case.io_schema or {"inputs": sorted({key for example in examples for key in example.inputs})}
    return replace(use_case, io_schema=schema, has_reference=any(one.reference is not None for one in examples))


def _check_arguments(function: Callable[..., Any], first: Example) -> None:
    try:
        signature = inspect.signature(function)
    except ValueError:  # a function in C
        return
    try:
        signature.bind(**first.inputs)
    except TypeError as error:
        raise UsageError(
            f"example {first.id!r} does not fit {getattr(function, '__name__', 'the function')}{signature}: {error}; "
            "the keys of inputs are its arguments"
        ) from None


class _Scoring:
    """Portfolio of an evaluation, and the scoring of its traces."""

    def __init__(self, plan: EvaluationPlan, metrics: Sequence[EvaluationMetric], name: str) -> None:
        self._plan = plan
        self._claims = {metric.metadata.id: metric for metric in metrics if isinstance(metric, ClaimMetric)}
        judge = None if plan.client is None else judge_name(plan.client)
        self._component = plan.component or APP
        document = portfolio_document(f"evaluation of {name}", name, self._claims.values(), self._component, judge)
        if plan.portfolio is not None:
            document = self._merged(document, plan.portfolio)
        for metric in document["metrics"]:
            # Every row is kept: a report names each example.
            metric["sample"] = {"rate": 1.0, "keep": {"pass": 1.0, "warn": 1.0, "fail": 1.0}}
        self._pairwise = {**document, "metrics": [one for one in document["metrics"] if compares_runs(one)]}
        document = {**document, "metrics": [one for one in document["metrics"] if not compares_runs(one)]}
        text = yaml.safe_dump(document, sort_keys=False, allow_unicode=True)
        self._portfolio = parse_portfolio(text, "<portfolio of the evaluation>", with_references=True)

    def _merged(self, document: dict[str, Any], path: Path) -> dict[str, Any]:
        """Return a portfolio with the metrics of the evaluation that it does not have."""
        portfolio = load_portfolio(path, with_references=True)
        ids = [component.id for component in portfolio.components]
        if self._plan.component is None:
            models = [component.id for component in portfolio.components if component.kind in MODEL_KINDS]
            self._component = (models or ids)[0]
        elif self._plan.component not in ids:
            raise UsageError(f"{path} has no component {self._plan.component!r}; it has {', '.join(ids)}")
        merged: dict[str, Any] = yaml.safe_load(portfolio.text)
        known = {metric.name for metric in portfolio.metrics}
        for metric in document["metrics"]:
            if metric["name"] not in known:
                on_tools = self._claims[metric["name"]].on == "tools"
                merged["metrics"].append({**metric, "component": TOOLS if on_tools else self._component})
        if TOOLS not in ids and any(metric.get("component") == TOOLS for metric in merged["metrics"]):
            merged["components"].append({"id": TOOLS, "role": "supporting", "kind": "tool"})
        return merged

    def further_metadata(self) -> list[MetricMetadata]:
        """Return the description of the metrics that only the user's portfolio has."""
        return [
            MetricMetadata(metric.name, metric.name, (), "objective", description=metric.purpose)
            for metric in self._portfolio.metrics
            if metric.name not in self._claims
        ]

    def score(
        self, examples: Sequence[Example], run_id: str
    ) -> tuple[list[MetricResult], dict[str, dict[str, dict[str, Any]]]]:
        """Score the traces of the examples; return the results of the metrics, and the outcomes by example."""
        if not self._portfolio.metrics:
            return [], {}
        with tempfile.TemporaryDirectory(prefix="gapwatch-eval-") as folder:
            traces = self._plan.traces or Path(folder, "traces.jsonl")
            with traces.open("wb", 1 << 20) as file:
                file.writelines(
                    trace_line(trace_of(example, run_id, self._portfolio.pipeline, self._component, TOOLS))
                    for example in examples
                )
            store = self._plan.store or Path(folder, "run.duckdb")
            lane = f"{LANE}{run_id}"
            judge = self._judge() if any(metric.claim.form == "judge" for metric in self._portfolio.metrics) else None
            options = ReplayOptions(f"{run_id}.jsonl", ShippedScorers(), judge=judge, lane=lane)
            summary = replay([str(traces)], [self._portfolio], store, options)
            summary.check_balanced(store)
            return self._results(store, lane, {f"{run_id}:{one.id}": one.id for one in examples})

    def preferences(self, examples: Sequence[Example], run_id: str) -> list[MetricPairs]:
        """Return the comparison with the baseline by each judge that sees both outputs."""
        compared, judge = self._plan.compared, self._judge()
        if compared is None or judge is None or not self._pairwise["metrics"]:
            return []
        candidate = {one.id: ScoredExample(one.id, one.output, one.inputs, one.reference) for one in examples}
        pairs = paired_outputs(compared.examples, candidate)
        return PairwiseJudging(self._pairwise, judge, self._plan.store).compare(pairs, run_id)

    def _judge(self) -> Any:
        return None if self._plan.client is None else store_judge(self._plan.client)

    def _results(
        self, store: Path, lane: str, ids: Mapping[str, str]
    ) -> tuple[list[MetricResult], dict[str, dict[str, dict[str, Any]]]]:
        from gapwatch.sinks.commands.options import reading
        from gapwatch.sinks.evaluation.lane_results import lane_rates, lane_rows

        with reading(store) as con:
            rates, rows = lane_rates(con, lane), lane_rows(con, lane)
        outcomes: dict[str, dict[str, dict[str, Any]]] = {}
        scores: dict[str, list[float]] = {}
        for row in rows:
            told = {"outcome": row["outcome"], "score": row["score"], "band": row["band"], "why": _why(row)}
            of_example = outcomes.setdefault(ids[row["trace_id"]], {})
            # Of several spans or judges the worst is told; the rates have them all.
            if row["metric"] not in of_example or told["outcome"] == "fail":
                of_example[row["metric"]] = told
            if row["score"] is not None:
                scores.setdefault(row["metric"], []).append(row["score"])
        by_metric = {rate["metric"]: rate for rate in reversed(rates)}
        results = [
            self._result(metric, by_metric.get(metric.name), scores.get(metric.name, []))
            for metric in self._portfolio.metrics
        ]
        return results, outcomes

    def _result(self, metric: Metric, rate: Mapping[str, Any] | None, scores: Sequence[float]) -> MetricResult:
        name, claim = metric.name, self._claims.get(metric.name)
        is_number = isinstance(metric.claim, MeasureClaim) and metric.claim.limit is None
        kind = claim.reports if claim is not None else "mean" if is_number else "pass_rate"
        better = claim.better if claim is not None else "higher"
        if claim is None and is_number:
            better = "unknown" if metric.direction is None else metric.direction.better
        told = {"version": None if rate is None else rate["metric_version"], "reports": kind, "better": better}
        undecided = 0 if rate is None else rate["unknown"] + rate["errors"]
        if kind == "mean":
            return MetricResult(name, *_mean(scores, {"undecided": undecided, **told}))
        if rate is None or rate["rate"] is None:
            return MetricResult(name, None, {"n": 0, "undecided": undecided, **told})
        numbers = rate["rate"], rate["lower"], rate["upper"]
        if kind == "pass_rate":
            numbers = 1.0 - rate["rate"], 1.0 - rate["upper"], 1.0 - rate["lower"]
        score, lower, upper = numbers
        return MetricResult(
            name, score,
            {"lower": lower, "upper": upper, "n": rate["units"], "undecided": undecided, **told},
        )  # fmt: skip


def _why(row: Mapping[str, Any]) -> str | None:
    """Return the justification of a judge, or the reason of an outcome."""
    evidence = row["evidence"]
    if isinstance(evidence, str):
        evidence = orjson.loads(evidence)
    if isinstance(evidence, dict) and isinstance(evidence.get("justification"), str):
        return str(evidence["justification"])
    return None if row["reason"] is None else str(row["reason"])


def _mean(scores: Sequence[float], details: Mapping[str, Any]) -> tuple[float | None, dict[str, Any]]:
    """Return the mean with the 95 % interval of the normal approximation, which is too short for few values."""
    n = len(scores)
    if n == 0:
        return None, {"n": 0, **details}
    mean = sum(scores) / n
    if n == 1:
        return mean, {"n": 1, **details}
    half = 1.959963984540054 * math.sqrt(sum((score - mean) ** 2 for score in scores) / (n - 1) / n)
    # A mean is never beyond the values, whatever the approximation says.
    return mean, {"lower": max(min(scores), mean - half), "upper": min(max(scores), mean + half), "n": n, **details}
