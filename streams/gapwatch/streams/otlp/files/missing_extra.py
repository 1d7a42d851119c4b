"""Says which extra is missing where spans cannot be decoded."""

from __future__ import annotations

from importlib.util import find_spec

from gapwatch.scorers.errors import UsageError


def need_span_decoder() -> None:
    """Check that spans can be decoded.

    Raises:
        UsageError: opentelemetry-proto is not installed.
    """
    if find_spec("opentelemetry") is None or find_spec("opentelemetry.proto") is None:
        raise UsageError("spans of OpenTelemetry need opentelemetry-proto; run: pip install 'gapwatch[otlp]'")
