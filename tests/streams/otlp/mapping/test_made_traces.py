"""Rules that no capture shows, on made-up spans."""

from __future__ import annotations

import json
from typing import Any

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from gapwatch.streams.otlp.assembly.assembler import Assembler
from gapwatch.streams.otlp.files.file_assembly import FILE_RULES
from gapwatch.streams.otlp.mapping.mapper import TraceMapper
from gapwatch.streams.otlp.mapping.naming import clean_name
from gapwatch.streams.otlp.mapping.tiers import model_family
from tests.streams.otlp.made_spans import request, span


def _mapped(*spans: Span) -> dict[str, Any]:
    assembler = Assembler(TraceMapper(), FILE_RULES)
    assembler.take(request(*spans), 0, 1_795_500_000.0, 0.0)
    assembler.end()
    (closed,) = assembler.closed()
    return dict(json.loads(closed.envelope or b""))


def _call(number: int, parent: int | None = None, **attributes: Any) -> Span:
    given = {"gen_ai__operation__name": "chat", "gen_ai__request__model": "m", **attributes}
    return span(1, number, parent, name="chat m", **given)


def test_two_spans_side_by_side_with_one_answer_are_one_call_and_the_one_with_content_is_kept() -> None:
    bare = _call(2, 1, gen_ai__response__id="chatcmpl-1", gen_ai__usage__input_tokens=5)
    whole = _call(3, 1, gen_ai__response__id="chatcmpl-1", gen_ai__usage__input_tokens=5, gen_ai__completion="hi")
    spans = _mapped(span(1, 1), bare, whole)["spans"]
    assert [(one["span_id"][-1], one["kind"]) for one in spans] == [("1", "chain"), ("2", "chain"), ("3", "llm")]
    assert spans[1]["attributes"]["reported_input_tokens"] == 5


def test_an_error_of_a_call_around_a_failed_call_is_one_failure() -> None:
    outer, inner = _call(2, 1, error__type="RateLimitError"), _call(3, 2, error__type="openai.RateLimitError")
    spans = _mapped(span(1, 1), outer, inner)["spans"]
    assert [one["kind"] for one in spans] == ["chain", "chain", "llm"]
    assert spans[2]["error_type"] == "RateLimitError"


def test_another_model_without_a_failure_before_it_is_no_fallback() -> None:
    first = _call(2, 1, gen_ai__usage__input_tokens=5)
    other = _call(3, 1, gen_ai__request__model="n", gen_ai__usage__input_tokens=5)
    tiers = [one.get("tier") for one in _mapped(span(1, 1), first, other)["spans"] if one["kind"] == "llm"]
    assert tiers == ["primary", None]


def test_the_smallest_probability_of_the_trace_states_counts() -> None:
    first, second = span(1, 1), span(1, 2, 1)
    first.trace_state, second.trace_state = "vendor=1,ot=th:8", "ot=rv:1;th:c"
    assert _mapped(first, second)["sampling_probability"] == 0.25
    assert "sampling_probability" not in _mapped(span(1, 1))


def test_links_are_kept_and_not_followed() -> None:
    linked = span(1, 1)
    linked.links.add(trace_id=(9).to_bytes(16, "big"), span_id=(7).to_bytes(8, "big"))
    envelope = _mapped(linked)
    assert envelope["spans"][0]["attributes"]["links"] == [f"{'0' * 31}9/{'0' * 15}7"]
    assert envelope["attributes"]["complete"]


def test_attributes_of_the_pipelines_own_are_passed_on_and_those_of_machines_are_not() -> None:
    attributes = _mapped(span(1, 1, shop__tenant="t-1", host__name="h", process__pid=3))["spans"][0]["attributes"]
    assert attributes == {"shop.tenant": "t-1"}


def test_what_a_model_was_sent_and_said_is_as_long_as_an_input_and_other_own_texts_are_not() -> None:
    long = "a" * 30_000
    made = span(1, 1, model_prompt=long, model_reply=long, shop__note=long)

    assert _mapped(made)["spans"][0]["attributes"] == {"model_prompt": long, "model_reply": long}


def test_an_empty_reply_is_another_than_none() -> None:
    empty, none = (_mapped(span(1, 1, model_prompt="x", **said))["spans"][0] for said in ({"model_reply": ""}, {}))

    assert empty["attributes"] == {"model_prompt": "x", "model_reply": ""}
    assert none["attributes"] == {"model_prompt": "x"}


def test_a_convention_that_nobody_has_seen_comes_through_by_how_its_keys_end() -> None:
    made = span(
        1, 2, 1, name="call", acme__span__kind="llm", acme__request__model="m-1", acme__usage__input_tokens=7,
        acme__usage__output_tokens="3",
    )  # fmt: skip
    one = _mapped(span(1, 1), made)["spans"][1]
    assert (one["kind"], one["model"], one["usage"]) == ("llm", "m-1", {"input_tokens": 7, "output_tokens": 3})


@pytest.mark.parametrize(
    ("name", "cleaned"),
    [
        ("Researcher_832131d5-1f0a-4f5e-9d0e-2b1a5c7d8e9f.kickoff", "Researcher.kickoff"),
        ("832131d5-1f0a-4f5e-9d0e-2b1a5c7d8e9f", "unnamed"),
        ("a\nb\x00c", "a b c"),
        ("", "unnamed"),
    ],
)
def test_ids_and_control_characters_are_cut_out_of_names(name: str, cleaned: str) -> None:
    assert clean_name(name) == cleaned


@pytest.mark.parametrize(
    ("model", "family"),
    [
        ("openai/gpt-4.1-2025-04-14", "gpt-4.1"),
        ("gpt-4.1-mini", "gpt-4.1-mini"),
        ("claude-sonnet-4-5-20250929", "claude-sonnet-4-5"),
        ("gemini-2.0-flash-001", "gemini-2.0-flash"),
    ],
)
def test_a_model_with_its_date_is_the_same_model(model: str, family: str) -> None:
    assert model_family(model) == family
