"""`CloseRules`: when a trace is closed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CloseRules:
    """Limits after which nothing is added to a trace any more. Times are seconds by the clock of arrival.

    Structure closes no trace: in traces over two services the root and all parents were there seconds before the last
    spans came.

    Attributes:
        quiet: Without a new span, once the root has come. The SDKs send every 5 s: under 6 s is too short.
        orphan: Without a new span, where no root has come: a crash, a lost root, a caller outside.
        max_open: Since the first span.
        max_spans: Spans of one trace.
        max_bytes: Bytes of one trace; an envelope has the same limit.
        memory: Bytes of all open traces; the oldest are closed first.
    """

    quiet: float = 10.0
    orphan: float = 60.0
    max_open: float = 600.0
    max_spans: int = 10_000
    max_bytes: int = 10_000_000
    memory: int = 512_000_000
