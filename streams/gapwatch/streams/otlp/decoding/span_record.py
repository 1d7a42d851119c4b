"""`SpanRecord`: a decoded span, the same for protobuf and JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

#: Number of a span's kind to its name, by `trace.proto`.
SPAN_KINDS = ("UNSPECIFIED", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER")
#: Depth of a nested value, at most. A deeper one is absent.
MOST_DEPTH = 32


class AttributeShape(Protocol):
    """Choice of the attributes that are read of spans with the same keys.

    Attributes:
        indices: Their positions.
        keys: Their keys.
    """

    indices: tuple[int, ...]
    keys: tuple[str, ...]


class AttributeShapes(Protocol):
    """Shapes by the keys of all attributes of a span."""

    def __getitem__(self, keys: tuple[Any, ...], /) -> AttributeShape:
        """Return a shape.

        Raises:
            UndecodableError: A key is empty, or no text.
        """
        ...


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
        shape: Shape of its attributes.
        values: Values of the attributes that the shape reads: text, number, bool, list or dict; bytes as base64.
        events: Name, nanoseconds and all attributes.
        links: Trace and span id of each link.
        dropped: Number of attributes that the SDK dropped.
        trace_state: W3C trace state.
    """

    __slots__ = (
        "dropped", "end", "events", "is_error", "kind", "links", "message", "name", "parent_id", "shape", "span_id",
        "start", "trace_state", "values",
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
        shape: Any,
        values: list[Any],
        events: Sequence[tuple[str, int, dict[str, Any]]],
        links: Sequence[tuple[str, str]],
        dropped: int,
        trace_state: str,
    ) -> None:
        self.span_id, self.parent_id, self.name, self.kind = span_id, parent_id, name, kind
        self.start, self.end, self.is_error, self.message = start, end, is_error, message
        self.shape, self.values, self.events, self.links = shape, values, events, links
        self.dropped, self.trace_state = dropped, trace_state

    @property
    def attributes(self) -> dict[str, Any]:
        """The attributes that are read, by their keys."""
        return dict(zip(self.shape.keys, self.values, strict=True))


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
