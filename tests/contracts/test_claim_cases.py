"""Every claim case of the contract holds, alone and together with all others."""

from __future__ import annotations

from functools import cache

import pytest

from gapwatch.scorers.slices.slices import ScoredSlice
from tests.contracts.claim_cases import ClaimCase, SeenRow, claim_cases, claim_cases_for_one_slice, portfolio_of
from tests.reference.slice_reading import LedgerKey
from tests.scorers.scored_slice import Product, record_slice
from tests.scorers.scored_view import ledger_of, rows_of


def seen_rows(*slices: ScoredSlice) -> dict[str, list[SeenRow]]:
    by_trace: dict[str, list[SeenRow]] = {}
    for scored in slices:
        for row in rows_of(scored):
            seen = SeenRow(row.trace_id, row.metric, row.span_index, row.outcome, row.score, row.label, row.reason)
            by_trace.setdefault(row.trace_id, []).append(seen)
    return by_trace


def unit_states(scored: ScoredSlice) -> dict[str, list[str]]:
    """Return the units by metric, from the ticks."""
    states: dict[str, list[str]] = {}
    for tick in scored.tables["ticks"].to_pylist():
        if tick["level"] == "unit" and tick["facet"] == "all":
            states.setdefault(tick["metric"], []).extend([tick["outcome"]] * tick["n"])
    return states


def span_counts(scored: ScoredSlice) -> dict[tuple[str, str], int]:
    """Return the spans by metric and outcome, from the ticks."""
    ticks = scored.tables["ticks"].to_pylist()
    return {
        (tick["metric"], tick["outcome"]): tick["n"]
        for tick in ticks
        if tick["level"] == "span" and tick["facet"] == "all"
    }


@pytest.mark.slow
@pytest.mark.parametrize("case", claim_cases(), ids=lambda case: case.id)
def test_alone(case: ClaimCase) -> None:
    scored = Product([case.portfolio]).score(record_slice([case.record]))

    case.check_rows(seen_rows(scored).get(case.id, []))
    counts = ledger_of(scored)
    assert counts.pop(LedgerKey("p", None, "read")) == 1
    assert {(key.metric, key.state): n for key, n in counts.items()} == span_counts(scored)
    assert sum(counts.values()) == len(case.rows)
    if case.trace_unit is not None:
        assert unit_states(scored) == {case.metrics[0]["name"]: [case.trace_unit]}


@cache
def together() -> tuple[list[ClaimCase], Product]:
    cases = claim_cases_for_one_slice()
    return cases, Product([portfolio_of(cases)])


def test_all_in_one_slice() -> None:
    cases, product = together()

    scored = product.score(record_slice([case.record for case in cases]))

    rows, units = seen_rows(scored), unit_states(scored)
    for case in cases:
        case.check_rows(rows.get(case.id, []))
        if case.trace_unit is not None:
            assert units[case.metrics[0]["name"]] == [case.trace_unit]
    assert scored.tables["gaps"].num_rows == sum(len(case.rows) for case in cases)


@pytest.mark.slow
def test_two_halves_give_the_same_rows() -> None:
    cases, product = together()
    records = [case.record for case in cases]
    middle = len(records) // 2

    whole = product.score(record_slice(records))
    halves = [
        product.score(record_slice(records[:middle])),
        product.score(record_slice(records[middle:], None, middle)),
    ]

    assert rows_of(whole) == [row for half in halves for row in rows_of(half)]
