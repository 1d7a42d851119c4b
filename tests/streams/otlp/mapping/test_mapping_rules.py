"""The part `spans` of a portfolio, on real captures."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gapwatch.scorers.errors import PortfolioError
from gapwatch.scorers.loading.load import parse_portfolio
from gapwatch.streams.otlp.files.file_assembly import assemble_files
from gapwatch.streams.otlp.mapping.mapper import TraceMapper
from tests.streams.otlp import captures

HEAD = """
gapwatch: 1
portfolio: velo
version: 1
pipeline: velo
components:
  - {id: generate, kind: llm, tiers: [{id: primary, by: llm}, {id: fallback, by: llm}]}
  - {id: search, kind: retrieval}
metrics: []
"""


def _envelopes(capture: str, spans: str) -> list[dict[str, Any]]:
    mapper = TraceMapper.of([parse_portfolio(HEAD + spans)])
    closed = assemble_files([captures.path_of(capture)], mapper)
    return [json.loads(one.envelope) for one in closed if one.envelope is not None]


def _components(envelopes: list[dict[str, Any]], **wanted: str) -> set[str]:
    return {
        span["component"]
        for envelope in envelopes
        for span in envelope["spans"]
        if all(span.get(key) == value for key, value in wanted.items())
    }


def test_services_are_named_as_one_pipeline() -> None:
    found = _envelopes("two-services", "spans: {pipeline: {names: {velo-web: velo}}}")
    assert {envelope["pipeline"] for envelope in found} == {"velo"}
    assert {envelope["pipeline"] for envelope in _envelopes("two-services", "spans: {}")} == {"velo-web"}


def test_a_rule_of_the_pipeline_holds_for_no_other() -> None:
    found = _envelopes("oi-openai-rag", 'spans: {components: [{component: generate, span: "*"}]}')
    assert "generate" not in _components(found)


@pytest.mark.parametrize(
    "rule",
    [
        '{component: generate, span: "ChatCompletion"}',
        "{component: generate, kind: llm, under: answer}",
        '{component: generate, span: "answer"}',
        '{component: generate, span: "ans*", service: "velo-*"}',
    ],
)
def test_a_rule_gives_a_component_to_model_spans(rule: str) -> None:
    names = "pipeline: {names: {velo-support: velo}}"
    found = _envelopes("oi-openai-rag", f"spans: {{{names}, components: [{rule}]}}")
    assert _components(found, kind="llm") == {"generate"}
    assert "retrieve" in _components(found)


def test_below_reaches_model_spans_through_other_steps() -> None:
    names = "pipeline: {names: {velo-support: velo}}"
    rule = '{component: generate, span: answer, below: "*"}'
    found = _envelopes("oi-openai-rag", f"spans: {{{names}, components: [{rule}]}}")
    assert _components(found, kind="embedding") == {"generate"}
    without = _envelopes("oi-openai-rag", f"spans: {{{names}, components: [{{component: generate, span: answer}}]}}")
    assert _components(without, kind="embedding") == {"retrieve"}


def test_a_named_span_of_http_is_kept() -> None:
    rule = '{component: search, span: "POST /search", service: velo-search}'
    found = _envelopes("two-services", f"spans: {{pipeline: {{names: {{velo-web: velo}}}}, components: [{rule}]}}")
    assert "search" in _components(found, name="POST /search")


def test_dropped_spans_leave_their_children_to_the_step_above() -> None:
    found = _envelopes("oi-openai-rag", "spans: {pipeline: {names: {velo-support: velo}}, drop: [{name: retrieve}]}")
    for envelope in found:
        spans = {span["span_id"]: span for span in envelope["spans"]}
        assert "retrieve" not in {span["name"] for span in spans.values()}
        embedding = next(span for span in spans.values() if span["kind"] == "embedding")
        assert spans[embedding["parent_id"]]["name"] == "answer"


def test_tiers_by_model_say_what_no_order_can() -> None:
    tiers = "[{id: primary, models: ['gpt-4.1-20*']}, {id: fallback, models: ['gpt-4.1-mini*']}]"
    spans = (
        "spans: {pipeline: {names: {velo-support: velo}}, components: [{component: generate, kind: llm}], "
        f"tiers: {{generate: {tiers}}}}}"
    )
    for capture in ("tl-old-failover", "oi-litellm-failover"):
        found = {envelope["trace_id"]: envelope for envelope in _envelopes(capture, spans)}
        for true in captures.truth()[capture]["per_trace"]:
            tiers_used = [span.get("tier") for span in found[true["trace_id"]]["spans"] if span["kind"] == "llm"]
            assert "fallback" in tiers_used or not true["fell_back"]


def test_attributes_are_taken_from_json_and_from_the_resource() -> None:
    spans = (
        "spans: {pipeline: {names: {velo-support: velo}}, "
        "attributes: {channel: 'metadata#/channel', sdk: resource.telemetry.sdk.version, tool: 'llm.system'}}"
    )
    attributes = _envelopes("oi-openai-rag", spans)[0]["attributes"]
    assert (attributes["channel"], attributes["sdk"], attributes["tool"]) == ("web", "1.45.2", "openai")


def test_raw_forms_are_kept_where_that_is_said() -> None:
    found = _envelopes("oi-openai-rag", "spans: {pipeline: {names: {velo-support: velo}}, keep_raw: true}")
    call = next(span for span in found[0]["spans"] if span["kind"] == "llm")
    assert json.loads(call["attributes"]["raw.input"])[0]["role"] == "system"


@pytest.mark.parametrize(
    ("spans", "says"),
    [
        ("{components: [{component: nobody, span: x}]}", "nobody"),
        ("{components: [{component: generate}]}", "names no span"),
        ("{components: [{component: generate, spam: x}]}", "spam"),
        ("{drop: [{}]}", "would drop every span"),
        ("{tiers: {generate: [{id: third, models: [x]}]}}", "no tier third"),
        ("{attributes: {channel: 'metadata#channel'}}", "is no attribute"),
        ("{pipeline: {from: service.name}}", "from"),
        ("{regex: 1}", "regex"),
    ],
)
def test_a_mapping_with_a_mistake_is_refused(spans: str, says: str) -> None:
    with pytest.raises(PortfolioError, match=says):
        parse_portfolio(HEAD + f"spans: {spans}")


def test_prices_give_the_cost_of_calls_that_say_tokens_and_none() -> None:
    names = "pipeline: {names: {velo-support: velo}}"
    prices = "prices: [{models: ['gpt-4.1-mini*'], input: 1, output: 2}, {models: ['gpt-4.1*'], input: 3.0, output: 4}]"
    without = _envelopes("oi-openai-rag", f"spans: {{{names}}}")
    found = _envelopes("oi-openai-rag", f"spans: {{{names}, {prices}}}")

    calls = [
        (before, now)
        for one, other in zip(without, found, strict=True)
        for before, now in zip(one["spans"], other["spans"], strict=True)
        if before.get("model", "").startswith("gpt-4.1")
    ]
    assert calls
    for before, now in calls:
        a, b = (1, 2) if "mini" in before["model"] else (3, 4)
        usage = before["usage"]
        assert "cost_usd" not in usage
        assert now["usage"]["cost_usd"] == (usage["input_tokens"] * a + usage.get("output_tokens", 0) * b) / 1e6
        assert now["attributes"]["cost_by"] == "price"
