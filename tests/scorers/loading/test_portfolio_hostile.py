"""Hostile portfolios are refused or load; they crash nothing and print nothing unsafe."""

from __future__ import annotations

import functools
import json
import time
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gapwatch.scorers.checking.claim_words import expected_words
from gapwatch.scorers.errors import PortfolioError
from gapwatch.scorers.loading.load import parse_portfolio
from tests.depth import examples
from tests.paths import EXAMPLE_PORTFOLIO

EXAMPLE = yaml.safe_load(EXAMPLE_PORTFOLIO.read_text(encoding="utf-8"))
EXAMPLE["facts"][0]["at"] = "2026-11-02"
SQL = "'); DROP TABLE gaps; COPY (SELECT 1) TO '/tmp/x'; --"


def places(node: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the path of every value of the example."""
    found = [path]
    if isinstance(node, dict):
        return found + [deeper for key, value in node.items() for deeper in places(value, (*path, key))]
    if isinstance(node, list):
        return found + [deeper for index, value in enumerate(node) for deeper in places(value, (*path, index))]
    return found


PLACES = [path for path in places(EXAMPLE) if path]
TEXTS = [path for path in PLACES if isinstance(functools.reduce(lambda node, key: node[key], path, EXAMPLE), str)]


def with_value(path: tuple[Any, ...], value: object) -> str:
    copy = json.loads(json.dumps(EXAMPLE))
    target = copy
    for step in path[:-1]:
        target = target[step]
    target[path[-1]] = value
    return json.dumps(copy)


def outcome_of(text: str) -> str:
    """Return `loads`, or the problems; any error but PortfolioError is a bug."""
    try:
        portfolio = parse_portfolio(text)
    except PortfolioError as error:
        return "\n".join(map(str, error.problems))
    assert all(expected_words(metric).isprintable() for metric in portfolio.metrics)
    return "loads"


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: ".".join(map(str, path)))
def test_sql_in_any_text_is_a_text_or_a_problem_of_that_text(path):
    said = outcome_of(with_value(path, SQL))

    assert said == "loads" or all(line.startswith("<portfolio>:1: ") for line in said.splitlines())


@pytest.mark.slow
@pytest.mark.parametrize("path", TEXTS, ids=lambda path: ".".join(map(str, path)))
def test_a_long_text_anywhere_is_a_short_problem_or_loads(path):
    assert len(outcome_of(with_value(path, "x" * 50_000))) < 20_000


@pytest.mark.parametrize(
    "path", [("goal",), ("components", 0, "id"), ("metrics", 0, "name"), ("metrics", 0, "claim", "field")]
)
def test_a_text_of_a_megabyte_takes_little_time(path):
    started = time.process_time()
    said = outcome_of(with_value(path, "x" * 1_000_000))

    assert said != "loads"
    assert time.process_time() - started < 10


@settings(max_examples=examples(100), suppress_health_check=[HealthCheck.too_slow])
@given(
    st.sampled_from(PLACES),
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(max_size=8),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
        max_leaves=6,
    ),
)
def test_any_value_in_any_place_loads_or_is_refused(path, value):
    said = outcome_of(with_value(path, value))

    assert said == "loads" or said.startswith("<portfolio>")


@pytest.mark.parametrize("path", PLACES, ids=lambda path: ".".join(map(str, path)))
def test_any_place_may_be_null_or_is_refused(path):
    assert outcome_of(with_value(path, None))
