"""The registry, the choice of metrics by task, and what is exported."""

from __future__ import annotations

import random
import warnings
from collections.abc import Sequence
from typing import Any

import pytest
import yaml

from gapwatch.scorers.errors import UsageError
from gapwatch.scorers.loading.load import parse_portfolio
from gapwatch.streams.evaluation.datasets.example import Example
from gapwatch.streams.evaluation.metrics.metric import ComputedSetMetric
from gapwatch.streams.evaluation.metrics.registry import MetricRegistry, installed_metrics
from gapwatch.streams.evaluation.metrics.router import MetricRouter, met_needs
from gapwatch.streams.evaluation.metrics.use_case import MetricMetadata, MetricResult, UseCase
from gapwatch.streams.evaluation.running.evaluated_function import evaluated
from tests.gapwatch_command import gapwatch

#: Section 6.3 of the design of Metric Bank.
DEFAULTS = {
    "classification": ["accuracy", "f1_macro"],
    "chat": ["helpfulness_llm_judge", "latency_ms"],
    "rag_qa": ["answer_quality_llm_judge", "rag_faithfulness_llm_judge", "latency_ms"],
    "tool_calling": ["tool_success_rate", "invalid_tool_call_rate", "latency_ms"],
}


def _selected(task: str, **given: Any) -> list[str]:
    found = MetricRouter(installed_metrics()).select_metrics(UseCase(task), **given)
    return [metric.metadata.id for metric in found]


@pytest.mark.parametrize("task", DEFAULTS)
def test_a_task_has_its_default_metrics(task: str) -> None:
    assert _selected(task) == DEFAULTS[task]


def test_explicit_metrics_are_used_exactly_whatever_the_task() -> None:
    assert _selected("chat", explicit_metrics=["accuracy", "latency_ms"], preset="deep_dive") == [
        "accuracy",
        "latency_ms",
    ]
    assert _selected("chat", explicit_metrics=[]) == []
    with pytest.raises(UsageError, match="did you mean accuracy"):
        _selected("chat", explicit_metrics=["acuracy"])


def test_presets_cost_nothing_or_leave_nothing_out() -> None:
    registry = installed_metrics()
    for task in DEFAULTS:
        light, deep = _selected(task, preset="lightweight"), _selected(task, preset="deep_dive")
        assert all(registry.get_metric(one).metadata.metric_type != "llm_judge" for one in light)
        assert set(light) | set(DEFAULTS[task]) <= set(deep)
    with pytest.raises(UsageError, match="presets are lightweight, deep_dive"):
        _selected("chat", preset="heavy")
    with pytest.raises(UsageError, match="tasks are classification"):
        _selected("summary")


def test_a_metric_whose_needs_are_not_met_is_left_out_and_said() -> None:
    chosen = MetricRouter(installed_metrics()).select_metrics(UseCase("rag_qa"), preset="deep_dive")

    selected = met_needs(chosen, frozenset({"context"}), has_model=False)

    assert [metric.metadata.id for metric in selected.metrics] == ["citation_support", "latency_ms"]
    assert selected.left_out["context_recall"] == "no example has a reference"
    assert "set_llm_client" in selected.left_out["answer_quality_llm_judge"]


class Shouting:
    """A metric as another package would write it, from the seed's protocol alone."""

    metadata = MetricMetadata("shouting", "Shouting", ("chat",), "objective")

    def compute(self, examples: Sequence[Example]) -> MetricResult:
        return MetricResult("shouting", sum(str(e.output).isupper() for e in examples) / len(examples))


def test_a_metric_of_another_package_is_registered_once() -> None:
    registry = MetricRegistry([Shouting()])

    assert [metric.metadata.id for metric in registry.get_metrics_for_task("chat")] == ["shouting"]
    with pytest.raises(UsageError, match="two metrics have the id 'shouting'"):
        registry.register_metric(Shouting())
    with pytest.raises(UsageError, match="is no metric"):
        registry.register_metric("accuracy")  # type: ignore[arg-type]


def test_the_command_lists_and_exports_what_production_can_score() -> None:
    listed, unknown = gapwatch("metrics", "--task", "tool_calling"), gapwatch("metrics", "--task", "tools")
    exported = gapwatch("metrics", "export", "--task", "rag_qa", "--pipeline", "faq", "--component", "answer")

    assert "wrong_tool" in listed.out and "accuracy" not in listed.out
    assert (unknown.status, "tasks are" in unknown.err) == (2, True)
    portfolio = parse_portfolio(exported.out)
    assert (portfolio.pipeline, {metric.component for metric in portfolio.metrics}) == ("faq", {"answer"})
    assert {metric.name for metric in portfolio.metrics} == {
        *("answer_quality_llm_judge", "rag_faithfulness_llm_judge", "citation_support", "latency_ms"),
    }
    assert "reference" not in yaml.safe_dump([metric["claim"] for metric in yaml.safe_load(exported.out)["metrics"]])


