"""What is worked out once for spans with the same keys is what reading the attributes one after the other says."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gapwatch.streams.otlp.decoding.raw_items import UndecodableError
from gapwatch.streams.otlp.decoding.span_record import SpanRecord
from gapwatch.streams.otlp.mapping.convention_table import convention_table
from gapwatch.streams.otlp.mapping.span_facts import SpanFacts
from gapwatch.streams.otlp.mapping.span_shape import SpanShapes
from tests.depth import examples

TABLE = convention_table()
KEYS = [
    *TABLE._exact, "gen_ai.prompt.0.role", "gen_ai.prompt.0.content", "gen_ai.completion.0.content", "tenant",
    "llm.input_messages.0.message.role", "llm.input_messages.0.message.content", "http.method", "acme.span.kind",
    "llm.output_messages.0.message.content", "langfuse.trace.metadata.channel", "acme.input_tokens", "logfire.msg",
    "retrieval.documents.0.document.id",
]  # fmt: skip
VALUES = st.one_of(
    st.sampled_from(["LLM", "chat", "tool", "generation", "x", '{"a": 1}', ""]),
    st.integers(-1, 5), st.booleans(), st.none(), st.lists(st.text(max_size=2), max_size=2),
)  # fmt: skip
ATTRIBUTES = st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=20)


def _record(attributes: dict[str, Any], shapes: SpanShapes) -> SpanRecord:
    keys, values = tuple(attributes), list(attributes.values())
    shape = shapes[keys]
    return SpanRecord(
        "1" * 16, None, "step", 1, 1, 2, False, "", shape, [values[index] for index in shape.indices], [], [], 0, ""
    )


@settings(max_examples=examples(300), deadline=None)
@given(ATTRIBUTES)
def test_a_shape_says_what_reading_one_attribute_after_the_other_says(attributes: dict[str, Any]) -> None:
    facts = SpanFacts(_record(attributes, SpanShapes(TABLE)), "scope", {}, "service", TABLE)
    slow = SpanFacts(_record(attributes, SpanShapes(TABLE)), "scope", {}, "service", TABLE)
    slow.kind = None
    slow._read(TABLE)
    assert (facts.kind or slow.kind) == (slow.kind or facts.kind)  # a guess of the one comes after the reading
    assert (facts.convention, facts.is_infrastructure) == (slow.convention, slow.is_infrastructure)
    for name in ("cached_tokens", "reasoning_tokens"):  # a look into the usage may add these
        slow.found.setdefault(name, facts.found.get(name))
        facts.found.setdefault(name, slow.found.get(name))
    assert (facts.found, facts.own, facts.metadata) == (slow.found, slow.own, slow.metadata)
    assert _members(facts) == _members(slow)


def _members(facts: SpanFacts) -> dict[str, tuple[Any, ...]]:
    return {field: (family.members, values) for field, (family, values) in facts.indexed.items()}


def test_of_a_key_that_comes_twice_the_last_counts() -> None:
    shape = SpanShapes(TABLE)[("gen_ai.request.model", "tenant", "gen_ai.request.model")]
    assert dict(zip(shape.keys, shape.indices, strict=True)) == {"gen_ai.request.model": 2, "tenant": 1}


def test_an_attribute_without_a_key_cannot_be_decoded() -> None:
    with pytest.raises(UndecodableError):
        SpanShapes(TABLE)[("tenant", "")]


def test_shapes_without_end_are_forgotten() -> None:
    shapes = SpanShapes(TABLE)
    for number in range(5_000):
        shapes[(f"tenant.{number}",)]
    assert len(shapes) < 4_200


def test_a_value_that_logfire_blanked_is_absent() -> None:
    blanked = {
        "gen_ai.conversation.id": "[Scrubbed due to 'session']",
        "logfire.msg": "asks",
        "gen_ai.request.model": "m",
    }
    facts = SpanFacts(_record(blanked, SpanShapes(TABLE)), "scope", {}, "service", TABLE)
    assert facts.found == {"model": "m"}
