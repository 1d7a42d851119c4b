"""Counts each call of a model once: of nested or doubled model spans, the innermost that reports tokens is the call.

The others become `chain`; what they report stays in their attributes as `reported_*`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from gapwatch.streams.otlp.mapping.convention_table import ConventionTable
from gapwatch.streams.otlp.mapping.span_facts import MODEL_KINDS
from gapwatch.streams.otlp.mapping.trace_step import TraceStep

#: Failed calls that are under way at once, among which the repeated one is looked for.
_MOST_AT_ONCE = 50


@dataclass(slots=True)
class _Calls:
    """Calls of one kind of model in a part of the tree."""

    with_tokens: list[TraceStep] = field(default_factory=list)
    without: list[TraceStep] = field(default_factory=list)
    failed: list[TraceStep] = field(default_factory=list)

    def add(self, other: _Calls) -> None:
        self.with_tokens += other.with_tokens
        self.without += other.without
        self.failed += other.failed


def settle_calls(steps: Sequence[TraceStep], table: ConventionTable) -> None:
    """Decide which model spans of a trace are calls, and which only repeat what a call reports.

    Args:
        steps: Steps of the trace by start.
        table: Knows the names of clients.
    """
    kinds = {step.kind for step in steps}
    if kinds.isdisjoint(MODEL_KINDS):
        return
    for kind in MODEL_KINDS:
        if kind not in kinds:
            continue
        of_kind = [step for step in steps if step.kind == kind]
        _settle_nested(of_kind, table)
        if kind == "llm":
            _settle_doubled(of_kind)
            _settle_doubled_failures(of_kind)
    _settle_sums(steps)


def _settle_nested(of_kind: list[TraceStep], table: ConventionTable) -> None:
    members = {id(step) for step in of_kind}
    inner: dict[int, list[TraceStep]] = {}
    for step in of_kind:
        for above in step.above():
            if id(above) in members:
                inner.setdefault(id(above), []).append(step)
                break
    calls: dict[int, _Calls] = {}
    if not inner:  # none lies in another
        for step in of_kind:
            _settled(step, _Calls(), table)
        return
    for step in sorted(of_kind, key=lambda one: -one.depth):
        below = _Calls()
        for one in inner.get(id(step), ()):
            below.add(calls[id(one)])
        calls[id(step)] = _settled(step, below, table)


def _settled(step: TraceStep, below: _Calls, table: ConventionTable) -> _Calls:
    """Decide over one span, given the calls below it; return the calls of this part of the tree."""
    facts = step.facts
    if facts.has_tokens:
        if below.with_tokens:
            if len(below.with_tokens) == 1:
                _give_content(step, below.with_tokens[0])
            _wrap(step)
            return below
        for repeated in below.without:  # the inner one says less than this one
            _wrap(repeated)
        if facts.is_error:
            for repeated in below.failed:
                _wrap(repeated)
            below.failed = []
        return _Calls([step], [], below.failed)
    if below.with_tokens or below.without or (facts.is_error and below.failed):
        _wrap(step)
        return below
    if facts.is_error:
        return _Calls([], [], [step])
    if not facts.has_answer and step.kind == "llm" and not table.is_client_name(facts.record.name):
        step.kind = "other"  # named a model span, but nothing in it says that a model was called
        return below
    if below.failed and not facts.has_answer:
        _wrap(step)
        return below
    return _Calls([], [step], below.failed)


def _settle_doubled(calls: list[TraceStep]) -> None:
    """Of calls side by side with the same id of the provider's answer, keep the one that says most."""
    if len(calls) < 2:
        return
    by_id: dict[str, list[TraceStep]] = {}
    for step in calls:
        if step.kind == "llm" and (response_id := step.facts.response_id) is not None:
            by_id.setdefault(response_id, []).append(step)
    for doubled in by_id.values():
        if len(doubled) > 1:
            best = max(doubled, key=_says)
            for step in doubled:
                if step is not best:
                    _wrap(step)


def _settle_doubled_failures(calls: list[TraceStep]) -> None:
    """Of failed calls side by side that two instrumentors saw, one within the time of the other, keep one.

    A provider gives no id to what it refused.
    """
    failed = [step for step in calls if step.facts.is_error and step.kind == "llm"]
    if len(failed) < 2:
        return
    groups: dict[tuple[str | None, str | None], list[TraceStep]] = {}
    for step in failed:
        groups.setdefault((step.facts.record.parent_id, step.facts.model), []).append(step)
    for group in groups.values():
        if len(group) < 2 or len({step.facts.scope for step in group}) < 2:
            continue
        group.sort(key=lambda step: (step.facts.record.start, -step.facts.record.end))
        repeated: set[int] = set()
        for number, outer in enumerate(group):
            if id(outer) in repeated:
                continue
            for inner in group[number + 1 : number + 1 + _MOST_AT_ONCE]:
                is_inside = inner.facts.record.end <= outer.facts.record.end
                if is_inside and inner.facts.scope != outer.facts.scope and id(inner) not in repeated:
                    repeated |= {id(outer), id(inner)}
                    _wrap(min((inner, outer), key=_says))
                    break


def _give_content(outer: TraceStep, call: TraceStep) -> None:
    """Give a call what only the span around it says, where both report the same tokens.

    A client's own span has tokens, and that of an instrumentor around it the content.
    """
    said, facts = outer.facts, call.facts
    if (said.input_tokens, said.output_tokens) != (facts.input_tokens, facts.output_tokens):
        return
    if facts.input is None:
        facts.input = said.input
    if facts.output is None and not facts.is_error:
        facts.output = said.output
    if facts.cost is None:
        facts.cost = said.cost
    if "finish_reason" in said.found:
        facts.found.setdefault("finish_reason", said.found["finish_reason"])


def _says(step: TraceStep) -> tuple[bool, int, bool]:
    facts = step.facts
    return facts.has_tokens, (facts.output is not None) + (facts.input is not None), facts.cost is not None


def _settle_sums(steps: Sequence[TraceStep]) -> None:
    """Take tokens and cost from steps that report the sum of the calls in them."""
    reporting: set[int] = set()
    for step in steps:
        if step.kind in MODEL_KINDS and step.facts.has_tokens and not step.is_wrapper:
            for above in step.above():
                if id(above) in reporting:
                    break
                reporting.add(id(above))
    for step in steps:
        if step.kind not in MODEL_KINDS and id(step) in reporting:
            step.is_wrapper = True


def _wrap(step: TraceStep) -> None:
    step.kind = "chain"
    step.is_wrapper = True
