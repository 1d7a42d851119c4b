"""Requests with made-up spans."""

from __future__ import annotations

from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from gapwatch.streams.otlp.files.span_file import FileRequest

#: 2026-11-24.
START = 1_795_500_000_000_000_000


def span(
    trace: int, number: int, parent: int | None = None, *, name: str = "step", start: int = START, **attributes: Any
) -> Span:
    """Span of a trace by numbers; `attributes` are texts or whole numbers, `__` in a key stands for a point."""
    made = Span(
        trace_id=trace.to_bytes(16, "big"), span_id=number.to_bytes(8, "big"), name=name, kind=1,
        start_time_unix_nano=start + number, end_time_unix_nano=start + 1_000_000 + number,
    )  # fmt: skip
    if parent is not None:
        made.parent_span_id = parent.to_bytes(8, "big")
    for key, value in attributes.items():
        pair = made.attributes.add(key=key.replace("__", "."))
        if isinstance(value, str):
            pair.value.string_value = value
        else:
            pair.value.int_value = value
    return made


def request(*spans: Span, service: str = "shop") -> FileRequest:
    """One request that carries the spans."""
    made = ExportTraceServiceRequest()
    resource = made.resource_spans.add()
    resource.resource.attributes.add(key="service.name").value.string_value = service
    resource.scope_spans.add().spans.extend(spans)
    return FileRequest("traces", False, made.SerializeToString())
