"""Scoring plan: portfolios compiled to one query over a slice of records.

The query parses only the keys that the portfolios mention. Its rows are the spans, one block per component, and the
traces in the last blocks. Its columns are the values that rows and facets need, and numbered slots: the i-th metric of
each block uses `c<i>` (outcome code), `x<i>` (score), `l<i>` (label), `t<i>` (stratum).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gapwatch.scorers.plan.block import Block, PlannedMetric
from gapwatch.scorers.plan.claim_sql import ClaimCompiler, ClaimSql
from gapwatch.scorers.plan.field_sql import FieldCompiler, missing_column
from gapwatch.scorers.plan.predicate_sql import PredicateCompiler
from gapwatch.scorers.plan.record_sql import ParsedColumns, parsed_columns, spans_sql
from gapwatch.scorers.plan.shared_columns import Expressions
from gapwatch.scorers.plan.sql_text import literal
from gapwatch.scorers.portfolio.claim import CheckClaim, JudgedClaim, LabelClaim, MeasureClaim, PythonClaim, RatioClaim
from gapwatch.scorers.portfolio.field import Field, FieldKind, parse_field
from gapwatch.scorers.portfolio.metric import Metric
from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.scorers.portfolio.predicate import CitedIn, Predicate, field_predicates, other_field

#: Columns before the slots, in this order.
HEAD = (
    "ord",
    "span_index",
    "is_span",
    "readable",
    "trace_id",
    "pipeline",
    "environment",
    "release",
    "session_id",
    "trace_start",
    "trace_end",
    "publisher_p",
    "span_id",
    "component",
    "tier",
    "model",
    "span_start",
    "span_end",
)
_SLOT_TYPES = {"c": "UTINYINT", "x": "DOUBLE", "l": "VARCHAR", "t": "UTINYINT", "o": "VARCHAR", "y": "DOUBLE"}


@dataclass(frozen=True)
class Plan:
    """Compiled set of portfolios.

    Attributes:
        portfolios: Portfolios, each of another pipeline.
        blocks: Blocks in the order of the query's rows; no metric applies to the rows after them.
        sql: The query over `inbox(ord, v, trusted)`.
        slots: Number of columns of each slot kind.
        columns: Values that the query parses.
    """

    portfolios: tuple[Portfolio, ...]
    blocks: tuple[Block, ...]
    sql: str
    slots: dict[str, int]
    columns: ParsedColumns


class _BlockCompiler:
    """Collects the slot columns of one block."""

    def __init__(self, prefix: str, attributes: dict[str, str], counted: dict[str, str]) -> None:
        self.expressions = Expressions(prefix)
        self.fields = FieldCompiler(self.expressions, attributes, counted)
        self._claims = ClaimCompiler(self.fields, PredicateCompiler(self.expressions, self.fields))
        self.slots: dict[str, list[str]] = {kind: [] for kind in _SLOT_TYPES}

    def metric(self, metric: Metric, portfolio: Portfolio) -> PlannedMetric:
        sql = self._claims.compile(metric)
        self.slots["c"].append(sql.code)
        return PlannedMetric(
            metric,
            portfolio,
            slot=len(self.slots["c"]) - 1,
            score=self._slot("x", sql.score),
            label=self._slot("l", sql.label),
            stratum=self._slot("t", sql.stratum),
            observed=self._observed(sql),
            inputs=self._inputs(metric),
        )

    def _slot(self, kind: str, expression: str | None) -> int | None:
        if expression is None:
            return None
        if expression not in self.slots[kind]:
            self.slots[kind].append(expression)
        return self.slots[kind].index(expression)

    def _observed(self, sql: ClaimSql) -> str | None:
        if sql.observed is None:
            return None
        kind, expression = sql.observed
        return f"{kind}{self._slot(kind, expression)}"

    def _value(self, field: Field) -> str:
        """Return the column with a field's value: its number if the field is always a number, else its text."""
        compiled = self.fields.field(field)
        if field.kind is FieldKind.NUMBER or compiled.text is None:
            return f"y{self._slot('y', compiled.number)}"
        return f"o{self._slot('o', compiled.text)}"

    def _inputs(self, metric: Metric) -> dict[str, str]:
        return {field.text: self._value(field) for field in input_fields(metric)}


