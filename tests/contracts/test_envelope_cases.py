"""Every envelope case of the contract holds between two good records, which it does not harm."""

from __future__ import annotations

from functools import cache

import pytest

from gapwatch.scorers.slices.slices import ScoredSlice
from tests.contracts.claim_cases import SKELETON
from tests.contracts.envelope_cases import EnvelopeCase, envelope_cases
from tests.scorers.scored_slice import Product, record_slice
from tests.scorers.scored_view import dead_letters_of, ledger_of, rows_of

_GOOD = b'{"trace_id": "good", "pipeline": "p", "spans": [{"span_id": "s", "component": "c", "output": "x"}]}'
_METRIC = {
    "name": "answers",
    "component": "c",
    "claim": {"form": "check", "field": "output", "present": True},
    "sample": {"keep": {"fail": 1.0, "pass": 1.0}},
}


@cache
def product() -> Product:
    return Product([{**SKELETON, "metrics": [_METRIC]}])


def record_states(scored: ScoredSlice) -> dict[str, int]:
    return {key.state: n for key, n in ledger_of(scored).items() if key.metric is None}


@pytest.mark.parametrize("case", envelope_cases(), ids=lambda case: case.id)
def test_between_two_good_ones(case: EnvelopeCase) -> None:
    scored = product().score(record_slice([_GOOD, case.record, _GOOD]))

    states = record_states(scored)
    assert states.pop("read") - 2 == (case.becomes == "read")
    assert states == ({} if case.becomes == "read" else {case.becomes: 1})
    causes = {(offset, cause) for offset, cause, _, _ in dead_letters_of(scored)}
    assert causes <= {(1, cause) for cause in case.causes}
    assert len(causes) == (case.becomes == "dead_letter")
    assert [row.outcome for row in rows_of(scored) if row.trace_id == "good"] == ["pass", "pass"]


def test_all_in_one_slice() -> None:
    cases = envelope_cases()

    scored = product().score(record_slice([case.record for case in cases]))

    by_offset = {offset: cause for offset, cause, _, _ in dead_letters_of(scored)}
    assert set(by_offset) == {offset for offset, case in enumerate(cases) if case.becomes == "dead_letter"}
    assert all(cause in cases[offset].causes for offset, cause in by_offset.items())
    kinds = [case.becomes for case in cases]
    assert record_states(scored) == {kind: kinds.count(kind) for kind in set(kinds)}
