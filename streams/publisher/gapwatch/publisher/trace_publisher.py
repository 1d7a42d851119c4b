"""`TracePublisher`: records what a pipeline does as traces, and sends them to Kafka or appends them to a file.

It never blocks and never breaks the pipeline: the buffer is bounded, dropped traces are counted, and the publisher's
own failures are counted and logged once. It imports the standard library, orjson and (when traces go to Kafka)
aiokafka, and no other part of Gapwatch: it is installed without the rest.
"""

from __future__ import annotations

import hashlib
import inspect
import logging
import os
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, NamedTuple, TypeVar

from gapwatch.publisher.arguments import (
    check_bool,
    check_keywords,
    check_redact,
    check_text,
    check_topic,
    connection_settings,
    file_path,
    probability,
    whole_number,
)
from gapwatch.publisher.errors import SettingsError
from gapwatch.publisher.feedback_record import feedback_record
from gapwatch.publisher.kafka_settings import ENVIRONMENT_PREFIX, KafkaSettings
from gapwatch.publisher.model_response import read_model_response, read_usage
from gapwatch.publisher.recording import Captured, Span, Trace, capture, size_of
from gapwatch.publisher.sender import TraceSender
from gapwatch.publisher.wrapping import Function, wrap_function

log = logging.getLogger("gapwatch.publisher")

#: The open trace of this context, and the span that would be the parent of the next one.
_CURRENT: ContextVar[tuple[TracePublisher, Trace, Span | None] | None] = ContextVar("gapwatch_current", default=None)

#: Topic of what people say of traces.
FEEDBACK_TOPIC = "feedback"

#: Kinds of spans whose result is read as a model's reply.
_MODEL_KINDS = frozenset({"llm", "embedding", "rerank"})


