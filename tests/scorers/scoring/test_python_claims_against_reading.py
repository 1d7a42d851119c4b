"""Python scorers and judges: selection, probabilities and outcomes agree with the reference."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from gapwatch.scorers.scoring.python_scorer import Scored
from gapwatch.scorers.scoring.scorer_host import ScorerHost
from tests.contracts.claim_cases import SKELETON
from tests.depth import examples
from tests.reference.claims import Outcome
from tests.reference.slice_reading import read_slice
from tests.reference.trace_maker import make_record
from tests.scorers import python_scorers
from tests.scorers.scored_slice import Product, record_slice
from tests.scorers.scored_view import differences, ledger_of, rows_of

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
    """Return the outcome of the scorer's answer, by its documentation."""
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
    """Return a portfolio with one metric, and composites that have it as first and as last part."""
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


@cache
def _values() -> list[bytes | None]:
    return [make_record(seed, ["p"]) for seed in range(examples(800))]


@pytest.mark.parametrize("optional", [False, True], ids=["plain", "optional"])
@pytest.mark.parametrize("sample", _SAMPLES)
def test_python_claims(sample: str, optional: bool, host: ScorerHost) -> None:
    claim = {**_CLAIM, "optional": True} if optional else _CLAIM
    written = portfolio(claim=claim, sample=_SAMPLES[sample])

    scored = Product([written], host).score(record_slice(_values()))

    reading = read_slice(_values(), [written], functions={"moody": moody})
    assert differences(scored, reading, _values()) == []
    assert {tick["facet"] for tick in scored.tables["ticks"].to_pylist() if tick["metric"] == "m"} >= (
        {"label", "stratum"} if sample == "strata" else {"label"} if sample != "none" else set()
    )
    if sample == "all":
        states = Counter(seen.outcome.state for seen in reading.outcomes if seen.metric == "m")
        wanted = ["pass", "warn", "fail", "skip", *([] if optional else ["unknown"])]
        assert {state: states[state] for state in wanted if states[state] < examples(50)} == {}
    assert ("sampled_out" in {key.state for key in reading.ledger}) == (sample != "all")


@pytest.mark.parametrize(("name", "reason"), [("broken", "exception"), ("babbling", "bad_result")])
def test_a_scorer_that_fails_is_an_error_and_no_score(name: str, reason: str, host: ScorerHost) -> None:
    written = portfolio(claim={"form": "python", "scorer": name, "fields": ["output"]}, sample=_SAMPLES["half"])

    scored = Product([written], host).score(record_slice(_values()))

    said = {row.reason for row in rows_of(scored) if row.metric == "m"}
    assert all(text is not None and text.startswith(reason) for text in said)
    reading = read_slice(_values(), [written], functions={name: lambda span: Outcome("error")})
    unexplained = [found for found in differences(scored, reading, _values()) if ": reason: " not in found]
    assert unexplained == []


@pytest.mark.parametrize("sample", _SAMPLES)
def test_judge_claims(sample: str) -> None:
    written = portfolio(claim=_JUDGE, sample=_SAMPLES[sample])

    scored = Product([written]).score(record_slice(_values()))

    assert differences(scored, read_slice(_values(), [written]), _values()) == []
    pending = sum(n for key, n in ledger_of(scored).items() if (key.metric, key.state) == ("m", "pending"))
    assert scored.tables["judge_requests"].num_rows == pending
    assert len(set(scored.tables["judge_requests"]["id"].to_pylist())) == pending
