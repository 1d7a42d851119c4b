"""Metrics of classification: accuracy as a claim; F1, precision, recall and confusion over the set.

Source: the definitions of scikit-learn's `precision_recall_fscore_support` and `confusion_matrix`, with
`zero_division=0` and the classes that occur as reference or as output.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from gapwatch.streams.evaluation.datasets.example import Example
from gapwatch.streams.evaluation.metrics.metric import (
    PASSING_IS_BETTER,
    ClaimMetric,
    ComputedSetMetric,
    EvaluationMetric,
)
from gapwatch.streams.evaluation.metrics.use_case import MetricMetadata

_REFERENCE = {"reference": True}
_TASK = ("classification",)


def class_label(value: Any) -> str:
    """Return a class as text: a text itself, any other JSON value as its compact JSON."""
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def _pairs(examples: Sequence[Example]) -> list[tuple[str, str]]:
    """Return reference and output of each example that has both."""
    return [
        (class_label(example.reference), class_label(example.output))
        for example in examples
        if example.error is None and example.output is not None and example.reference is not None
    ]


class ClassCounts:
    """Counts of true classes and predicted classes.

    Args:
        pairs: Reference and output of each example.
    """

    def __init__(self, pairs: Sequence[tuple[str, str]]) -> None:
        self.pairs = Counter(pairs)
        self.n = len(pairs)
        self.true: Counter[str] = Counter(true for true, _ in pairs)
        self.predicted: Counter[str] = Counter(predicted for _, predicted in pairs)
        self.classes = sorted(self.true.keys() | self.predicted.keys())

    def precision(self) -> dict[str, float]:
        """Return the share of the examples predicted as a class that are of it; 0 for a class never predicted."""
        return {name: _share(self.pairs[name, name], self.predicted[name]) for name in self.classes}

    def recall(self) -> dict[str, float]:
        """Return the share of the examples of a class that are predicted as it; 0 for a class without examples."""
        return {name: _share(self.pairs[name, name], self.true[name]) for name in self.classes}

    def f1(self) -> dict[str, float]:
        """Return F1, the harmonic mean of precision and recall, of each class; 0 where both are 0."""
        return {
            name: _share(2 * self.pairs[name, name], self.true[name] + self.predicted[name]) for name in self.classes
        }


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


def _mean(values: Mapping[str, float]) -> float | None:
    return sum(values.values()) / len(values) if values else None


def _f1_macro(examples: Sequence[Example]) -> tuple[float | None, Mapping[str, Any]]:
    counts = ClassCounts(_pairs(examples))
    by_class = counts.f1()
    return _mean(by_class), {"n": counts.n, "by_class": by_class}


def _precision(examples: Sequence[Example]) -> tuple[float | None, Mapping[str, Any]]:
    counts = ClassCounts(_pairs(examples))
    by_class = counts.precision()
    return _mean(by_class), {"n": counts.n, "by_class": by_class}


def _recall(examples: Sequence[Example]) -> tuple[float | None, Mapping[str, Any]]:
    counts = ClassCounts(_pairs(examples))
    by_class = counts.recall()
    return _mean(by_class), {"n": counts.n, "by_class": by_class}


def _confusion(examples: Sequence[Example]) -> tuple[float | None, Mapping[str, Any]]:
    counts = ClassCounts(_pairs(examples))
    rows = [[counts.pairs[true, predicted] for predicted in counts.classes] for true in counts.classes]
    right = sum(counts.pairs[name, name] for name in counts.classes)
    score = right / counts.n if counts.n else None
    return score, {"n": counts.n, "classes": counts.classes, "rows_true_columns_predicted": rows}


CLASSIFICATION: tuple[EvaluationMetric, ...] = (
    ClaimMetric(
        MetricMetadata(
            "accuracy", "Accuracy", _TASK, "objective", _REFERENCE, "low",
            "the output is the class of the reference answer",
        ),
        {"form": "python", "scorer": "gapwatch_exact_match", "fields": ["output", "attributes.reference"]},
        "quality",
        direction=PASSING_IS_BETTER,
    ),
    ComputedSetMetric(
        MetricMetadata(
            "f1_macro", "Macro F1", _TASK, "objective", _REFERENCE, "low",
            "unweighted mean over the classes of F1, the harmonic mean of precision and recall",
        ),
        _f1_macro,
    ),
    ComputedSetMetric(
        MetricMetadata(
            "precision_by_class", "Precision by class", _TASK, "objective", _REFERENCE, "low",
            "share of the examples predicted as a class that are of it; the score is the mean over the classes",
        ),
        _precision,
    ),
    ComputedSetMetric(
        MetricMetadata(
            "recall_by_class", "Recall by class", _TASK, "objective", _REFERENCE, "low",
            "share of the examples of a class that are predicted as it; the score is the mean over the classes",
        ),
        _recall,
    ),
    ComputedSetMetric(
        MetricMetadata(
            "confusion", "Confusion matrix", _TASK, "objective", _REFERENCE, "low",
            "number of examples by true and by predicted class; the score is the share on the diagonal",
        ),
        _confusion,
    ),
)  # fmt: skip
