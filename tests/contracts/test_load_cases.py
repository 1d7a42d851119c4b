"""Every load case of the contract loads, or is refused with its key."""

from __future__ import annotations

import re

import pytest

from gapwatch.scorers.errors import PortfolioError
from gapwatch.scorers.loading.load import parse_portfolio
from tests.contracts.load_cases import CASES, portfolio_of

# Cases with several problems, each of which is reported.
SEVERAL_PROBLEMS = {"yaml-alias-bomb": 6}


def key_parts(key: str) -> list[str]:
    return re.sub(r"\[\d+\]", "", key).split(".")


def is_within(expected: list[str], found: list[str]) -> bool:
    """Return whether `expected` is a contiguous part of `found`."""
    return any(found[i : i + len(expected)] == expected for i in range(len(found) - len(expected) + 1))


def test_there_are_as_many_cases_as_the_contract_says():
    statuses = [case["expect"]["status"] for case in CASES]

    assert (statuses.count(2), statuses.count(0)) == (135, 30)


@pytest.mark.parametrize("case", [case for case in CASES if case["expect"]["status"] == 0], ids=lambda case: case["id"])
def test_it_loads(case):
    portfolio = parse_portfolio(portfolio_of(case), "cases.yaml")

    assert re.fullmatch("[0-9a-f]{64}", portfolio.sha)
    assert all(re.fullmatch("[0-9a-f]{12}", metric.version) for metric in portfolio.metrics)


@pytest.mark.parametrize("case", [case for case in CASES if case["expect"]["status"] == 2], ids=lambda case: case["id"])
def test_it_is_refused_by_its_key_and_for_nothing_else(case):
    with pytest.raises(PortfolioError) as refused:
        parse_portfolio(portfolio_of(case), "cases.yaml")

    problems = refused.value.problems
    expected = [part for part in key_parts(case["expect"]["key"]) if part]
    assert any(is_within(expected, key_parts(problem.key)) for problem in problems), problems
    assert all(str(problem).startswith("cases.yaml") for problem in problems)
    assert all(problem.line is not None or not problem.key for problem in problems)
    assert len(problems) == SEVERAL_PROBLEMS.get(case["id"], 1), problems
    assert refused.value.exit_status == 2
