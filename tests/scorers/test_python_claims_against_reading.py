"""Python scorers and the judges beside them: what is selected, with which probability, and what becomes of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scorers.python_scorer import Scored
from scorers.scorer_host import ScorerHost
from tests.contracts.claim_cases import SKELETON
from tests.reference.claims import Outcome
from tests.reference.slice_reading import read_slice
from tests.reference.trace_maker import make_record
from tests.scorers import python_scorers
from tests.scorers.scored_view import differences, ledger_of
from tests.scorers.scoring import Product, record_slice

_VALUES = [make_record(seed, ["p"]) for seed in range(150)]
_CLAIM = {"form": "python", "scorer": "moody", "fields": python_scorers.FIELDS}
_JUDGE = {
    "form": "judge",
    "rubric": {"criterion": "is it grounded", "scale": ["yes", "no"], "inputs": ["input", "output"], "pass_at": "yes"},
    "judges": [{"model": "openai/gpt-4.1-mini", "params": {"temperature": 0}}],
}
_STRATA = [
    {"name": "cached", "when": {"field": "tier", "one_of": ["cache"]}, "rate": 0.9},
    {"name": "errors", "when": {"field": "status", "one_of": ["error"]}, "rate": 0.3},
]
_KEEP = {"fail": 1.0, "warn": 0.5, "pass": 0.25}
_PRESENT = {"form": "check", "field": "output", "present": True}
_SAMPLES: dict[str, dict[str, Any]] = {
    "all": {"keep": {"fail": 1.0, "pass": 1.0}},
    "half": {"rate": 0.5, "keep": _KEEP},
    "none": {"rate": 0},
    "strata": {"rate": 0.6, "strata": _STRATA, "keep": _KEEP},
}


def moody(span: dict[str, Any]) -> Outcome:
    """The outcome of what the scorer answers, by its documentation."""
    answer = python_scorers.answer(span)
    if answer is None:
        return Outcome("unknown", reason="unscored")
    if isinstance(answer, bool):
        return Outcome("pass" if answer else "fail")
    if isinstance(answer, float):
        return Outcome("pass", score=answer)
    if isinstance(answer, str):
        return Outcome("pass", label=answer)
    assert isinstance(answer, Scored)
    return Outcome(answer.outcome, answer.score, answer.label, answer.reason)


@pytest.fixture(scope="module")
def host() -> Iterator[ScorerHost]:
    with ScorerHost(str(Path(python_scorers.__file__))) as running:
        yield running


def portfolio(**metric: Any) -> dict[str, Any]:
    """One metric, and composites that stand on it first and last."""
    metrics = [
        {"name": "m", "component": "c", "concern": "quality", **metric},
        {"name": "there", "component": "c", "concern": "quality", "claim": _PRESENT},
        {
            "name": "both",
            "component": "c",
            "concern": "quality",
            "claim": {"form": "composite", "parts": {"m": 0.75, "there": 0.25}, "pass_at": 0.5},
        },
        {
            "name": "both_again",
            "component": "c",
            "concern": "quality",
            "claim": {"form": "composite", "parts": {"there": 0.5, "m": 0.5}},
        },
    ]
    return {**SKELETON, "metrics": metrics}


@pytest.mark.parametrize("optional", [False, True], ids=["plain", "optional"])
@pytest.mark.parametrize("sample", _SAMPLES)
def test_python_claims(sample: str, optional: bool, host: ScorerHost) -> None:
    claim = {**_CLAIM, "optional": True} if optional else _CLAIM
    written = portfolio(claim=claim, sample=_SAMPLES[sample])

    scored = Product([written], host).score(record_slice(_VALUES))

    reading = read_slice(_VALUES, [written], functions={"moody": moody})
    assert [found for found in differences(scored, reading, _VALUES) if not _is_of_side_facet(found)] == []
    assert ("sampled_out" in {key.state for key in reading.ledger}) == (sample != "all")


def _is_of_side_facet(difference: str) -> bool:
    return "facet='label'" in difference or "facet='stratum'" in difference


@pytest.mark.xfail(reason="the facets label and stratum leave the rate of evaluation out of p")
@pytest.mark.parametrize("sample", ["half", "strata"])
def test_side_facets_carry_the_probability_of_evaluation(sample: str, host: ScorerHost) -> None:
    written = portfolio(claim=_CLAIM, sample=_SAMPLES[sample])

    scored = Product([written], host).score(record_slice(_VALUES))

    reading = read_slice(_VALUES, [written], functions={"moody": moody})
    assert [found for found in differences(scored, reading, _VALUES) if _is_of_side_facet(found)] == []


@pytest.mark.parametrize("sample", _SAMPLES)
def test_judge_claims(sample: str) -> None:
    written = portfolio(claim=_JUDGE, sample=_SAMPLES[sample])

    scored = Product([written]).score(record_slice(_VALUES))

    assert differences(scored, read_slice(_VALUES, [written]), _VALUES) == []
    pending = sum(n for key, n in ledger_of(scored).items() if (key.metric, key.state) == ("m", "pending"))
    assert scored.tables["judge_requests"].num_rows == pending
    assert len(set(scored.tables["judge_requests"]["id"].to_pylist())) == pending
