"""The critic of metrics: each rule catches its fault, and the metric is corrected or dropped."""

# ruff: noqa: E501 - one case a line reads as a table
from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from gapwatch.design.metrics.critic import REJECT_RULES, Case, redesign, review_metrics
from gapwatch.design.metrics.metric_design import MetricDesign
from gapwatch.design.source.scan import scan_repository
from gapwatch.design.stage import Design, run_design
from gapwatch.scorers.portfolio.fact import Fact
from tests.design.rag_run import APP


@pytest.fixture(scope="module")
def design() -> Design:
    return run_design(scan_repository(APP), is_bounded=False)


def _case(design: Design, metrics: list[MetricDesign], facts: tuple[Fact, ...] = ()) -> Case:
    points: dict[str, Any] = {}
    for point in design.points:
        points.setdefault(point.component, []).append(point)
    return Case(design.architecture, metrics, points, facts)


def _find(metrics: list[MetricDesign], **wanted: str) -> MetricDesign:
    return next(m for m in metrics if all(getattr(m, k) == v for k, v in wanted.items()))


def _judge(metrics: list[MetricDesign]) -> MetricDesign:
    return next(m for m in metrics if m.source == "judge" and m.component == "answerer")


Spoil = Callable[[list[MetricDesign]], str]


def _set(pick: Callable[[list[MetricDesign]], MetricDesign], **values: Any) -> Spoil:
    def spoil(metrics: list[MetricDesign]) -> str:
        metric = pick(metrics)
        for key, value in values.items():
            setattr(metric, key, value)
        return metric.name

    return spoil


def _catalog(family: str) -> Callable[[list[MetricDesign]], MetricDesign]:
    return lambda metrics: _find(metrics, family=family, source="catalog")


def _six_judges(metrics: list[MetricDesign]) -> str:
    first = _judge(metrics)
    for i in range(6):
        made = copy.deepcopy(first)
        made.name = f"{first.name}_{i}"
        metrics.append(made)
    return metrics[-1].name


def _no_judges(metrics: list[MetricDesign]) -> str:
    metrics[:] = [m for m in metrics if m.source != "judge"]
    return _find(metrics, component="model_client").name


def _composite(metrics: list[MetricDesign], *families: str, weights: tuple[float, float] = (0.5, 0.5)) -> str:
    parts = {_find(metrics, family=f).name: w for f, w in zip(families, weights, strict=True)}
    made = copy.deepcopy(_judge(metrics))
    made.name, made.source, made.parts, made.rubric = "answerer_ask_large_composite", "composite", parts, None
    metrics.remove([m for m in metrics if m.source == "judge" and m.component == "answerer"][-1])
    metrics.append(made)
    return made.name


def _copied(metrics: list[MetricDesign]) -> str:
    made = copy.deepcopy(_find(metrics, family="write_errors"))
    made.name, made.component = "question_service_write_errors", "question_service"
    made.spans = ["QuestionService.keep"]
    metrics.append(made)
    return made.name


SPOILT: dict[str, Spoil] = {
    "pipeline_fit": _set(_catalog("write_errors"), concern="tool_use"),
    "validity_conditions": _set(_catalog("retry_count"), when=None),
    "data_assumptions": _set(_judge, fields=["attributes.ground_truth"]),
    "implementation_not_outcome": _set(_catalog("retry_count"), name="model_client_function_call_rate"),
    "arbitrary_threshold": _set(_catalog("fallback_rate"), threshold={"operator": "<=", "value": 0.8}, threshold_source="none"),
    "missing_judge": _no_judges,
    "judge_without_rubric": _set(_judge, rubric=None),
    "five_metric_rule": _six_judges,
    "too_generic": _set(_judge, name="response_quality_score"),
    "not_measurable": _set(_catalog("cache_hit_rate"), fields=["attributes.embedding_drift"]),
    "doesnt_match_code": _set(_judge, component="answer_store"),
    "orthogonal_composite": lambda metrics: _composite(metrics, "finish_reason", "model_latency"),
    "unverified_cascade_direction": _set(_catalog("cache_hit_rate"), better="higher", severity="ticket"),
    "vague_umbrella_judge": _set(_judge, tier="", name="answerer_output_quality"),
    "retrieval_by_judge": _set(_judge, name="answerer_context_relevance"),
    "judge_on_rule_tier": lambda metrics: _set(_judge, tier="by_rule")(metrics),
    "incomplete_cost_triple": _set(lambda m: _find(m, source="cost"), cost_bundle={"costScorer": {"name": "x"}}),
    "cross_component_duplicate": _copied,
    "composite_weights": lambda metrics: _composite(metrics, "passages_found", "finish_reason", weights=(0.5, 0.6)),
    "no_counterpart": _set(_judge, monitors=[]),
    "unverified_direction": _set(_catalog("write_errors"), direction_verdict="unverified"),
    "unverifiable_assumption": _set(_judge),
}  # fmt: skip


