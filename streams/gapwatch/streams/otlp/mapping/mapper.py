"""`TraceMapper`: closed traces to envelopes, the same bytes for the same set of spans."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.scorers.portfolio.span_mapping import SpanMapping
from gapwatch.streams.otlp.decoding.raw_items import KEPT_BYTES, DeadItem, RawBlock, RawTrace, UndecodableError
from gapwatch.streams.otlp.decoding.span_record import LogEntry
from gapwatch.streams.otlp.decoding.splitting import decode_log, decode_span
from gapwatch.streams.otlp.mapping.convention_table import ConventionTable, convention_table
from gapwatch.streams.otlp.mapping.envelope_writer import envelope_bytes
from gapwatch.streams.otlp.mapping.log_content import has_genai_content, join_content
from gapwatch.streams.otlp.mapping.mapping_rules import MappingRules
from gapwatch.streams.otlp.mapping.model_calls import settle_calls
from gapwatch.streams.otlp.mapping.naming import clean_name, name_steps
from gapwatch.streams.otlp.mapping.span_facts import SpanFacts
from gapwatch.streams.otlp.mapping.span_shape import SpanShapes
from gapwatch.streams.otlp.mapping.tiers import set_tiers
from gapwatch.streams.otlp.mapping.trace_step import TraceStep, tree_of

#: Convention of spans that no convention names.
NO_CONVENTION = "none recognised"


@dataclass(slots=True)
class MappedTrace:
    """A trace as an envelope, and where each of its spans and log records went.

    Attributes:
        envelope: One line of JSON without its end; None if no span is left.
        spans: Number of spans in the envelope.
        dropped: Number of spans that a rule left out.
        joined: Number of log records that are joined to their span.
        orphaned: Number of log records whose span is not in the trace.
        foreign: Number of log records that no convention of models names.
        dead: Spans and log records that cannot be decoded.
        conventions: Convention of each span.
    """

    envelope: bytes | None = None
    spans: int = 0
    dropped: int = 0
    joined: int = 0
    orphaned: int = 0
    foreign: int = 0
    dead: list[DeadItem] = field(default_factory=list)
    conventions: list[str] = field(default_factory=list)


class TraceMapper:
    """Maps closed traces of any convention.

    Args:
        mappings: Pipelines with their mapping.
        table: Meaning of attribute keys.
    """

    def __init__(self, mappings: Sequence[tuple[str, SpanMapping]] = (), table: ConventionTable | None = None) -> None:
        self.mappings = tuple(mappings)
        self._table = table or convention_table()
        self._rules = MappingRules(self.mappings)
        self._shapes = SpanShapes(self._table, self._rules.picked_keys)

    @classmethod
    def of(cls, portfolios: Sequence[Portfolio]) -> TraceMapper:
        """Return a mapper with the mappings of portfolios."""
        return cls([(portfolio.pipeline, portfolio.spans) for portfolio in portfolios])

    @property
    def root_globs(self) -> tuple[str, ...]:
        """Globs on the names of spans that are a root although they have a parent."""
        return self._rules.root_globs

    def map(self, trace: RawTrace) -> MappedTrace:
        """Map one trace.

        Args:
            trace: A closed trace; of two spans with one id the first counts.
        """
        mapped = MappedTrace()
        facts = self._facts(trace, mapped)
        if trace.logs:
            self._join_logs(trace, facts, mapped)
        if not facts:
            return mapped
        steps = self.steps(list(facts.values()))
        root = _root(steps, self._rules)
        rules = self._rules.of_trace(root)
        mapped.conventions = [step.facts.convention or NO_CONVENTION for step in steps]
        rules.set_components(steps)
        for step in steps:
            if isinstance(tier := step.facts.found.get("tier"), str):
                step.tier = clean_name(tier)
        rules.set_tiers(steps)
        set_tiers(steps)
        rules.set_costs(steps)
        rules.drop(steps, root)
        kept = [step for step in steps if not step.is_dropped]
        mapped.spans, mapped.dropped = len(kept), len(steps) - len(kept)
        if kept:
            mapped.envelope = envelope_bytes(trace, steps, kept, root, rules)
        return mapped

    def steps(self, facts: list[SpanFacts]) -> list[TraceStep]:
        """Return the steps of a trace by start, with the rules over whole traces applied, but none of a mapping."""
        facts.sort(key=_order)
        for one in facts:
            one.read_content()
        steps = tree_of(facts)
        settle_calls(steps, self._table)
        for step in steps:
            if step.facts.kind is None and (step.has_children or step.parent is None):
                step.kind = "other" if step.facts.is_infrastructure else "chain"
        name_steps(steps, self._table)
        return steps

    def _facts(self, trace: RawTrace, mapped: MappedTrace) -> dict[str, SpanFacts]:
        facts: dict[str, SpanFacts] = {}
        table, shapes = self._table, self._shapes
        block: RawBlock | None = None
        resource: dict[str, Any] = {}
        scope = service = ""
        for raw in trace.spans:
            try:
                record = decode_span(raw, shapes)
            except UndecodableError as error:
                mapped.dead.append(
                    DeadItem("span", "undecodable", str(error), trace.trace_id.hex(), raw.raw[:KEPT_BYTES])
                )
                continue
            if record.span_id in facts:
                continue
            if raw.block is not block:
                block = raw.block
                resource, scope, _ = block.values
                service = block.service
            facts[record.span_id] = one = SpanFacts(record, scope, resource, service, table)
            if record.events:
                for name, time, attributes in record.events:
                    if name.startswith("gen_ai."):
                        join_content(one, LogEntry(name, time, attributes, None), table)
        return facts

    def _join_logs(self, trace: RawTrace, facts: dict[str, SpanFacts], mapped: MappedTrace) -> None:
        entries = []
        for raw in trace.logs:
            try:
                entries.append((raw.span_id.hex(), decode_log(raw), raw.raw))
            except UndecodableError as error:
                mapped.dead.append(
                    DeadItem("log_record", "undecodable", str(error), trace.trace_id.hex(), raw.raw[:KEPT_BYTES])
                )
        # In the order in which they were written, whichever came first; the bytes decide between equal times.
        for position in sorted(range(len(entries)), key=lambda i: (entries[i][1].time, i)):
            span_id, entry, _ = entries[position]
            if not has_genai_content(entry):
                mapped.foreign += 1
            elif (one := facts.get(span_id)) is None:
                mapped.orphaned += 1
            else:
                join_content(one, entry, self._table)
                mapped.joined += 1


_order = attrgetter("record.start", "record.span_id")


def _root(steps: list[TraceStep], rules: MappingRules) -> TraceStep:
    """Return the root of a trace.

    That is the first step without a parent; without one, the first that a mapping names a root; without one, the first
    whose parent never came.
    """
    lost = named = None
    for step in steps:
        if step.parent is None:
            if not step.lost_parent:
                return step
            lost = lost or step
            if named is None and rules.is_root(step.facts.record.name):
                named = step
                step.lost_parent = False
    return named or lost or steps[0]
