"""Roots of traces: a run of a graph or a request, whose span is sent only where something in it has a span, too."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from opentelemetry import context as contexts
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.trace import Span, SpanProcessor

from gapwatch.design.emission.hidden_secrets import error_texts
from gapwatch.design.emission.interpreter.watched_call import RunningCall

_ROOT = contexts.create_key("gapwatch-root")


@dataclass(slots=True)
class WaitingRoot(RunningCall):
    """An entry of a framework that no span is around.

    Attributes:
        name: Name of the span.
        started: Nanoseconds since the epoch.
        span: The span; None while nothing in it has one.
        is_needed: Whether something in it has a span.
    """

    name: str
    started: int = field(default_factory=time.time_ns)
    span: Any = None
    is_needed: bool = False

    def begin_span(self, tracer: Any) -> Context:
        """Begin the span and return the context with it."""
        if self.span is None:
            self.span = tracer.start_span(self.name, context=self.before, start_time=self.started)
            self.span.set_attribute("openinference.span.kind", "CHAIN")
        return trace.set_span_in_context(self.span, self.before)

    def end(self, result: Any, error: BaseException | None) -> None:
        """End the span, if there is one.

        Args:
            result: What the entry returned; it is not written.
            error: What it raised; None where it returned.
        """
        self.leave()
        if self.span is not None and self.is_needed:  # A span that never ends is never sent.
            if isinstance(error, Exception):
                self.span.set_attribute("error.type", type(error).__name__)
                self.span.set_status(
                    trace.Status(trace.StatusCode.ERROR, error_texts(error)["exception.message"][:300])
                )
            self.span.end()


class RootNeeds(SpanProcessor):
    """Notes the entries in which spans begin."""

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Note that the entry around a span needs its own."""
        root = contexts.get_value(_ROOT, parent_context)
        if isinstance(root, WaitingRoot):
            root.is_needed = True


def begin_entry(values: Mapping[str, Any], own_tracer: Any) -> WaitingRoot | None:
    """Begin an entry; return None inside of a trace, or for what is no request.

    Args:
        values: Variables of the function.
        own_tracer: Tracer of a program that makes spans itself, which need the root at once; None for others.
    """
    before = contexts.get_current()
    if contexts.get_value(_ROOT, before) is not None or trace.get_current_span(before).get_span_context().is_valid:
        return None
    scope = values.get("scope")
    if isinstance(scope, dict):
        if scope.get("type") != "http":
            return None
        name = "request"
    else:
        name = str(getattr(values.get("self"), "name", "") or "run")
    made = WaitingRoot(before, before, name)
    inside = made.begin_span(own_tracer) if own_tracer is not None else before
    made.context = contexts.set_value(_ROOT, made, inside)
    contexts.attach(made.context)
    return made


def under_root(before: Context, tracer: Any) -> Context:
    """Return the context for a new span: below the entry that waits for one, else as it is.

    Args:
        before: Current context.
        tracer: Makes the span.
    """
    root = contexts.get_value(_ROOT, before)
    if not isinstance(root, WaitingRoot):
        return before
    root.is_needed = True
    if trace.get_current_span(before).get_span_context().is_valid:
        return before
    root.begin_span(tracer)
    return trace.set_span_in_context(root.span, before)


def is_root(span: Any) -> bool:
    """Return whether a span is that of the entry around the current call."""
    root = contexts.get_value(_ROOT)
    return isinstance(root, WaitingRoot) and root.span is span
