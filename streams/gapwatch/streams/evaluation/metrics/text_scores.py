"""Scores of a text against the reference answer, by the libraries that define them; extra `text`.

A reference is a text, or an object with `answer`; so is an output.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import orjson

from gapwatch.scorers.scoring.python_scorer import Scored, Span, scorer
from gapwatch.streams.evaluation.datasets.example import Example
from gapwatch.streams.evaluation.metrics.metric import ClaimMetric, ComputedSetMetric, EvaluationMetric
from gapwatch.streams.evaluation.metrics.use_case import MetricMetadata

_TASKS = ("chat", "rag_qa")
_FIELDS = ["output", "attributes.reference"]


@scorer(name="gapwatch_rouge_l", fields=_FIELDS)
def rouge_l(spans: list[Span]) -> list[Any]:
    """Return ROUGE-L of each output, as F1; None where one of the texts is absent."""
    return [_scored(span, _rouge_l) for span in spans]


def _rouge_l(output: str, reference: str) -> float:
    return float(_rouge().score(reference, output)["rougeL"].fmeasure)


@scorer(name="gapwatch_edit_similarity", fields=_FIELDS)
def edit_similarity(spans: list[Span]) -> list[Any]:
    """Return 1 minus the Levenshtein distance over the length of the longer text."""
    from rapidfuzz.distance import Levenshtein

    return [_scored(span, Levenshtein.normalized_similarity) for span in spans]


@cache
def _rouge() -> Any:
    from rouge_score.rouge_scorer import RougeScorer

    return RougeScorer(["rougeL"])


def _scored(span: Span, score: Callable[[str, str], float]) -> Scored:
    output, reference = (_text(_parsed(span[field])) for field in _FIELDS)
    if output is None or reference is None:
        return Scored("unknown", reason="the output or the reference answer is no text")
    return Scored("pass", score=score(output, reference))


def _parsed(value: Any) -> Any:
    """Return the object in a field that had one, which a scorer sees as its JSON; any other text is itself."""
    if isinstance(value, str) and value.startswith("{"):
        try:
            return orjson.loads(value)
        except orjson.JSONDecodeError:
            return value
    return value


def _text(value: Any) -> str | None:
    answer = value.get("answer") if isinstance(value, dict) else value
    return answer if isinstance(answer, str) else None


def _texts(examples: Sequence[Example]) -> tuple[list[str], list[str]]:
    pairs = [(_text(one.output), _text(one.reference)) for one in examples if one.error is None]
    both = [(output, reference) for output, reference in pairs if output is not None and reference is not None]
    return [output for output, _ in both], [reference for _, reference in both]


def _bleu(examples: Sequence[Example]) -> tuple[float | None, Mapping[str, Any]]:
    from sacrebleu.metrics.bleu import BLEU

    return _corpus_score(BLEU(), examples)


def _chrf(examples: Sequence[Example]) -> tuple[float | None, Mapping[str, Any]]:
    from sacrebleu.metrics.chrf import CHRF

    return _corpus_score(CHRF(), examples)


def _corpus_score(metric: Any, examples: Sequence[Example]) -> tuple[float | None, Mapping[str, Any]]:
    outputs, references = _texts(examples)
    if not outputs:
        return None, {"n": 0}
    score = metric.corpus_score(outputs, [references]).score / 100
    return score, {"n": len(outputs), "signature": str(metric.get_signature())}


def _described(id_: str, name: str, description: str) -> MetricMetadata:
    return MetricMetadata(id_, name, _TASKS, "objective", {"reference": True}, "low", description)


TEXT_SCORES: tuple[EvaluationMetric, ...] = (
    ClaimMetric(
        _described("rouge_l", "ROUGE-L", "F1 of the longest common subsequence of words with the reference answer"),
        {"form": "python", "scorer": "gapwatch_rouge_l", "fields": _FIELDS},
        "quality",
        "mean",
        library="rouge_score",
    ),
    ClaimMetric(
        _described("edit_similarity", "Edit similarity", "1 minus the share of characters to change (Levenshtein)"),
        {"form": "python", "scorer": "gapwatch_edit_similarity", "fields": _FIELDS},
        "quality",
        "mean",
        library="rapidfuzz",
    ),
    ComputedSetMetric(
        _described("bleu", "BLEU", "BLEU of all outputs together, from 0 to 1; the details have its signature"),
        _bleu,
        "sacrebleu",
    ),
    ComputedSetMetric(
        _described("chrf", "chrF", "F-score of character n-grams of all outputs together, from 0 to 1"),
        _chrf,
        "sacrebleu",
    ),
)