def test_all_rules_of_the_paper_are_there() -> None:
    flags = {
        "cross_component_duplicate",
        "composite_weights",
        "no_counterpart",
        "unverifiable_assumption",
        "unverified_direction",
    }

    assert len(REJECT_RULES) == 17
    assert {*REJECT_RULES, *flags} == set(SPOILT)


@pytest.mark.parametrize("rule", sorted(SPOILT))
def test_a_rule_catches_what_it_is_for(rule: str, design: Design) -> None:
    spoilt = copy.deepcopy(design)
    case = _case(spoilt, spoilt.metrics)
    before = {(v.metric, r) for v in review_metrics(case).reviews for r in v.rules}
    if rule == "judge_on_rule_tier":
        tier = spoilt.architecture.component("answerer").tiers[0]
        spoilt.architecture.component("answerer").tiers.append(type(tier)("by_rule", "rule", tier.symbol, tier.place))
    if rule == "unverifiable_assumption":
        use = spoilt.architecture.component("model_client").uses[0]
        judge = _judge(spoilt.metrics)
        spoilt.architecture.component("answerer").uses = [
            type(use)("llm_chat", judge.symbols[0], "client", judge.places[0])
        ]
    name = SPOILT[rule](spoilt.metrics)

    critique = review_metrics(_case(spoilt, spoilt.metrics))
    review = next(v for v in critique.reviews if v.metric == name)

    assert rule in review.rules
    assert (name, rule) not in before
    assert review.status == ("reject" if rule in REJECT_RULES else "flag")
    assert review.findings is not None
    assert review.suggested_fix
    assert {"claim", "evidence", "verdict"} == set(review.direction)


def test_every_metric_is_reviewed_and_a_pass_has_no_findings(design: Design) -> None:
    assert {v.metric for v in design.critique.reviews} == {m.name for m in design.metrics}
    assert all(v.findings is None for v in design.critique.reviews if v.status == "pass")


def test_an_uncovered_pattern_and_an_uncovered_tier_are_named(design: Design) -> None:
    kept = [m for m in design.metrics if m.pattern not in ("has_cache",) and m.component != "model_client"]

    issues = {(i.component, i.issue) for i in review_metrics(_case(design, kept)).cross_component_issues}

    assert ("question_service", "missing_deterministic_coverage: has_cache") in issues
    assert any(i.startswith("missing_tier_coverage: ") for _, i in issues)


def test_a_fact_wins_over_a_direction_that_contradicts_it(design: Design) -> None:
    metrics = copy.deepcopy(design.metrics)
    metric = _find(metrics, family="cache_hit_rate")
    metric.better = "lower"
    data = {
        "id": "f",
        "kind": "direction",
        "metric": metric.name,
        "better": "higher",
        "by": "maria",
        "at": "2026-11-02",
    }
    fact = Fact.model_validate(data)

    review = next(v for v in review_metrics(_case(design, metrics, (fact,))).reviews if v.metric == metric.name)
    mended = redesign(metric, review, (fact,))

    assert review.rules[-1] == "contradicts_fact"
    assert mended is not None
    assert (mended.better, mended.fact, mended.direction_verdict) == ("higher", "f", "verified")


def test_an_unverified_cascade_stays_as_an_observation_without_polarity(design: Design) -> None:
    metric = _find(design.metrics, family="fallback_rate")

    assert (metric.better, metric.direction_verdict, metric.severity) == ("unknown", "unverified", "ticket")
