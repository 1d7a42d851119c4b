"""Scoring plan: portfolios compiled to types of records, and one function for each component and its metrics.

The types have only the keys that the portfolios mention. A block is a component of a portfolio, or its traces: its rows
are the component's spans in their order, or one row for each trace.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gapwatch.scorers.plan.block import Block, PlannedMetric
from gapwatch.scorers.plan.block_function import block_function
from gapwatch.scorers.plan.claim_outcomes import ClaimCompiler
from gapwatch.scorers.plan.passing import Conditions
from gapwatch.scorers.plan.record_types import ParsedKeys, RecordTypes, parsed_keys
from gapwatch.scorers.plan.row_values import RowInputs
from gapwatch.scorers.portfolio.claim import (
    UNSCORED_CLAIMS,
    CheckClaim,
    JudgedClaim,
    LabelClaim,
    MeasureClaim,
    PythonClaim,
)
from gapwatch.scorers.portfolio.field import Field, parse_field
from gapwatch.scorers.portfolio.metric import Metric
from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.scorers.portfolio.predicate import CitedIn, Predicate, field_predicates, other_field


@dataclass(frozen=True)
class Plan:
    """Compiled set of portfolios.

    Attributes:
        portfolios: Portfolios, each of another pipeline.
        blocks: Blocks in the order of the rows of a slice.
        keys: Keys that are read of a record.
        types: Types of the records.
    """

    portfolios: tuple[Portfolio, ...]
    blocks: tuple[Block, ...]
    keys: ParsedKeys
    types: RecordTypes


def compile_plan(portfolios: Sequence[Portfolio]) -> Plan:
    """Compile portfolios, each of another pipeline, to one plan.

    Raises:
        ValueError: Two portfolios are for the same pipeline.
    """
    pipelines = [portfolio.pipeline for portfolio in portfolios]
    for pipeline in pipelines:
        if pipelines.count(pipeline) > 1:
            raise ValueError(f"two portfolios claim the pipeline {pipeline!r}; only one of them can score its records")
    keys = parsed_keys(f for portfolio in portfolios for metric in portfolio.metrics for f in metric_fields(metric))
    types = RecordTypes(keys)
    blocks = [
        _block(portfolio, component, metrics, types, keys)
        for portfolio in portfolios
        for component, metrics in _by_component(portfolio).items()
    ]
    return Plan(tuple(portfolios), tuple(blocks), keys, types)


def _block(
    portfolio: Portfolio, component: str, metrics: Sequence[Metric], types: RecordTypes, keys: ParsedKeys
) -> Block:
    inputs = RowInputs(types, keys)
    claims = ClaimCompiler(inputs)
    outcomes = [claims.compile(metric) for metric in metrics]
    function = block_function(metrics, outcomes, Conditions(inputs, keys))
    planned = tuple(
        PlannedMetric(
            metric,
            portfolio,
            outcome,
            {field.text: claims.observed(field) for field in input_fields(metric)},
        )
        for metric, outcome in zip(metrics, outcomes, strict=True)
    )
    return Block(portfolio, component, planned, inputs, function)


def _by_component(portfolio: Portfolio) -> dict[str, list[Metric]]:
    """Group the metrics that have rows by component, the traces last."""
    groups: dict[str, list[Metric]] = {}
    for metric in portfolio.metrics:
        if not isinstance(metric.claim, UNSCORED_CLAIMS):
            groups.setdefault("" if metric.is_trace else metric.component or "", []).append(metric)
    if "" in groups:
        groups[""] = groups.pop("")
    return groups


def metric_fields(metric: Metric) -> Iterator[Field]:
    """Yield every field that a metric reads."""
    yield from claim_fields(metric)
    if metric.when is not None:
        yield from _predicate_fields(metric.when)
    for stratum in metric.sample.strata:
        yield from _predicate_fields(stratum.when)


def claim_fields(metric: Metric) -> Iterator[Field]:
    """Yield every field that a metric's claim reads, without those of its `when` and strata."""
    claim = metric.claim
    if isinstance(claim, CheckClaim):
        yield from _predicate_fields(claim.predicate)
    elif isinstance(claim, MeasureClaim | LabelClaim):
        yield claim.field
    yield from input_fields(metric)


def input_fields(metric: Metric) -> tuple[Field, ...]:
    """Return the fields that a Python scorer or a judge gets, in the order of the claim."""
    claim = metric.claim
    if isinstance(claim, PythonClaim):
        return claim.fields
    if isinstance(claim, JudgedClaim):
        return claim.rubric.inputs
    return ()


def _predicate_fields(predicate: Predicate) -> Iterator[Field]:
    for part, _, _ in field_predicates(predicate):
        yield part.field
        if (other := other_field(part)) is not None:
            yield other
        if isinstance(part, CitedIn):
            meta = parse_field("attributes.field_meta", "span")
            assert meta is not None
            yield meta
