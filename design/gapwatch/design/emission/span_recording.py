"""Records functions as spans of OpenTelemetry: inputs, outputs, errors, and what lines of a function note."""

from __future__ import annotations

import functools
import inspect
import time
from typing import Any

from opentelemetry import context, trace

from gapwatch.design.emission.asked_models import IS_MODEL, NOTES, SENT_LAST, chunks, tell_reply
from gapwatch.design.emission.hidden_secrets import error_texts
from gapwatch.design.emission.missing_replies import is_read_later
from gapwatch.design.emission.recorded_replies import (
    SAID,
    TOKENS,
    as_chunk,
    count_found,
    is_failed,
    parts_in,
    reply_notes,
    request_outcome,
    said_text,
    take,
    texts_in,
    whole_reply,
)
from gapwatch.design.emission.recorded_values import MOST, held, quiet, told, written
from gapwatch.design.emission.sent_chunks import gives_async, sent_on

_KINDS = {"llm": "LLM", "embedding": "EMBEDDING", "retrieval": "RETRIEVER", "rerank": "RERANKER", "tool": "TOOL"}
_KINDS |= {"agent": "AGENT", "guardrail": "GUARDRAIL", "parse": "PARSER"}
_HELD, _PIECES, _REST = "span_recording.held", "span_recording.pieces", "span_recording.rest"
#: Tokens by the chunks of streams.
_STREAMED = "span_recording.streamed"
_tracer = trace.get_tracer("span_recording")


def recorded(name: str, component: str = "", kind: str = "chain", is_there: bool = False, **start: Any) -> Any:
    """Return a decorator that records the calls of a function, a coroutine or a generator.

    `name`, `component` and `kind` are those of the span; `is_there` says that another decorator makes it, so that only
    notes are added to it; `start` has the values of notes before any line says another.
    """

    def decorate(function: Any) -> Any:
        if not inspect.isroutine(function):
            return function  # What a framework made of it stays what it is, such as a task of a queue.
        if "is_around_attempts" in start:
            tell_given_up(function)

        @quiet()
        def tell_input(span: Any, args: Any, kwargs: Any) -> None:
            given = inspect.signature(function).bind_partial(*args, **kwargs).arguments
            span.set_attribute("input.value", written({k: v for k, v in given.items() if k not in ("self", "cls")}))

        @quiet()
        def new_span(args: Any, kwargs: Any) -> Any:
            span = _tracer.start_span(name)
            span.set_attribute("openinference.span.kind", _KINDS.get(kind, "CHAIN"))
            span.set_attribute("gapwatch.component", component)
            tell_input(span, args, kwargs)
            return span

        def open_span(args: Any, kwargs: Any) -> Any:
            if is_there:
                return _Open(trace.get_current_span(), dict(start), False, kind)
            return _Open(new_span(args, kwargs) or trace.INVALID_SPAN, dict(start), True, kind)

        if inspect.isasyncgenfunction(function):
            opened = lambda *args, **kwargs: (open_span(args, kwargs), function(*args, **kwargs))  # noqa: E731
            return functools.wraps(function)(gives_async(opened))
        if inspect.isgeneratorfunction(function):

            @functools.wraps(function)
            def give(*args: Any, **kwargs: Any) -> Any:
                return (yield from sent_on(open_span(args, kwargs), function(*args, **kwargs)))

            return give
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def wait(*args: Any, **kwargs: Any) -> Any:
                call = open_span(args, kwargs)
                try:
                    with call:
                        result = await function(*args, **kwargs)
                except BaseException as error:
                    call.end(None, error)
                    raise
                return _ended(call, result)

            return wait

        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            call = open_span(args, kwargs)
            try:
                with call:
                    result = function(*args, **kwargs)
            except BaseException as error:
                call.end(None, error)
                raise
            return _ended(call, result)

        return run

    return decorate


def _ended(call: Any, result: Any) -> Any:
    """End the span, or let it end with the stream that the function hands on; return the result."""
    sent = _handed_on(call, result)
    if sent is None:
        # An object that is gone through later must stay of its class.
        call.is_handed_on = any(hasattr(type(result), name) for name in ("__aiter__", "__next__"))
        call.end(result, None)
    return result if sent is None else sent


