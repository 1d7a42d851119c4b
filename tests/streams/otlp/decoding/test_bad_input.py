"""Bad requests and bad spans: each costs itself and no neighbour."""

from __future__ import annotations

import json
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from gapwatch.streams.otlp.assembly.assembler import Assembler
from gapwatch.streams.otlp.assembly.item_ledger import item_imbalance
from gapwatch.streams.otlp.decoding.raw_items import UndecodableError
from gapwatch.streams.otlp.decoding.splitting import check_payload, split
from gapwatch.streams.otlp.files.file_assembly import FILE_RULES
from gapwatch.streams.otlp.files.span_file import FileRequest
from gapwatch.streams.otlp.mapping.mapper import TraceMapper
from tests.streams.otlp import captures
from tests.streams.otlp.made_spans import START, request, span

GOOD = captures.requests("oi-openai-rag")[0].body


def _counts(*requests: FileRequest) -> tuple[dict[str, int], list[dict[str, Any]]]:
    assembler = Assembler(TraceMapper(), FILE_RULES)
    for position, one in enumerate(requests):
        assembler.take(one, position, 1_795_500_000.0, float(position))
    assembler.end()
    counts = assembler.counts()
    assert item_imbalance(counts) == 0
    return counts, [json.loads(one.envelope) for one in assembler.closed() if one.envelope is not None]


def _json_request(*spans: dict[str, Any]) -> FileRequest:
    body = {"resourceSpans": [{"resource": {"attributes": []}, "scopeSpans": [{"spans": list(spans)}]}]}
    return FileRequest("traces", True, json.dumps(body).encode())


