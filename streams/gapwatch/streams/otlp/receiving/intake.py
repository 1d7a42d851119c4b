"""`OtlpIntake`: what a receiver hands its requests to, and the reasons why one is not taken."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class Signal(StrEnum):
    """Kind of data of an OTLP request."""

    TRACES = "traces"
    LOGS = "logs"
    METRICS = "metrics"


@dataclass(frozen=True)
class OtlpRequest:
    """Body of one export request, inflated.

    Attributes:
        signal: What it carries.
        is_json: True for OTLP/JSON, False for protobuf.
        body: The message: `ExportTraceServiceRequest`, `ExportLogsServiceRequest`.
    """

    signal: Signal
    is_json: bool
    body: bytes


@dataclass(frozen=True)
class Taken:
    """Request that is stored safely.

    Attributes:
        rejected: Number of spans or log records in it that cannot be used. They are counted as dead letters.
        reason: Why, for the person who reads the exporter's log; empty if none is rejected.
    """

    rejected: int = 0
    reason: str = ""


class RefusedRequestError(Exception):
    """A request cannot be decoded; the exporter must not send it again. The text says why."""


class BusyReceiverError(Exception):
    """A request cannot be stored now: the buffer or the disk is full. The exporter sends it again.

    Args:
        text: What is full.
        retry_seconds: Seconds after which the exporter may try again.
    """

    def __init__(self, text: str, retry_seconds: int = 2) -> None:
        super().__init__(text)
        self.retry_seconds = retry_seconds


class OtlpIntake(Protocol):
    """Stores requests. Its methods run on the event loop of the receiver."""

    async def take(self, request: OtlpRequest) -> Taken:
        """Store a request; when this returns, a kill of the process loses nothing of it.

        Raises:
            RefusedRequestError: The body is not a message of this signal.
            BusyReceiverError: It cannot be stored now.
        """
        ...

    def note_refused(self, signal: Signal, reason: str) -> None:
        """Count a request that was refused before it came here, by a reason from a closed set."""
        ...

    def note_dropped(self, signal: Signal) -> None:
        """Count a request of a signal that nothing uses."""
        ...