class TracePublisher:
    """Publishes the traces of one pipeline to a Kafka topic or a file, from a thread of its own.

    Without brokers, or with connection settings that are wrong, the pipeline runs all the same: the error is logged
    once, and its traces are dropped and counted as `not_set_up`.

    Args:
        pipeline: Name of the pipeline, as its portfolio gives it.
        topic: Topic to publish to; it must exist.
        environment: Written into every trace.
        release: Version of the pipeline, written into every trace; None writes none.
        sampling_probability: Share of traces to publish, from 0 to 1. The choice depends on the trace id alone, so all
            publishers with one share choose the same traces; each trace carries the share as its weight.
        max_buffered_traces: Most traces that wait for the broker; further ones are dropped and counted.
        max_buffered_bytes: Most bytes that wait for the broker; further traces are dropped and counted.
        max_value_bytes: An input or output larger than this is left out, and the span's attributes name it. It is not
            shortened: Gapwatch would judge a part as the whole.
        redact: Called with each input and output before it is recorded, on the pipeline's thread. If it raises, the
            value is left out.
        enabled: False turns the publisher into a no-op that needs no broker, for the pipeline's own tests.
        compression: `gzip`; with the package cramjam also `lz4`, `zstd` or `snappy`. None sends uncompressed.
        file: File that traces are appended to, one JSON object a line, instead of Kafka; several processes may share
            it. `gapwatch replay` and `gapwatch publish` read it.
        strict: True raises an error of the target's settings instead of logging it.
        kafka: Connection: `brokers`, `security_protocol`, `sasl_mechanism`, `username`, `password`, `ca_file`,
            `cert_file`, `key_file`; read from `GAPWATCH_KAFKA_<NAME>` where not given.

    Raises:
        TypeError: No argument has this name.
        SettingsError: An argument has a wrong type or lies out of its range; with `strict`, also the target is missing
            or wrong: a connection setting, the name of the topic, the compression, or a file that cannot be written.
            After this, no method raises an error of the publisher.
    """

    def __init__(
        self,
        pipeline: str,
        *,
        topic: str = "traces",
        environment: str = "production",
        release: str | None = None,
        sampling_probability: float = 1.0,
        max_buffered_traces: int = 10_000,
        max_buffered_bytes: int = 64 << 20,
        max_value_bytes: int = 1 << 20,
        redact: Callable[[Any], Any] | None = None,
        enabled: bool = True,
        compression: str | None = None,
        file: str | bytes | os.PathLike[str] | None = None,
        strict: bool = False,
        **kafka: str | os.PathLike[str] | None,
    ) -> None:
        check_keywords(kafka, [name for name in inspect.signature(TracePublisher).parameters if name != "kafka"])
        check_text("pipeline", pipeline)
        check_text("topic", topic)
        check_text("environment", environment)
        check_text("release", release, may_be_none=True)
        check_bool("enabled", enabled)
        check_bool("strict", strict)
        check_redact(redact)
        limits = (
            whole_number("max_buffered_traces", max_buffered_traces, 1),
            whole_number("max_buffered_bytes", max_buffered_bytes, 1),
        )
        self.pipeline, self.environment, self.release = pipeline, environment, release
        self.sampling_probability = probability(sampling_probability)
        self._max_value_bytes, self._redact = whole_number("max_value_bytes", max_value_bytes, 0), redact
        self.own_counts: Counter[str] = Counter()
        self._has_complained = self._is_missing_target = False
        self._sender: TraceSender | None = None
        self._feedback_sender: TraceSender | None = None
        self._feedback_lock = threading.Lock()
        self._make_feedback_sender: Callable[[], TraceSender] | None = None
        if not enabled:
            return
        try:
            if file is None:
                self._sender = _kafka_sender(kafka, topic, limits, compression)
                self._make_feedback_sender = partial(_kafka_sender, kafka, FEEDBACK_TOPIC, limits, compression)
            else:
                self._sender = _file_sender(file, kafka, limits)
                self._make_feedback_sender = partial(_file_sender, feedback_path(file_path(file)), kafka, limits)
        except Exception as error:
            if strict:
                raise
            self._is_missing_target = True
            log.error("the traces of pipeline %r are not published: %s", pipeline, error)

    # --- what a pipeline writes

    def trace(
        self,
        trace_id: str | None = None,
        *,
        session_id: str | None = None,
        attributes: Mapping[str, Any] | None = None,
        sampling_probability: float | None = None,
    ) -> TraceScope:
        """Open a trace: `with publisher.trace() as trace:`, `async with`, or as a decorator.

        Args:
            trace_id: Id of the trace; None draws 32 random hex digits.
            session_id: Shared by the traces of one conversation.
            attributes: Flat mapping; add to `trace.attributes` until the trace ends.
            sampling_probability: For this trace, instead of the publisher's.
        """
        return TraceScope(self, TraceOptions(trace_id, session_id, attributes, sampling_probability))

    def span(
        self,
        component: str,
        *,
        kind: str | None = None,
        name: str | None = None,
        tier: str | None = None,
        model: str | None = None,
        input: Any = None,  # noqa: A002  # the envelope's word
        attributes: Mapping[str, Any] | None = None,
        capture_input: bool = True,
        capture_output: bool = True,
        usage: Callable[[Any], Any] | None = None,
    ) -> SpanScope:
        """Open a span: `with publisher.span("retriever") as span:`, `async with`, or as a decorator of a function.

        A span outside of a trace becomes a trace of its own. A decorator records the arguments and the result (of a
        generator: its items, joined). If the result is a model's reply, its text, model and usage are read from it.
        All fields can also be assigned to the span later.

        Args:
            component: Component of the pipeline that this step belongs to, as the portfolio names it.
            kind: llm, embedding, retrieval, rerank, tool, agent, chain, guardrail, parse, cache or other.
            name: Free text.
            tier: Route inside the component, such as `primary` or `fallback`.
            model: Name of the model.
            input: Input of the step, for the context manager.
            attributes: Flat mapping of further fields; metrics can check them.
            capture_input: False: the decorator does not record the arguments.
            capture_output: False: the decorator does not record the result.
            usage: Returns tokens and cost from the function's result, for client libraries that are not recognised.
        """
        options = SpanOptions(
            component, kind, name, tier, model, input, attributes, capture_input, capture_output, usage
        )
        return SpanScope(self, options)

    def current_span(self) -> Span:
        """Return the innermost open span of this context; outside of any span, one that is not published."""
        current = _CURRENT.get()
        return current[2] if current is not None and current[2] is not None else _IgnoredSpan()

    def carry(self, function: Function) -> Function:
        """Return the function bound to the current trace and span, so that it can run in another thread.

        `asyncio` tasks and `asyncio.to_thread` need no `carry`; `threading` and executors do.
        """
        current = _CURRENT.get()

        def wrapper(*args: Any, **kwargs: Any) -> Any:
            before = _CURRENT.get()
            _CURRENT.set(current)
            try:
                return function(*args, **kwargs)
            finally:
                _CURRENT.set(before)

        return wrapper  # type: ignore[return-value]

    def feedback(
        self, trace_id: str, value: bool | str | float, comment: str | None = None, user: str | None = None
    ) -> str:
        """Publish what a person says of a trace, at any time after it or before.

        It goes to the topic `feedback`; with `file=`, to a file beside it (`traces.jsonl`: `traces.feedback.jsonl`),
        which `gapwatch feedback` reads. Nothing waits for it, and no error of it reaches the pipeline.

        Args:
            trace_id: Id of the trace.
            value: True or `up`, False or `down`, or a number, such as stars.
            comment: What the person wrote; the first 10,000 characters count.
            user: Who gave it; better a pseudonym than a name.

        Returns:
            The id of the feedback, by which a repeated one is known; empty where it is not published.
        """
        try:
            if self._make_feedback_sender is None:
                return ""
            id_, data = feedback_record(self.pipeline, trace_id, value, comment, user)
            with self._feedback_lock:
                if self._feedback_sender is None:
                    self._feedback_sender = self._make_feedback_sender()
            return id_ if self._feedback_sender.offer_record(str(trace_id).encode("utf-8", "replace"), data) else ""
        except Exception as error:
            self._own_error(error)
            return ""

    # --- its own life

    def flush(self, timeout_seconds: float = 10.0) -> bool:
        """Wait until every finished trace is acknowledged or dropped; False if the timeout came first."""
        flushed = [one.flush(timeout_seconds) for one in self._senders]  # each, also after one that is late
        return all(flushed)

    def close(self, timeout_seconds: float = 5.0) -> bool:
        """Flush and stop; later traces are dropped and counted. The end of the process does the same.

        Returns:
            False if traces were left unsent.
        """
        closed = [one.close(timeout_seconds) for one in self._senders]
        return all(closed)

    @property
    def _senders(self) -> list[TraceSender]:
        return [one for one in (self._sender, self._feedback_sender) if one is not None]

    async def aflush(self, timeout_seconds: float = 10.0) -> bool:
        """`flush` without blocking the event loop."""
        import asyncio

        return await asyncio.to_thread(self.flush, timeout_seconds)

    async def aclose(self, timeout_seconds: float = 5.0) -> bool:
        """`close` without blocking the event loop."""
        import asyncio

        return await asyncio.to_thread(self.close, timeout_seconds)

    def __enter__(self) -> TracePublisher:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    async def __aenter__(self) -> TracePublisher:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.aclose()

    @property
    def counts(self) -> dict[str, int]:
        """Numbers of traces by outcome: `sent`, `waiting`, `sampled_out`, and dropped traces by cause (see the README).

        `late_spans` counts spans that ended after their trace, `own_errors` failures of the publisher itself. Once
        there was feedback, `feedback_sent` and the like count it apart.
        """
        counts = {"sent": 0, **self.own_counts}
        for prefix, one in (("", self._sender), ("feedback_", self._feedback_sender)):
            if one is not None:
                counts |= {f"{prefix}{name}": n for name, n in {**one.counts, "waiting": one.pending}.items()}
        return counts

    # --- what the scopes use

    def _new_trace(self, trace_id: str | None, sampling_probability: float | None) -> Trace:
        trace_id = str(trace_id) if trace_id else os.urandom(16).hex()
        trace = Trace(trace_id, self.pipeline, self.environment, self.release)
        share = self.sampling_probability
        if sampling_probability is not None:
            try:
                share = probability(sampling_probability)
            except Exception as error:  # the pipeline is running: an error of the publisher must not end it
                self._own_error(error)
        trace.sampling_probability = share
        trace.is_recording = self._sender is not None and (share >= 1.0 or publisher_draw(trace_id) < share)
        return trace

    def _finish_trace(self, trace: Trace) -> None:
        trace.end()
        if self._sender is None:
            if self._is_missing_target:
                self.own_counts["not_set_up"] += 1
            return
        if not trace.is_recording:
            self.own_counts["sampled_out"] += 1
            return
        spans, trace.spans = trace.spans, []
        self._sender.offer(trace, spans, trace.size)

    def _finish_span(self, span: Span) -> None:
        span.end()
        trace = span.trace
        if trace.has_ended:
            self.own_counts["late_spans"] += 1
            return
        trace.size += 300 + size_of(span.input) + size_of(span.output)
        trace.spans.append(span)

    def _take(self, span: Span, field: str, value: Any) -> None:
        """Record an input or output as it is now, unless it is too large or its redaction fails."""
        if value is None or type(value) is Captured:
            return
        if self._redact is not None:
            try:
                value = self._redact(value)
            except Exception as error:
                setattr(span, field, None)
                span.attributes[f"omitted_{field}"] = "redaction failed"
                self._own_error(error)
                return
        value = capture(value)
        if (size := size_of(value)) > self._max_value_bytes:
            span.attributes[f"omitted_{field}"] = f"{size} bytes"
            value = None
        setattr(span, field, value)

    def _own_error(self, error: Exception) -> None:
        """Count a failure of the publisher and log the first one; the pipeline continues."""
        self.own_counts["own_errors"] += 1
        if not self._has_complained:
            self._has_complained = True
            log.warning(
                "the publisher failed to record something and continues; further failures are counted as own_errors, "
                "not logged",
                exc_info=error,
            )


