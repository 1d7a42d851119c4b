"""The reader that is compiled says of every span what the protobuf library says, or that it cannot read it."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from gapwatch.streams.otlp.decoding.protobuf_reader import read_span
from gapwatch.streams.otlp.decoding.raw_items import UndecodableError
from gapwatch.streams.otlp.decoding.span_bytes import UnusualSpanError, read_span_bytes
from gapwatch.streams.otlp.decoding.splitting import split
from gapwatch.streams.otlp.files.span_file import read_span_file
from gapwatch.streams.otlp.mapping.convention_table import convention_table
from gapwatch.streams.otlp.mapping.span_shape import SpanShapes
from tests.depth import examples
from tests.streams.otlp import captures

_FIELDS = (
    "dropped", "end", "is_error", "kind", "message", "name", "parent_id", "span_id", "start", "trace_state", "values",
)  # fmt: skip


class _AllKeys:
    """A shape that reads every attribute, so that every value is compared."""

    def __init__(self, keys: tuple[str, ...]) -> None:
        self.keys, self.indices = keys, tuple(range(len(keys)))


class _AllShapes:
    def __getitem__(self, keys: tuple[Any, ...], /) -> _AllKeys:
        if not all(keys):
            raise UndecodableError("an attribute has no key")
        return _AllKeys(keys)


def _read(reader: Any, raw: bytes, shapes: Any) -> Any:
    try:
        record = reader(raw, shapes)
    except UnusualSpanError:
        return "unusual"
    except UndecodableError as error:
        return str(error)
    fields = [getattr(record, name) for name in _FIELDS]
    # repr tells 1 from True and from 1.0, and says nan of nan.
    return repr((fields, record.shape.keys, list(record.events), list(record.links)))


def _spans() -> list[bytes]:
    """Spans of SDKs, and of a Collector, which writes the fields in reverse."""
    collected = list(read_span_file(str(captures.FOLDER / "kafka" / "otlp_spans.jsonl.gz")))
    return [
        span.raw
        for one in [*(one for name in captures.names() for one in captures.requests(name)), *collected]
        if one.signal == "traces" and not one.is_json
        for span in split(one.body, is_json=False, is_logs=False).spans
    ]


def test_it_reads_every_span_of_the_captures_as_the_library_does() -> None:
    shapes, spans = SpanShapes(convention_table()), _spans()
    assert len(spans) > 1_000
    for raw in spans:
        assert _read(read_span_bytes, raw, _AllShapes()) == _read(read_span, raw, _AllShapes())
        assert _read(read_span_bytes, raw, shapes) == _read(read_span, raw, shapes)


@pytest.mark.parametrize("seed", range(4))
def test_bytes_that_are_changed_cut_or_doubled_give_what_the_library_gives_or_nothing(seed: int) -> None:
    chance, spans, read = random.Random(seed), _spans(), 0
    for _ in range(examples(1_500)):
        raw = bytearray(chance.choice(spans))
        for _ in range(chance.choice((1, 1, 2, 5))):
            at = chance.randrange(len(raw))
            match chance.randrange(4):
                case 0:
                    raw[at] = chance.choice((0, 1, 2, 0x0A, 0x12, 0x4A, 0x7F, 0x80, 0xFF, chance.randrange(256)))
                case 1:
                    del raw[at : at + chance.randrange(1, 4)]
                case 2:
                    raw[at:at] = chance.randbytes(chance.randrange(1, 4))
                case _:
                    raw += raw[: chance.randrange(60)]
        mine = _read(read_span_bytes, bytes(raw), _AllShapes())
        if mine != "unusual":
            read += 1
            assert mine == _read(read_span, bytes(raw), _AllShapes())
    assert read > 20


_TEXTS = st.text(max_size=8)
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 63), (1 << 63) - 1) | st.floats() | _TEXTS | st.binary(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXTS, inner, max_size=3),
    max_leaves=8,
)


def _put(into: Any, value: Any) -> None:
    match value:
        case bool():
            into.bool_value = value
        case int():
            into.int_value = value
        case float():
            into.double_value = value
        case str():
            into.string_value = value
        case bytes():
            into.bytes_value = value
        case list():
            into.array_value.SetInParent()
            for one in value:
                _put(into.array_value.values.add(), one)
        case dict():
            into.kvlist_value.SetInParent()
            for key, one in value.items():
                _put(into.kvlist_value.values.add(key=key).value, one)


@settings(deadline=None, max_examples=examples(200))
@given(
    st.lists(st.tuples(_TEXTS, _VALUES), max_size=6),
    _TEXTS, st.integers(0, (1 << 64) - 1), st.integers(0, 5), st.binary(max_size=9), st.integers(0, (1 << 32) - 1),
    st.integers(0, 2), st.lists(st.tuples(_TEXTS, st.lists(st.tuples(_TEXTS, _VALUES), max_size=2)), max_size=2),
)  # fmt: skip
def test_any_message_reads_as_the_library_reads_it(
    pairs: list[tuple[str, Any]], name: str, time: int, kind: int, parent: bytes, dropped: int, code: int,
    events: list[tuple[str, list[tuple[str, Any]]]],
) -> None:  # fmt: skip
    span = Span(
        trace_id=bytes(range(16)), span_id=bytes(range(8)), parent_span_id=parent, name=name, kind=kind,
        start_time_unix_nano=time, dropped_attributes_count=dropped, trace_state=name, flags=dropped,
    )  # fmt: skip
    for key, value in pairs:
        _put(span.attributes.add(key=key).value, value)
    span.status.code, span.status.message = code, name
    for event, attributes in events:
        added = span.events.add(name=event, time_unix_nano=time)
        for key, value in attributes:
            _put(added.attributes.add(key=key).value, value)
    raw = span.SerializeToString()
    mine, theirs = _read(read_span_bytes, raw, _AllShapes()), _read(read_span, raw, _AllShapes())
    assert mine in (theirs, "unusual")
    is_plain = dropped < 1 << 31 and not any(map(_are_rare, (pairs, *(one for _, one in events))))
    assert not is_plain or mine == theirs


def _are_rare(pairs: Any) -> bool:
    """Return whether a key or a value is left to the library: a key of no letters, a number of more than 56 bits."""
    return any(not key or _is_rare(value) for key, value in pairs)


def _is_rare(value: Any) -> bool:
    if isinstance(value, dict):
        return _are_rare(value.items())
    if isinstance(value, list):
        return any(map(_is_rare, value))
    return isinstance(value, int) and not 0 <= value < 1 << 56


def test_nothing_is_read_of_what_is_no_span() -> None:
    for raw in (b"\x00", b"\x4a\x7f", b"\xff" * 20, b"\x2a\x01\xff", b"\x39\x00", b"\x0b\x0c"):
        assert _read(read_span_bytes, raw, _AllShapes()) == "unusual"
