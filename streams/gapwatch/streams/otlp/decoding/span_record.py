"""`SpanRecord`: a decoded span, the same for protobuf and JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: Key of an attribute to whether it is read; a mapping that knows every key.
WantedKeys = Mapping[str, bool]

#: Number of a span's kind to its name, by `trace.proto`.
SPAN_KINDS = ("UNSPECIFIED", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER")
#: Depth of a nested value, at most. A deeper one is absent.
MOST_DEPTH = 32


class SpanRecord:
    """Decoded span.

    Attributes:
        span_id: 16 hexadecimal digits.
        parent_id: 16 hexadecimal digits; None for a root.
        name: Its name.
        kind: Number of its kind; see `SPAN_KINDS`.
        start: Nanoseconds since the epoch; 0 if unknown.
        end: Nanoseconds since the epoch; 0 if unknown.
        is_error: Whether its status is an error.
        message: Text of its status.
        attributes: The wanted ones: text, number, bool, list or dict; bytes as base64.
        events: Name, nanoseconds and all attributes.
        links: Trace and span id of each link.
        dropped: Number of attributes that the SDK dropped.
        trace_state: W3C trace state.
    """

    __slots__ = (
        "attributes", "dropped", "end", "events", "is_error", "kind", "links", "message", "name", "parent_id",
        "span_id", "start", "trace_state",
    )  # fmt: skip

    def __init__(
        self,
        span_id: str,
        parent_id: str | None,
        name: str,
        kind: int,
        start: int,
        end: int,
        is_error: bool,
        message: str,
        attributes: dict[str, Any],
        events: list[tuple[str, int, dict[str, Any]]],
        links: list[tuple[str, str]],
        dropped: int,
        trace_state: str,
    ) -> None:
        self.span_id, self.parent_id, self.name, self.kind = span_id, parent_id, name, kind
        self.start, self.end, self.is_error, self.message = start, end, is_error, message
        self.attributes, self.events, self.links = attributes, events, links
        self.dropped, self.trace_state = dropped, trace_state


class LogEntry:
    """Decoded log record.

    Attributes:
        name: Name of the event; empty if the record is none.
        time: Nanoseconds since the epoch; 0 if unknown.
        attributes: All of them.
        body: Text, number, list or dict; None without one.
    """

    __slots__ = ("attributes", "body", "name", "time")

    def __init__(self, name: str, time: int, attributes: dict[str, Any], body: Any) -> None:
        self.name, self.time, self.attributes, self.body = name, time, attributes, body