class TraceOptions(NamedTuple):
    """Arguments of `TracePublisher.trace`; a named tuple, because one is made for each trace."""

    trace_id: str | None
    session_id: str | None
    attributes: Mapping[str, Any] | None
    sampling_probability: float | None


class SpanOptions(NamedTuple):
    """Arguments of `TracePublisher.span`; a named tuple, because one is made for each span."""

    component: str
    kind: str | None
    name: str | None
    tier: str | None
    model: str | None
    input: Any
    attributes: Mapping[str, Any] | None
    capture_input: bool
    capture_output: bool
    usage: Callable[[Any], Any] | None


Opened = TypeVar("Opened")


class _ContextScope(Generic[Opened]):
    """Common part of traces and spans: both kinds of `with`, and restoring the scope that was current before."""

    __slots__ = ("_before", "_current", "_publisher")

    def __init__(self, publisher: TracePublisher) -> None:
        self._publisher = publisher
        self._before: tuple[TracePublisher, Trace, Span | None] | None = None
        self._current: tuple[TracePublisher, Trace, Span | None] | None = None

    def open(self) -> Opened:
        """Begin, and become the current scope."""
        raise NotImplementedError

    def close(self, error: BaseException | None) -> None:
        """End, with the exception if there was one, and restore the scope that was current before."""
        raise NotImplementedError

    def resume(self) -> None:
        """Become the current scope again."""
        _CURRENT.set(self._current)

    def suspend(self) -> None:
        """Restore the scope that was current before."""
        _CURRENT.set(self._before)

    def take_result(self, result: Any) -> None:
        """Record the result of a decorated function."""

    def __enter__(self) -> Opened:
        return self.open()

    def __exit__(
        self, _type: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.close(error)

    async def __aenter__(self) -> Opened:
        return self.open()

    async def __aexit__(
        self, _type: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.close(error)


class TraceScope(_ContextScope[Trace]):
    """An open trace; see `TracePublisher.trace`."""

    __slots__ = ("_options", "_trace")

    def __init__(self, publisher: TracePublisher, options: TraceOptions) -> None:
        super().__init__(publisher)
        self._options = options

    def __call__(self, function: Function) -> Function:
        """Decorate a function: each call is a trace."""
        return wrap_function(function, lambda _args, _kwargs: TraceScope(self._publisher, self._options))

    def open(self) -> Trace:
        """Begin the trace."""
        trace_id, session_id, attributes, probability = self._options
        self._trace = trace = self._publisher._new_trace(trace_id, probability)
        trace.session_id = session_id
        try:
            if attributes:
                trace.attributes.update(attributes)
        except Exception as own:
            self._publisher._own_error(own)
        self._before = _CURRENT.get()
        self._current = (self._publisher, trace, None)
        _CURRENT.set(self._current)
        return trace

    def close(self, error: BaseException | None) -> None:
        """End the trace and hand it to the sender."""
        _CURRENT.set(self._before)
        try:
            if error is not None:
                self._trace.attributes.setdefault("error_type", type(error).__qualname__)
            self._publisher._finish_trace(self._trace)
        except Exception as own:
            self._publisher._own_error(own)


class SpanScope(_ContextScope[Span]):
    """An open span; see `TracePublisher.span`."""

    __slots__ = ("_options", "_own_trace", "_span", "_taken_input")

    def __init__(self, publisher: TracePublisher, options: SpanOptions) -> None:
        super().__init__(publisher)
        self._options = options
        self._own_trace: Trace | None = None

    def __call__(self, function: Function) -> Function:
        """Decorate a function: each call is a span with its arguments, its result and its exception."""
        publisher, options = self._publisher, self._options
        names = _parameter_names(function)

        def new_scope(args: tuple[Any, ...], kwargs: dict[str, Any]) -> SpanScope:
            if not options.capture_input:
                return SpanScope(publisher, options)
            return SpanScope(publisher, options._replace(input=_named_arguments(names, args, kwargs)))

        return wrap_function(function, new_scope)

    def open(self) -> Span:
        """Begin the span in the current trace, or in a new one."""
        publisher = self._publisher
        component, kind, name, tier, model, value, attributes, *_ = self._options
        self._before = before = _CURRENT.get()
        if before is not None and before[0] is publisher:
            trace, parent = before[1], before[2]
        else:
            trace, parent = publisher._new_trace(None, None), None
            self._own_trace = trace
        span: Span
        if trace.is_recording:
            span = Span(trace, component, parent.span_id if parent is not None else None)
            span.kind, span.name, span.tier, span.model = kind, name, tier, model
            try:
                if attributes:
                    span.attributes.update(attributes)
                publisher._take(span, "input", value)
            except Exception as own:
                publisher._own_error(own)
        else:
            span = _IgnoredSpan()
        self._span, self._taken_input = span, span.input
        self._current = (publisher, trace, span)
        _CURRENT.set(self._current)
        return span

    def take_result(self, result: Any) -> None:
        """Record the result of the decorated function; of a model's reply, also model and usage."""
        span = self._span
        if not span.is_recording:
            return
        try:
            read_own_usage = self._options.usage
            if read_own_usage is not None:
                span.set_usage(**(read_usage(read_own_usage(result)) or {}))
            answer = read_model_response(result) if span.kind in _MODEL_KINDS else None
            if answer is not None:
                span.model = answer.model or span.model
                if answer.usage:
                    span.usage = {**answer.usage, **(span.usage or {})}
                result = result if answer.text is None else answer.text
            if self._options.capture_output and span.output is None:
                span.output = result
        except Exception as own:
            self._publisher._own_error(own)

    def close(self, error: BaseException | None) -> None:
        """End the span, and its trace if it was opened for the span."""
        _CURRENT.set(self._before)
        publisher, span = self._publisher, self._span
        try:
            if span.is_recording:
                if error is not None and not isinstance(error, GeneratorExit):
                    span.fail(error)
                if span.input is not self._taken_input:  # the pipeline has assigned it since
                    publisher._take(span, "input", span.input)
                publisher._take(span, "output", span.output)
                publisher._finish_span(span)
            if self._own_trace is not None:
                publisher._finish_trace(self._own_trace)
        except Exception as own:
            publisher._own_error(own)


class _IgnoredSpan(Span):
    """A span that is not published: of a trace that sampling left out, or outside of any span."""

    __slots__ = ()

    def __init__(self) -> None:
        self.attributes = {}
        self.usage = None
        self.input = self.output = self.name = self.kind = self.tier = self.model = self.error_type = None
        self.span_id = self.component = ""
        self.parent_id = None
        self.status = "ok"

    @property
    def is_recording(self) -> bool:
        """Always False."""
        return False


def publisher_draw(trace_id: str) -> float:
    """Return a number in [0, 1) from the trace id; the publisher takes the trace if it lies below its share.

    The hash differs from the one that `gapwatch run` samples with. The two choices must be independent: only then is
    the product of both shares the probability that a trace is evaluated.
    """
    digest = hashlib.sha256(b"gapwatch/publisher/1/" + trace_id.encode("utf-8", "replace")).hexdigest()
    return int(digest[:13], 16) / 2**52


def _kafka_sender(
    kafka: Mapping[str, object], topic: str, limits: tuple[int, int], compression: str | None
) -> TraceSender:
    from gapwatch.publisher.kafka_sender import KafkaSender  # here: a file needs no Kafka client

    given = connection_settings(kafka)
    if not given.get("brokers") and not os.environ.get(f"{ENVIRONMENT_PREFIX}BROKERS"):
        raise SettingsError(
            f"no Kafka brokers given; set {ENVIRONMENT_PREFIX}BROKERS=HOST:PORT, pass brokers=, or write the traces to "
            "a file with file="
        )
    check_topic(topic)
    settings = KafkaSettings.from_environment(os.environ, **given)
    return KafkaSender(settings, topic, *limits, compression)


def _file_sender(file: object, kafka: Mapping[str, object], limits: tuple[int, int]) -> TraceSender:
    from gapwatch.publisher.file_sender import FileSender  # here: it is for POSIX alone

    if kafka:
        raise SettingsError(f"file= and {min(kafka)}= exclude each other; traces go to a file or to Kafka")
    return FileSender(file_path(file), *limits)


def feedback_path(file: Path) -> Path:
    """Return the file of feedback beside a file of traces: `traces.feedback.jsonl` beside `traces.jsonl`."""
    return file.with_name(f"{file.stem}.feedback{file.suffix or '.jsonl'}")


def _parameter_names(function: Callable[..., Any]) -> list[str]:
    try:
        return list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return []


def _named_arguments(names: list[str], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the arguments of a call: a single one as it is, several by name, without `self` and `cls`."""
    if names and names[0] in ("self", "cls"):
        names, args = names[1:], args[1:]
    if len(args) + len(kwargs) == 1:
        return args[0] if args else next(iter(kwargs.values()))
    if not args and not kwargs:
        return None
    positional = {names[i] if i < len(names) else f"argument_{i}": value for i, value in enumerate(args)}
    return {**positional, **kwargs}
