"""The straight-line function of a block agrees with the functions of its claims, and joined patterns with each."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest
import re2
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from gapwatch.scorers.loading.load import parse_portfolio
from gapwatch.scorers.plan.plan import Plan, compile_plan
from gapwatch.scorers.plan.record_types import ParsedKeys, RecordTypes
from gapwatch.scorers.plan.row_values import RowInputs
from gapwatch.scorers.portfolio.field import parse_field
from gapwatch.scorers.scoring.records import DeadLetter, block_owners, decode_records
from tests.benchmarks.traffic import lines, portfolio
from tests.depth import examples
from tests.reference.strategies import DrawnSlice, slices


def check_each_row(plan: Plan, values: list[bytes | None]) -> None:
    """Assert that codes and scores are those of the functions of each claim."""
    pipelines = {portfolio.pipeline for portfolio in plan.portfolios}
    read = list(decode_records(pa.array(values, pa.binary()), plan.types))
    traces = [trace for trace in read if not isinstance(trace, DeadLetter) and trace.pipeline in pipelines]
    for block, of in zip(plan.blocks, block_owners(plan.blocks, traces), strict=True):
        rows = block.inputs.rows(of.owners)
        codes, scores = block.function.codes_and_scores(rows)
        for m, planned in enumerate(block.metrics):
            outcome, places = planned.outcome, range(len(of.owners))
            assert codes[:, m].tolist() == [outcome.code(rows, i) for i in places], planned.metric.name
            if outcome.score is not None:
                expected = [outcome.score(rows, i) for i in places]
                same = [a == b or (math.isnan(a) and math.isnan(b)) for a, b in zip(scores[m], expected, strict=True)]
                assert all(same), planned.metric.name


@settings(max_examples=examples(30), deadline=None)
@given(slices())
def test_the_function_of_a_block_agrees_with_the_functions_of_its_claims(drawn: DrawnSlice) -> None:
    portfolios = [parse_portfolio(yaml.safe_dump(written, allow_unicode=True)) for written in drawn.portfolios]

    check_each_row(compile_plan(portfolios), drawn.values)


@pytest.mark.parametrize("bad", [0.0, 0.02, 0.5])
def test_it_agrees_on_the_traffic_of_the_benchmark(bad: float) -> None:
    check_each_row(compile_plan([parse_portfolio(portfolio(20))]), list(lines(60, bad)))


_PATTERNS = ["a+b", "(?i)KEY", "^x", "z$", "[^a-z]", "", "b|c", "(?s)a.c", r"\Qa.", r"\Qb\E", "(?P<n>a)", "(?P<n>z)"]


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.none() | st.text("abckeyxz \n", max_size=6), max_size=12), st.sets(st.sampled_from(_PATTERNS)))
def test_patterns_searched_together_match_as_each_alone(texts: list[str | None], patterns: set[str]) -> None:
    keys = ParsedKeys(("output",), False, {}, {})
    types = RecordTypes(keys)
    inputs, field = RowInputs(types, keys), parse_field("output", "span")
    assert field is not None
    numbers = {pattern: inputs.hits(field, pattern) for pattern in sorted(patterns)}
    spans = [{"span_id": "s", "component": "c", "output": text} for text in texts]
    trace = types.from_values({"trace_id": "t", "pipeline": "p", "spans": spans})

    rows = inputs.rows(trace.spans)

    for pattern, number in numbers.items():
        expected = [None if text is None else re2.search(pattern, text) is not None for text in texts]
        assert rows.hits[number] == expected