def _json_span(**members: Any) -> dict[str, Any]:
    return {
        "traceId": "0af7651916cd43dd8448eb211c80319c", "spanId": "b7ad6b7169203331", "name": "step", "kind": 1,
        "startTimeUnixNano": str(START), "endTimeUnixNano": str(START + 5), **members,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("body", "is_json"),
    [
        (b"\xffgarbage", False),
        (GOOD[:-7], False),
        (GOOD[: len(GOOD) // 2], False),
        (b'{"resourceSpans": [NaN]}', True),
        (b'{"resourceSpans": [],}', True),
        (b'{"resourceSpans": {"a": 1}}', True),
        (b"[1, 2]", True),
        (GOOD, True),
        (b'{"resourceSpans": []}', False),
        (b"[" * 100_000, True),
    ],
)
def test_a_body_that_is_no_message_is_refused(body: bytes, is_json: bool) -> None:
    with pytest.raises(UndecodableError):
        check_payload(body, is_json=is_json, is_logs=False)


@pytest.mark.parametrize(
    ("body", "is_json"), [(b"", False), (b"{}", True), (b'{"newer": 1, "resourceSpans": null}', True)]
)
def test_a_body_without_spans_is_taken(body: bytes, is_json: bool) -> None:
    assert check_payload(body, is_json=is_json, is_logs=False).rejected == 0


@pytest.mark.parametrize("trace_id", [b"", bytes(16), b"12345678", b"1" * 24])
@pytest.mark.parametrize("is_json", [False, True])
def test_a_span_with_a_bad_trace_id_is_a_dead_letter_beside_a_good_one(trace_id: bytes, is_json: bool) -> None:
    if is_json:
        one = _json_request(_json_span(traceId=trace_id.hex()), _json_span())
    else:
        bad = span(1, 1)
        bad.trace_id = trace_id
        one = request(bad, span(2, 1))
    assert check_payload(one.body, is_json=is_json, is_logs=False).rejected == 1
    counts, envelopes = _counts(one)
    assert (counts["span.dead_letter.bad_id"], len(envelopes)) == (1, 1)


@pytest.mark.parametrize("span_id", [b"", bytes(8), b"1" * 16])
def test_a_span_with_a_bad_span_id_is_a_dead_letter(span_id: bytes) -> None:
    bad = span(1, 1)
    bad.span_id = span_id
    assert _counts(request(bad, span(2, 1)))[0]["span.dead_letter.bad_id"] == 1


def test_ids_of_base64_are_bad_and_upper_case_is_good() -> None:
    base64 = _json_span(traceId="CvdlGRbNQ92ESOshHIAxnA==")
    counts, envelopes = _counts(_json_request(base64, _json_span(traceId="0AF7651916CD43DD8448EB211C80319C")))
    assert counts["span.dead_letter.bad_id"] == 1
    assert envelopes[0]["trace_id"] == "0af7651916cd43dd8448eb211c80319c"


def test_a_text_that_is_not_utf_8_costs_its_span() -> None:
    body = request(span(1, 1, name="AAAA"), span(2, 1)).body.replace(b"AAAA", b"\xff\xfe\xff\xfe")
    assert check_payload(body, is_json=False, is_logs=False).rejected == 1
    counts, envelopes = _counts(FileRequest("traces", False, body))
    assert counts["span.dead_letter.undecodable"] == 1
    assert len(envelopes) == 1


def test_an_attribute_without_a_key_costs_its_span() -> None:
    bad = span(1, 1)
    bad.attributes.add().value.string_value = "x"
    assert _counts(request(bad, span(2, 1)))[0]["span.dead_letter.undecodable"] == 1
    bad_json = _json_span(attributes=[{"keyStrindex": 3, "value": {"stringValue": "x"}}])
    assert _counts(_json_request(bad_json))[0]["span.dead_letter.undecodable"] == 1


def test_circles_own_parents_and_two_roots_are_taken() -> None:
    counts, envelopes = _counts(request(span(1, 1, 2), span(1, 2, 3), span(1, 3, 1), span(1, 4, 4), span(1, 5)))
    assert counts["span.assembled.end"] == 5
    parents = {one["span_id"][-1]: one.get("parent_id", "-")[-1] for one in envelopes[0]["spans"]}
    assert parents == {"1": "-", "2": "3", "3": "1", "4": "-", "5": "-"}


def test_of_two_spans_with_one_id_the_first_counts() -> None:
    counts, envelopes = _counts(request(span(1, 1, name="first"), span(1, 1, name="second")))
    assert counts["span.duplicate."] == 1
    assert [one["name"] for one in envelopes[0]["spans"]] == ["first"]


@pytest.mark.parametrize("start", [0, 1, 86_400_000_000_000, 7_258_118_400_000_000_000, (1 << 64) - 2_000_000])
def test_a_time_that_cannot_be_is_absent(start: int) -> None:
    odd = span(1, 1)
    odd.start_time_unix_nano = start
    _, envelopes = _counts(request(odd))
    assert "started_at" not in envelopes[0]["spans"][0]
    assert envelopes[0]["spans"][0]["attributes"]["absent.time"] == "no_time"


def test_an_end_before_the_start_is_taken_as_it_is() -> None:
    odd = span(1, 1)
    odd.end_time_unix_nano = odd.start_time_unix_nano - 5_000_000
    one = _counts(request(odd))[1][0]["spans"][0]
    assert one["ended_at"] < one["started_at"]


def test_a_value_that_is_too_long_or_too_deep_is_absent() -> None:
    long = span(1, 1, openinference__span__kind="LLM", output__value="x" * 5_000_000, input__value="hi")
    deep = span(1, 2, 1)
    value = deep.attributes.add(key="mine").value
    for _ in range(40):  # protobuf itself refuses a nesting of 100
        value = value.array_value.values.add()
    value.string_value = "x"
    counts, envelopes = _counts(request(long, deep))
    assert counts["span.assembled.end"] == 2
    first = envelopes[0]["spans"][0]
    assert "output" not in first
    assert first["attributes"]["absent.output"] == "too_long"


def test_five_thousand_attributes_and_a_long_key_are_bounded() -> None:
    many = span(1, 1)
    for number in range(5_000):
        many.attributes.add(key=f"mine.{number}").value.int_value = number
    many.attributes.add(key="k" * 100_000).value.string_value = "x"
    _, envelopes = _counts(request(many))
    assert len(envelopes[0]["spans"][0]["attributes"]) <= 40


def test_of_doubled_keys_the_last_counts_and_a_wrong_number_is_absent() -> None:
    twice = span(1, 1, openinference__span__kind="LLM", llm__token_count__prompt=5)
    twice.attributes.add(key="llm.token_count.prompt").value.int_value = 7
    wrong = _json_span(
        attributes=[
            {"key": "openinference.span.kind", "value": {"stringValue": "LLM"}},
            {"key": "llm.token_count.prompt", "value": {"intValue": "abc"}},
            {"key": "llm.token_count.completion", "value": {"intValue": "12"}},
        ]
    )
    assert _counts(request(twice))[1][0]["spans"][0]["usage"] == {"input_tokens": 7}
    assert _counts(_json_request(wrong))[1][0]["spans"][0]["usage"] == {"output_tokens": 12}


def test_a_span_that_is_too_large_is_a_dead_letter_and_its_trace_lives() -> None:
    counts, envelopes = _counts(request(span(1, 1), span(1, 2, 1, mine="x" * 10_100_000)))
    assert counts["span.dead_letter.too_large"] == 1
    assert len(envelopes[0]["spans"]) == 1


def test_json_that_an_sdk_cut_off_is_absent_with_the_reason() -> None:
    cut = span(
        1, 1, gen_ai__operation__name="chat", gen_ai__request__model="m",
        gen_ai__input__messages='[{"role":"user","parts":[{"type":"text","content":"a lo',
        gen_ai__output__messages='[{"role":"assistant","parts":[{"type":"text","content":"hello"}]}]',
    )  # fmt: skip
    one = _counts(request(cut))[1][0]["spans"][0]
    assert one["attributes"]["absent.input"] == "truncated"
    assert one["output"] == "hello"


def test_names_are_cleaned_and_cut() -> None:
    odd = span(1, 1, name="a\x00b<script>\n" + "x" * 10_000)
    one = _counts(request(odd))[1][0]["spans"][0]
    assert len(one["component"]) <= 120
    assert not any(ord(letter) < 32 for letter in one["component"] + one["name"])


def test_fields_of_a_newer_protocol_are_ignored() -> None:
    newer = _json_span(newer={"a": [1]}, kind="SPAN_KIND_SERVER")
    assert _counts(_json_request(newer))[0]["span.assembled.end"] == 1
    body = ExportTraceServiceRequest.FromString(request(span(1, 1)).body).SerializeToString() + b"\xfa\x3e\x01x"
    assert len(split(body, is_json=False, is_logs=False).spans) == 1
