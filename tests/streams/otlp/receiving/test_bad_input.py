"""Bad spans over HTTP: each costs itself alone, is counted, and is answered as the OTLP specification says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from gapwatch.streams.otlp.assembly.assembler import Assembler
from gapwatch.streams.otlp.live.spool_feed import check_request, span_counts
from gapwatch.streams.otlp.mapping.mapper import TraceMapper
from tests.streams.otlp.receiving.receivers import JSON, PROTOBUF, Receiving, receiving

TRACE, SPAN = "5b8efff798038103d269b633813fc60c", "eee19b7ec3c1b174"


@pytest.fixture
def there(tmp_path: Path) -> Iterator[Receiving]:
    with receiving(tmp_path, check_request) as one:
        yield one


def spans_json(*spans: dict[str, object]) -> bytes:
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": "support"}}]}
    return orjson.dumps({"resourceSpans": [{"resource": resource, "scopeSpans": [{"spans": list(spans)}]}]})


def span(**changes: object) -> dict[str, object]:
    at = {"startTimeUnixNano": "1790000000000000000", "endTimeUnixNano": "1790000001000000000"}
    good = {"traceId": TRACE, "spanId": SPAN, "name": "chat gpt-4.1", "kind": 3, **at}
    call = [
        {"key": "gen_ai.operation.name", "value": {"stringValue": "chat"}},
        {"key": "gen_ai.usage.input_tokens", "value": {"intValue": "7"}},
    ]
    return {**good, "attributes": call, **changes}


def assembled(there: Receiving) -> tuple[list[dict[str, object]], dict[str, int]]:
    """Assemble what is in the spool; the ledger must balance."""
    assembler = Assembler(TraceMapper.of([]))
    for position, request in enumerate(there.stored()):
        assembler.take(request, position, 1_790_000_002.0, float(position))
    assembler.end()
    counts = assembler.counts()
    spans = {name: n for name, n in counts.items() if name.startswith("span.")}
    assert spans.pop("span.consumed.", 0) == sum(spans.values())
    assert all(key[0] in ("span", "log_record", "request") for key in span_counts(counts))
    return [orjson.loads(one.envelope) for one in assembler.closed() if one.envelope], spans


UNREADABLE = {
    "garbage": (b"\xff\xfe garbage", PROTOBUF),
    "cut protobuf": (
        ExportTraceServiceRequest(resource_spans=[{"scope_spans": [{"spans": [{"name": "x" * 50}]}]}])
        .SerializeToString()[:-20],
        PROTOBUF,
    ),
    "JSON as protobuf": (spans_json(span()), PROTOBUF),
    "protobuf as JSON": (b"\x0a\x02\x12\x00", JSON),
    "NaN": (b'{"resourceSpans": NaN}', JSON),
    "trailing comma": (b'{"resourceSpans": [],}', JSON),
    "cut JSON": (spans_json(span())[:-3], JSON),
    "a list": (b"[]", JSON),
    "no UTF-8": (b'{"resourceSpans": "\xff"}', JSON),
}  # fmt: skip


@pytest.mark.parametrize(("body", "headers"), UNREADABLE.values(), ids=UNREADABLE)
def test_what_is_no_message_is_refused_for_good(there: Receiving, body: bytes, headers: dict[str, str]) -> None:
    got = there.post("/v1/traces", body, headers)

    assert got.status == 400
    assert got.headers["Content-Type"].startswith(headers["Content-Type"])
    if headers is JSON:
        assert json.loads(got.body)["code"] == 3
    else:
        assert got.body.startswith(b"\x08\x03\x12")
    assert there.stored() == []
    assert there.post("/v1/traces", spans_json(span()), JSON).status == 200


BAD_IDS = {
    "no trace id": {"traceId": ""},
    "zeros": {"traceId": "0" * 32},
    "8 bytes": {"traceId": "5b8efff798038103"},
    "24 bytes": {"traceId": TRACE + "5b8efff798038103"},
    "base64": {"traceId": "W47/95gDgQPSabYzgT/GDA=="},
    "no span id": {"spanId": ""},
    "span id of zeros": {"spanId": "0" * 16},
    "span id of 16 bytes": {"spanId": TRACE},
}


@pytest.mark.parametrize("changes", BAD_IDS.values(), ids=BAD_IDS)
def test_a_span_with_a_bad_id_costs_itself_alone(there: Receiving, changes: dict[str, object]) -> None:
    got = there.post("/v1/traces", spans_json(span(**changes), span()), JSON)

    assert got.status == 200
    partial = got.json()["partialSuccess"]
    assert partial["rejectedSpans"] == "1"
    assert partial["errorMessage"]
    (envelope,), counts = assembled(there)
    assert envelope["trace_id"] == TRACE
    assert counts == {"span.assembled.end": 1, "span.dead_letter.bad_id": 1}


def test_bad_ids_in_protobuf_are_a_partial_success(there: Receiving) -> None:
    asked = ExportTraceServiceRequest()
    scope = asked.resource_spans.add().scope_spans.add()
    for trace_id in (b"", bytes(16), b"8 bytes!", b"x" * 24, b"x" * 16):
        scope.spans.add(trace_id=trace_id, span_id=b"8 bytes!", name="chat")
    got = there.post("/v1/traces", asked.SerializeToString(), PROTOBUF)

    assert got.status == 200
    assert ExportTraceServiceResponse.FromString(got.body).partial_success.rejected_spans == 4
    assert assembled(there)[1]["span.dead_letter.bad_id"] == 4


def test_ids_in_capitals_are_taken(there: Receiving) -> None:
    got = there.post("/v1/traces", spans_json(span(traceId=TRACE.upper(), spanId=SPAN.upper())), JSON)
    assert (got.status, got.json()) == (200, {})
    assert assembled(there)[0][0]["trace_id"] == TRACE


ODD = {
    "its own parent": [span(parentSpanId=SPAN)],
    "a circle": [span(parentSpanId="a" * 16), span(spanId="a" * 16, parentSpanId=SPAN)],
    "two roots": [span(), span(spanId="a" * 16)],
    "times of 0": [span(startTimeUnixNano="0", endTimeUnixNano="0")],
    "a time of 1970": [span(startTimeUnixNano="1")],
    "the largest time": [span(endTimeUnixNano="18446744073709551615")],
    "an end before its start": [span(startTimeUnixNano="1790000009000000000")],
    "control characters": [span(name="a\u0000b<script>\u001b[31m" + "x" * 10_000)],
    "unknown fields": [span(tomorrow={"a": 1})],
    "many attributes": [span(attributes=[{"key": f"k{n}", "value": {"intValue": "1"}} for n in range(5_000)])],
    "a key of 100 KB": [span(attributes=[{"key": "k" * 100_000, "value": {"stringValue": "v"}}])],
}


@pytest.mark.parametrize("spans", ODD.values(), ids=ODD)
def test_odd_spans_are_accepted(there: Receiving, spans: list[dict[str, object]]) -> None:
    good = span(traceId="c" * 32)
    got = there.post("/v1/traces", spans_json(*spans, good), JSON)
    assert (got.status, got.json()) == (200, {})
    envelopes, counts = assembled(there)
    assert "c" * 32 in {one["trace_id"] for one in envelopes}
    assert sum(counts.values()) == len(spans) + 1


def test_a_span_that_came_twice_counts_once(there: Receiving) -> None:
    for _ in range(2):
        assert there.post("/v1/traces", spans_json(span()), JSON).status == 200
    envelopes, counts = assembled(there)
    assert len(envelopes) == 1
    assert counts == {"span.assembled.end": 1, "span.duplicate.": 1}


def test_a_span_over_10_mb_is_a_dead_letter_and_its_trace_lives(there: Receiving) -> None:
    large = span(spanId="a" * 16, attributes=[{"key": "input.value", "value": {"stringValue": "x" * 10_500_000}}])
    got = there.post("/v1/traces", spans_json(span(), large), JSON)
    assert got.json()["partialSuccess"]["rejectedSpans"] == "1"
    envelopes, counts = assembled(there)
    assert [one["trace_id"] for one in envelopes] == [TRACE]
    assert counts == {"span.assembled.end": 1, "span.dead_letter.too_large": 1}
