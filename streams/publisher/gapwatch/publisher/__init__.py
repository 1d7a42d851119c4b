"""Publishes the traces of an LLM pipeline to Kafka; users import these names from here."""

from gapwatch.publisher.errors import SettingsError
from gapwatch.publisher.recording import Span, Trace
from gapwatch.publisher.trace_publisher import TracePublisher

__all__ = ["SettingsError", "Span", "Trace", "TracePublisher"]