def test_scores_over_the_set_are_those_counted_by_hand() -> None:
    # cat: 2 of 3 found, one of 3 so called is none. dog: 1 of 2 found, one of 2 so called is none. cow: never true.
    true, output = ["cat", "cat", "cat", "dog", "dog"], ["cat", "cat", "dog", "dog", "cow"]
    examples = [Example(str(i), {}, o, t) for i, (t, o) in enumerate(zip(true, output, strict=True))]
    lost = [Example("e", {}, None, "cat", error="broke"), Example("n", {}, "cat")]
    registry = installed_metrics()

    f1 = _computed(registry, "f1_macro", examples + lost)

    assert f1.details == {"n": 5, "by_class": pytest.approx({"cat": 0.8, "cow": 0.0, "dog": 0.5})}
    assert f1.score == pytest.approx(1.3 / 3)
    assert _computed(registry, "precision_by_class", examples).details["by_class"] == {
        "cat": 1.0,
        "cow": 0.0,
        "dog": 0.5,
    }
    assert _computed(registry, "recall_by_class", examples).score == pytest.approx((2 / 3 + 0 + 1 / 2) / 3)
    assert _computed(registry, "f1_macro", lost).score is None


@pytest.mark.slow
def test_scores_over_the_set_equal_those_of_scikit_learn() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scikit-learn's own imports
        from sklearn.metrics import accuracy_score, confusion_matrix, precision_recall_fscore_support
    registry, rng = installed_metrics(), random.Random(19)
    for _ in range(50):
        classes = [f"c{i}" for i in range(rng.randint(1, 7))]
        # Some classes occur only as truth, others only as prediction, and some not at all.
        of_truth, of_output = (
            rng.sample(classes, rng.randint(1, len(classes))),
            rng.sample(classes, rng.randint(1, len(classes))),
        )
        n = rng.randint(1, 60)
        true, output = rng.choices(of_truth, k=n), rng.choices(of_output, k=n)
        examples = [Example(str(i), {}, o, t) for i, (t, o) in enumerate(zip(true, output, strict=True))]

        found = {
            name: _computed(registry, name, examples)
            for name in ("f1_macro", "precision_by_class", "recall_by_class", "confusion")
        }

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a single class
            labels = sorted({*true, *output})
            precision, recall, f1, _ = precision_recall_fscore_support(true, output, labels=labels, zero_division=0)
            matrix, accuracy = confusion_matrix(true, output, labels=labels), accuracy_score(true, output)
        assert found["f1_macro"].score == pytest.approx(f1.mean(), abs=1e-12)
        for name, expected in (("f1_macro", f1), ("precision_by_class", precision), ("recall_by_class", recall)):
            by_class = found[name].details["by_class"]
            assert list(by_class) == labels
            assert list(by_class.values()) == pytest.approx(list(expected), abs=1e-12)
        assert found["confusion"].details["rows_true_columns_predicted"] == matrix.tolist()
        assert found["confusion"].score == pytest.approx(accuracy, abs=1e-12)


def _computed(registry: MetricRegistry, name: str, examples: list[Example]) -> MetricResult:
    metric = registry.get_metric(name)
    assert isinstance(metric, ComputedSetMetric)
    return metric.compute(examples)


def test_scores_of_texts_are_those_of_their_libraries() -> None:
    from rapidfuzz.distance import Levenshtein
    from rouge_score.rouge_scorer import RougeScorer
    from sacrebleu import corpus_bleu, corpus_chrf

    references = ["the cat sat on the mat", "a refund takes seven days", "we ship on mondays", "über 7 {Tage}"]
    outputs = ["the cat is on the mat", "a refund takes five days", "we never ship", "{nicht über 7 Tage"]
    given = [
        Example(str(i), {"text": output}, reference={"answer": reference} if i else reference)
        for i, (output, reference) in enumerate(zip(outputs, references, strict=True))
    ]

    def answer(text: str) -> Any:
        return {"answer": text} if text.startswith("we") else text

    run = evaluated("rag_qa", metrics=["rouge_l", "edit_similarity", "bleu", "chrf"])(answer).eval(given)

    rouge = RougeScorer(["rougeL"])
    pairs = list(zip(outputs, references, strict=True))
    expected = {
        "rouge_l": sum(rouge.score(reference, output)["rougeL"].fmeasure for output, reference in pairs) / 4,
        "edit_similarity": sum(Levenshtein.normalized_similarity(*pair) for pair in pairs) / 4,
        "bleu": corpus_bleu(outputs, [references]).score / 100,
        "chrf": corpus_chrf(outputs, [references]).score / 100,
    }
    assert {one.metric_id: one.score for one in run.metric_results} == pytest.approx(expected, abs=1e-12)
    assert run.outcomes["2"]["edit_similarity"]["score"] == pytest.approx(Levenshtein.normalized_similarity(*pairs[2]))
    assert all(0 < value < 1 for value in expected.values())