def compile_plan(portfolios: Sequence[Portfolio]) -> Plan:
    """Compile portfolios, each of another pipeline, to one plan.

    Raises:
        ValueError: Two portfolios are for the same pipeline.
    """
    pipelines = [portfolio.pipeline for portfolio in portfolios]
    for pipeline in pipelines:
        if pipelines.count(pipeline) > 1:
            raise ValueError(f"two portfolios claim the pipeline {pipeline!r}; only one of them can score its records")
    columns = parsed_columns(
        f for portfolio in portfolios for metric in portfolio.metrics for f in metric_fields(metric)
    )
    blocks: list[Block] = []
    compilers: list[_BlockCompiler] = []
    sources: list[str] = []
    for portfolio in portfolios:
        for component, metrics in _by_component(portfolio).items():
            counted = _counted_components(metrics)
            attributes = columns.trace_attributes if component == "" else columns.attributes
            compiler = _BlockCompiler("d", attributes, counted)
            planned = tuple(compiler.metric(metric, portfolio) for metric in metrics)
            blocks.append(Block(portfolio, component, planned))
            compilers.append(compiler)
            if component == "":
                sources.append(_traces_sql(portfolio.pipeline, metrics, counted, columns))
            else:
                where = f"pipeline = {literal(portfolio.pipeline)} AND component = {literal(component)} AND is_span"
                sources.append(f"SELECT * FROM spans WHERE {where}")
    slots = {kind: max((len(c.slots[kind]) for c in compilers), default=0) for kind in _SLOT_TYPES}
    selects = [
        _block_select(i, compiler, source, slots)
        for i, (compiler, source) in enumerate(zip(compilers, sources, strict=True))
    ]
    selects.append(_rest_select(len(blocks), blocks, slots))
    sql = f"WITH spans AS MATERIALIZED ({spans_sql(columns)})\n{_union(selects)}"
    return Plan(tuple(portfolios), tuple(blocks), sql, slots, columns)


def _union(selects: Sequence[str]) -> str:
    """Join SELECTs with UNION ALL as a balanced tree: in a chain, DuckDB binds each as often as others follow it."""
    if len(selects) == 1:
        return selects[0]
    middle = len(selects) // 2
    left, right = _union(selects[:middle]), _union(selects[middle:])
    return f"({left})\nUNION ALL\n({right})"


def _by_component(portfolio: Portfolio) -> dict[str, list[Metric]]:
    """Group the metrics that have rows by component, the traces last."""
    groups: dict[str, list[Metric]] = {}
    for metric in portfolio.metrics:
        if not isinstance(metric.claim, RatioClaim):
            groups.setdefault("" if metric.is_trace else metric.component or "", []).append(metric)
    if "" in groups:
        groups[""] = groups.pop("")
    return groups


def _block_select(number: int, compiler: _BlockCompiler, source: str, slots: dict[str, int]) -> str:
    head = [*HEAD[:2], f"{number}::SMALLINT AS block", *HEAD[2:]]
    return (
        f"SELECT {', '.join(head + _slot_columns(compiler.slots, slots))} FROM ({compiler.expressions.select(source)})"
    )


def _rest_select(number: int, blocks: Sequence[Block], slots: dict[str, int]) -> str:
    """Return the SELECT of rows to which no metric applies: they are counted, and some may be unreadable records."""
    claimed = " OR ".join(
        f"(pipeline = {literal(b.portfolio.pipeline)} AND component = {literal(b.component)})"
        for b in blocks
        if not b.is_trace
    )
    where = f"NOT is_span OR NOT coalesce({claimed}, false)" if claimed else "true"
    head = [*HEAD[:2], f"{number}::SMALLINT AS block", *HEAD[2:]]
    empty: dict[str, list[str]] = {kind: [] for kind in slots}
    return f"SELECT {', '.join(head + _slot_columns(empty, slots))} FROM spans WHERE {where}"


