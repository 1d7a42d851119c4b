"""The reference itself passes every case of the contract."""

from __future__ import annotations

import pytest

from tests.contracts.claim_cases import ClaimCase, SeenRow, claim_cases, claim_cases_for_one_slice, portfolio_of
from tests.contracts.envelope_cases import EnvelopeCase, envelope_cases
from tests.reference.envelope import DeadLetter, Foreign, Trace, read_record
from tests.reference.slice_reading import LedgerKey, Reading, read_slice


def rows_of(reading: Reading, trace_id: str) -> list[SeenRow]:
    return [
        SeenRow(row.trace_id, row.metric, row.span_index, row.outcome, row.score, row.label, row.reason)
        for row in reading.rows
        if row.trace_id == trace_id
    ]


@pytest.mark.parametrize("case", claim_cases(), ids=lambda case: case.id)
def test_claim_case_alone(case: ClaimCase) -> None:
    reading = read_slice([case.record], [case.portfolio])

    case.check_rows(rows_of(reading, case.id))
    assert reading.ledger[LedgerKey("p", None, "read")] == 1
    if case.trace_unit is not None:
        assert [unit.unit.state for unit in reading.units] == [case.trace_unit]


def test_claim_cases_in_one_slice() -> None:
    cases = claim_cases_for_one_slice()

    reading = read_slice([case.record for case in cases], [portfolio_of(cases)])

    for case in cases:
        case.check_rows(rows_of(reading, case.id))
    assert len(reading.rows) == sum(len(case.rows) for case in cases)


@pytest.mark.parametrize("case", envelope_cases(), ids=lambda case: case.id)
def test_envelope_case(case: EnvelopeCase) -> None:
    found = read_record(case.record, ["p"])

    kinds = {"read": Trace, "dead_letter": DeadLetter, "foreign": Foreign}
    assert isinstance(found, kinds[case.becomes])
    if isinstance(found, DeadLetter):
        assert found.cause in case.causes