@quiet()
def _handed_on(call: Any, result: Any) -> Any:
    """Return a result whose stream ends the span; None where it is no stream, or the span is not about it."""
    if not any(isinstance(value, str) and value == "of_response" for value in call.notes.values()):
        return None
    body = held(result, "body_iterator")  # Starlette's
    source = result if body is None else body
    is_async = inspect.isasyncgen(source) or (source is not result and hasattr(type(source), "__aiter__"))
    if not (is_async or inspect.isgenerator(source)):
        return None
    sent = gives_async(lambda: (call, aiter(source)))() if is_async else sent_on(call, source)
    if source is result:
        return sent
    result.body_iterator = sent
    return result


@quiet()
def note(name: str, value: Any, member: str | None = None) -> None:
    """Set a field of the span of the function that runs: to a value, or to what an object holds."""
    notes = context.get_value(NOTES)
    if member is not None:
        found = held(value, member)
        value = found if isinstance(found, str | bytes) else None
    if isinstance(notes, dict):
        notes[name] = value


@quiet()
def tell_given_up(function: Any) -> None:
    """Have the retries of tenacity note where a value stands in for a result in the end: a callback gives it."""
    retrying = held(function, "retry")
    callback = held(retrying, "retry_error_callback")
    if not callable(callback):
        return

    def give_up(*args: Any, **kwargs: Any) -> Any:
        note("retry_outcome", "exhausted")
        return callback(*args, **kwargs)

    async def give_up_async(*args: Any, **kwargs: Any) -> Any:
        return await give_up(*args, **kwargs)

    is_async = any(map(inspect.iscoroutinefunction, (callback, held(callback, "__call__"))))
    retrying.retry_error_callback = give_up_async if is_async else give_up


@quiet()
def count(name: str) -> None:
    """Add one to a field of the span of the function that runs."""
    notes = context.get_value(NOTES)
    if isinstance(notes, dict):
        notes[name] = notes.get(name, 0) + 1


@quiet()
def ends(how: str | None) -> None:
    """Set how the innermost agent that runs ends."""
    notes = context.get_value(NOTES)
    while isinstance(notes, dict) and "agent_exit" not in notes:
        notes = notes.get(NOTES)
    if isinstance(notes, dict):
        notes["agent_exit"] = how


def reply(value: Any) -> Any:
    """Note model, tokens and finish reason of a model's reply for the span of the function that runs; return the reply.

    One that is read later, such as a response of HTTP or the helper of a stream, is noted at the end of the function.
    """
    _note_reply(context.get_value(NOTES), value)
    return value


@quiet()
def _note_reply(notes: Any, value: Any) -> None:
    if isinstance(notes, dict) and not take(notes, value) and not isinstance(value, str | bytes | None):
        notes.setdefault(_HELD, []).append(value)


def piece(chunk: Any) -> None:
    """Note what one chunk of a model's streamed reply says, as `reply` does of a whole one, and add its text.

    The lines of a body are chunks by their JSON.
    """
    _add_piece(context.get_value(NOTES), chunk)


@quiet()
def _add_piece(notes: Any, chunk: Any) -> None:
    if isinstance(chunk, str | bytes) and isinstance(notes, dict):
        parts, notes[_REST] = parts_in(chunk, notes.get(_REST, ""))
        for part in parts:
            _add_piece(notes, part)
        return
    if isinstance(notes, dict):
        whole, delta = (
            held(chunk, "response"),
            held(chunk, "delta"),
        )  # an event of OpenAI's responses; Anthropic's
        found = {**reply_notes(held(chunk, "message")), **reply_notes(whole), **reply_notes(chunk)}
        if isinstance(reason := held(delta, "stop_reason"), str):
            found["gen_ai.response.finish_reasons"] = [reason]
        streamed = notes.setdefault(_STREAMED, {})
        for key, value in found.items():
            if key in TOKENS:  # Some providers give those so far with each chunk, others with the last one.
                streamed[key] = max(value, streamed.get(key, 0))
            else:
                notes[key] = value
        choices = held(chunk, "choices")
        delta = held(choices[0], "delta") if choices else chunk if delta is None else delta
        text = said_text(delta) or held(delta, "text")
        if isinstance(delta, str):
            text = delta if held(chunk, "type") in (None, "response.output_text.delta") else None
        said = notes.get(SAID) or ""
        notes[SAID], notes[_PIECES] = (said + text)[:MOST] if isinstance(text, str) else said, True
        if found and isinstance(held(whole, "output"), list):
            notes[SAID] = said_text(whole) or notes[SAID]


