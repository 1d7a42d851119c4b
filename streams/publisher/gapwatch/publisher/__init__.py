"""Records what an LLM pipeline does as traces and sends them to Kafka: `from gapwatch.publisher import TracePublisher`."""

from gapwatch.publisher.errors import SettingsError
from gapwatch.publisher.recording import Span, Trace
from gapwatch.publisher.trace_publisher import TracePublisher

__all__ = ["SettingsError", "Span", "Trace", "TracePublisher"]
