"""Publishes the traces of a pipeline to Kafka or to a file.

    from gapwatch.publisher import TracePublisher

This file hands names on, unlike any other of its kind: users import them from here.
"""

from gapwatch.publisher.trace_publisher import TracePublisher

__all__ = ["TracePublisher"]