def noted_chunks(source: Any) -> Any:
    """Give the chunks of a streamed reply, each after it is noted."""
    for chunk in chunks(source):
        piece(chunk)
        yield chunk


class _Open:
    """A span that is under way; as a context manager it is the current one."""

    def __init__(self, span: Any, notes: dict[str, Any], is_own: bool, kind: str) -> None:
        self.span, self.notes, self.is_own, self.is_model = span, notes, is_own, kind == "llm"
        self.started, self.first, self.token = time.monotonic(), None, None
        self.is_handed_on, self.notes[IS_MODEL], self.is_passing_on = False, self.is_model, None
        self.chunks, self.said, self.events = [], [], []  # type: ignore[var-annotated]
        self.room, self.reply_said = 10 * MOST, None
        # Those around it are older, so that no notes are around themselves.
        self.notes[NOTES] = context.get_value(NOTES)

    def __enter__(self) -> None:
        inner = trace.set_span_in_context(self.span)
        self.token = context.attach(context.set_value(NOTES, self.notes, inner))  # type: ignore[assignment]

    def __exit__(self, *error: object) -> None:
        context.detach(self.token)  # type: ignore[arg-type]

    @quiet()
    def add(self, chunk: Any) -> None:
        if self.first is None:
            self.first = time.monotonic() - self.started  # type: ignore[assignment]
            self.is_passing_on = self.is_model and not self.notes.get(_PIECES)  # type: ignore[assignment]
        if self.is_passing_on and (passed := as_chunk(chunk)) is not None:
            _add_piece(self.notes, passed)
        if self.room <= 0:
            return
        if isinstance(chunk, str | bytes):
            kept, said = self.chunks, chunk[: self.room]
            said = said.decode("utf-8", "replace") if isinstance(said, bytes) else said
        else:
            said = "\n".join(dict.fromkeys(texts_in(chunk)))
            kept, said = (self.said, said[: self.room]) if said else (self.events, written(chunk))
        self.room -= len(said) + 1
        kept.append(said)

    def _given(self) -> str | None:
        """Return the text of what a generator gave; one text among objects is an id, or the name of an event."""
        if self.said and len(self.chunks) < 2:
            return "".join(self.said)
        return "".join(self.chunks) or (None if not self.events else "\n".join(self.events))

    def _end_agent(self, result: Any, error: BaseException | None) -> None:
        """Say how a run ended where no line said it: by its default, which is that of runs with a step."""
        notes = self.notes
        end, told_by = notes.pop("agent_end", None), notes.pop("agent_limit", "")
        steps = notes.pop("agent_began", 1)
        if end is None or notes["agent_exit"] is not None:
            return
        told = ((written(result) if result is not None else self._given()) or "") if error is None and told_by else ""
        told = told if error is None else type(error).__name__
        how = "error" if isinstance(error, Exception) else end if error is None and steps else None
        notes["agent_exit"] = "limit" if any(text in told for text in told_by.split("\n") if text) else how

    def end(self, result: Any, error: BaseException | None) -> None:
        self._note_end(result, error)
        if not self.is_own:
            return
        self._tell_end(result, error)
        quiet()(self.span.end)()

    @quiet()
    def _note_end(self, result: Any, error: BaseException | None) -> None:
        span, notes = self.span, self.notes
        is_left = error is not None and not isinstance(error, Exception)
        streamed = notes.pop(_STREAMED, {})
        for later in notes.pop(_HELD, ()):
            whole = whole_reply(later)
            take(notes, whole)
            told_by_whole = reply_notes(whole)  # The helper of a stream counts its chunks itself.
            streamed = {key: tokens for key, tokens in streamed.items() if key not in told_by_whole}
        for key, tokens in streamed.items():
            notes[key] = notes.get(key, 0) + tokens
        self._end_agent(result, error)
        if notes.pop("is_tool", 0) and is_failed(error):
            notes["tool_errors"] = notes["tool_errors"] or 1
        for key, value in reply_notes(result).items():
            notes.setdefault(key, value)
        refusals = notes.pop("request_refusals", "")
        if notes.get("request_outcome") == "answered":
            notes["request_outcome"] = request_outcome(result, error, self.first is not None, refusals=refusals)
        if notes.pop("loop_left", 0):
            notes.pop("retry_outcome", None)
        is_unseen = notes.pop("has_unseen_stream", 0) or is_read_later(result)
        if notes.get("model_errors") == 0 and is_unseen:
            notes["model_errors"] = None  # What a stream will bring that is read elsewhere is not known.
        attempts = notes.pop("attempts", None)
        if attempts is not None:
            notes["retry_count"] = max(0, attempts - 1)
            if error is not None and notes.get("retry_outcome") != "exhausted":
                notes["retry_outcome"] = None if is_left else "exhausted"
            notes.setdefault("retry_outcome", "first_try" if attempts < 2 else "recovered")
        if notes.pop("is_around_attempts", 0):
            is_left = is_left or is_read_later(result)
            is_over = error is not None or notes.get("retry_outcome") == "exhausted"
            notes["retry_outcome"] = None if is_left else "exhausted" if is_over else "succeeded"
        if error is not None or notes.get("retrieved_count") == "of_result":
            notes["retrieved_count"] = count_found(result) if error is None and result is not None else None
        if "rows_written" in notes:
            notes["rows_written"] = result if type(result) is int else None
        said = notes.pop(SAID, None)
        if said is None and reply_notes(result):
            said = said_text(result)
        reason = notes.get("gen_ai.response.finish_reasons")
        is_of_tools = reason in (["tool_use"], ["tool_calls"], ["function_call"])
        if said is not None and not said.strip() and (is_of_tools or (notes.get(_PIECES) and reason is None)):
            said = None  # A call of a tool may come without a text, and a stream may be left before its first one.
        if "stream_outcome" in notes:
            came = "empty" if self.first is None or said == "" else "completed"
            is_none = self.is_handed_on or type(error).__name__ == "CancelledError"
            notes["stream_outcome"] = None if is_none else "aborted" if error else came
        notes.pop(_PIECES, None)
        if said is not None:
            tell_reply(notes, said)
        for name in ("model_held", "model_own", IS_MODEL, NOTES, SENT_LAST, _REST):
            notes.pop(name, None)
        if "first_chunk_seconds" in notes:
            notes["first_chunk_seconds"] = self.first
        self.reply_said = said
        for key, value in ((k, v) for k, v in notes.items() if v is not None):
            is_plain = isinstance(value, int | float) or (type(value) is list and all(type(v) is str for v in value))
            told = value if is_plain else written(value, 3 * MOST)
            span.set_attribute("gapwatch.tier" if key == "tier" else key, told)

    @quiet()
    def _tell_end(self, result: Any, error: BaseException | None) -> None:
        span, said = self.span, self.reply_said
        if error is None or (self.first is not None and not isinstance(error, Exception)):
            given = self._given() if self.chunks or self.said or not said or not self.is_model else None
            text = given if given is not None else said if self.is_model else None
            span.set_attribute("output.value", written(result if text is None or isinstance(result, str) else text))
        elif isinstance(error, Exception) and not any(c.__name__ == "GraphBubbleUp" for c in type(error).__mro__):
            span.set_attribute("error.type", type(error).__name__)
            span.set_status(trace.Status(trace.StatusCode.ERROR, told(error)[:300]))
            span.record_exception(error, error_texts(error))
