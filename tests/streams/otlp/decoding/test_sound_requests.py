"""What the receiver finds sound without splitting it is sound where it is split and read."""

from __future__ import annotations

import random

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from gapwatch.streams.otlp.decoding.protobuf_reader import is_sound
from gapwatch.streams.otlp.decoding.splitting import check_payload, decode_span, split
from gapwatch.streams.otlp.mapping.convention_table import convention_table
from gapwatch.streams.otlp.mapping.span_shape import SpanShapes
from tests.depth import examples
from tests.streams.otlp import captures

#: An unknown field 200: a group with a number, a text and another group in it.
_GROUP = bytes.fromhex("c30c0801120261621b08011cc40c")


def _bodies() -> list[bytes]:
    return [
        one.body
        for name in captures.names()
        for one in captures.requests(name)
        if one.signal == "traces" and not one.is_json and len(one.body) < 20_000
    ]


def test_requests_of_every_sdk_are_sound() -> None:
    assert all(map(is_sound, _bodies()))


def test_groups_of_unknown_fields_are_skipped() -> None:
    body = _bodies()[0]
    for changed in (_GROUP + body, body + _GROUP):
        assert is_sound(changed)
        assert [one.raw for one in split(changed, is_json=False, is_logs=False).spans] == [
            one.raw for one in split(body, is_json=False, is_logs=False).spans
        ]


@pytest.mark.parametrize("seed", range(4))
def test_changed_requests_that_are_sound_have_no_dead_span(seed: int) -> None:
    chance, bodies, sound, shapes = random.Random(seed), _bodies(), 0, SpanShapes(convention_table())
    for _ in range(examples(1_000)):
        body = bytearray(chance.choice(bodies))
        at = chance.randrange(min(len(body), chance.choice((40, 4_000))))
        match chance.randrange(4):
            case 0:
                body[at] = chance.randrange(256)
            case 1:
                del body[at : at + chance.randrange(1, 4)]
            case 2:
                body[at:at] = chance.choice((_GROUP, chance.randbytes(2), b"\x03\x04", b"\x4b"))
            case _:
                body += chance.choice((_GROUP, b"\x0b\x0c", body[:50]))
        changed = bytes(body)
        if not is_sound(changed):
            continue
        sound += 1
        payload = split(changed, is_json=False, is_logs=False)
        assert not payload.dead
        request = ExportTraceServiceRequest.FromString(changed)
        theirs = [span for one in request.resource_spans for scope in one.scope_spans for span in scope.spans]
        assert [(one.trace_id, one.span_id) for one in payload.spans] == [(s.trace_id, s.span_id) for s in theirs]
        for one in payload.spans:
            if all(pair.key for pair in theirs[payload.spans.index(one)].attributes):
                decode_span(one, shapes)
    assert sound > 5


@pytest.mark.parametrize(("field", "value"), [("trace_id", b""), ("trace_id", bytes(16)), ("span_id", bytes(8))])
def test_a_span_without_an_id_is_rejected(field: str, value: bytes) -> None:
    request = ExportTraceServiceRequest.FromString(_bodies()[0])
    setattr(request.resource_spans[0].scope_spans[0].spans[0], field, value)
    body = request.SerializeToString()
    assert not is_sound(body)
    assert check_payload(body, is_json=False, is_logs=False).rejected == 1
