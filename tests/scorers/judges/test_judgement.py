"""Judgements are equal after writing and reading them."""

from __future__ import annotations

import pytest

from gapwatch.scorers.judges.judgement import RECORD_BYTES, Judgement, PaidCall, judgement_records, judgements_of
from gapwatch.scorers.judges.triple import StabilityTriple

VERDICT = Judgement(
    "a", "pass", 0.75, 0.75, "Good", observed="seen \u00e9", triple=StabilityTriple("v/m@1", "p", "s"),
    evidence={"justification": "for \u00e9"}, calls=(PaidCall("v/m", "reply", 1, 2, 0.5, 0.1),),
)  # fmt: skip
ERROR = Judgement("b", "error", reason="not_json: x")


def test_judgements_come_back_as_they_were() -> None:
    (record,) = judgement_records([VERDICT, ERROR])

    assert judgements_of(record) == [VERDICT, ERROR]


def test_records_stay_of_a_size_that_brokers_take() -> None:
    long = [Judgement(str(i), "error", reason="x" * 100_000) for i in range(20)]
    records = list(judgement_records(long))

    assert len(records) > 1
    assert all(len(record) < RECORD_BYTES + 10_000 for record in records)
    assert [j.id for record in records for j in judgements_of(record)] == [str(i) for i in range(20)]


@pytest.mark.parametrize("record", [b"nonsense", b"\xff" * 100, next(judgement_records([ERROR]))[:-40]])
def test_what_is_no_record_is_refused(record: bytes) -> None:
    with pytest.raises(ValueError):
        judgements_of(record)


def test_a_record_without_judgements_says_nothing() -> None:
    assert judgements_of(b"") == []


@pytest.mark.parametrize("state", ["pass", "fail"])
def test_a_verdict_without_its_triple_cannot_be_made(state: str) -> None:
    with pytest.raises(ValueError, match="stability triple"):
        Judgement("a", state, 1.0, 1.0, "Good")
    with pytest.raises(ValueError):
        Judgement("a", "maybe")