def _slot_columns(filled: dict[str, list[str]], slots: dict[str, int]) -> list[str]:
    columns = []
    for kind, count in slots.items():
        for i in range(count):
            nothing = "0" if kind in "ct" else "NULL"
            value = filled[kind][i] if i < len(filled[kind]) else nothing
            columns.append(f"({value})::{_SLOT_TYPES[kind]} AS {kind}{i}")
    return columns


def _counted_components(metrics: Sequence[Metric]) -> dict[str, str]:
    """Return the columns with the number of spans of each component that `trace.count(...)` names."""
    names = [
        f.counted_component for metric in metrics for f in metric_fields(metric) if f.counted_component is not None
    ]
    return {name: f"counted_{i}" for i, name in enumerate(dict.fromkeys(names))}


def _traces_sql(pipeline: str, metrics: Sequence[Metric], counted: dict[str, str], columns: ParsedColumns) -> str:
    """Return the SELECT with one row per trace of a pipeline, and the sums over spans that its metrics need."""
    used = {field.base for metric in metrics for field in metric_fields(metric)}
    expressions = Expressions("e")
    fields = FieldCompiler(expressions, {}, {})
    same = [
        *("readable", "trace_id", "pipeline", "environment", "release", "session_id"),
        *("trace_started_at", "trace_ended_at", "trace_start", "trace_end", "publisher_p"),
        *(missing_column(name, scope) for name, scope in columns.structures if scope == "trace"),
        *columns.trace_attributes.values(),
    ]
    aggregates = [f"first({name}) AS {name}" for name in same]
    if "trace.span_count" in used:
        aggregates.append("count_if(is_span) AS span_count")
    if "trace.error_count" in used:
        aggregates.append("count_if(is_span AND coalesce(status = 'error', false)) AS error_count")
    aggregates += [
        f"count_if(is_span AND coalesce(component = {literal(name)}, false)) AS {column}"
        for name, column in counted.items()
    ]
    for name, source in (("cost_usd", "usage.cost_usd"), ("total_tokens", "usage.total_tokens")):
        if f"trace.{name}" in used:
            aggregates += _sum_over_model_spans(name, fields, source)
    if {"trace.cost_usd", "trace.total_tokens"} & used:
        aggregates.append(f"count_if({_MODEL_SPAN}) AS model_spans")
    source = expressions.select(f"SELECT * FROM spans WHERE pipeline = {literal(pipeline)} AND readable")
    # Empty columns of spans, so that all blocks have the same columns.
    empty = [f"NULL::VARCHAR AS {name}" for name in ("span_id", "component", "tier", "model")]
    empty += [f"NULL::DOUBLE AS {name}" for name in ("span_start", "span_end")]
    return (
        f"SELECT ord, -1::BIGINT AS span_index, true AS is_span, {', '.join(empty)}, {', '.join(aggregates)} "
        f"FROM ({source}) GROUP BY ord ORDER BY ord"
    )


_MODEL_SPAN = "(is_span AND (kind IS NULL OR kind IN ('llm', 'embedding', 'rerank')))"


def _sum_over_model_spans(name: str, fields: FieldCompiler, source: str) -> list[str]:
    field = parse_field(source, "span")
    assert field is not None
    sql = fields.field(field)
    number, reason = sql.readable_number, sql.number_reason
    lacking = f"min(span_index * 256 + {reason}) FILTER (WHERE {_MODEL_SPAN} AND {number} IS NULL) % 256"
    return [
        f"coalesce(sum({number}) FILTER (WHERE {_MODEL_SPAN}), 0) AS {name}_sum",
        f"{lacking} AS {name}_lacking",
        f"coalesce(bool_or(is_span AND NOT {_MODEL_SPAN} AND {number} IS NOT NULL), false) AS {name}_elsewhere",
    ]


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
