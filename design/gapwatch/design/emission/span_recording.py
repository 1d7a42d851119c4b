"""Records functions as spans of OpenTelemetry: inputs, outputs, errors, and what lines of a function note."""

from __future__ import annotations

import functools
import inspect
import json
import time
from typing import Any

from opentelemetry import context, trace

_KINDS = {"llm": "LLM", "embedding": "EMBEDDING", "retrieval": "RETRIEVER", "rerank": "RERANKER", "tool": "TOOL"}
_KINDS |= {"agent": "AGENT", "guardrail": "GUARDRAIL", "parse": "PARSER"}
_NOTES = "span_recording.notes"
_TOKENS = {
    "gen_ai.usage.input_tokens": ("prompt_tokens", "input_tokens", "prompt_token_count"),
    "gen_ai.usage.output_tokens": ("completion_tokens", "output_tokens", "candidates_token_count"),
}
_MOST = 20_000  # characters of an input or an output
_tracer = trace.get_tracer("span_recording")


def recorded(name: str, component: str = "", kind: str = "chain", is_there: bool = False, **start: Any) -> Any:
    """Return a decorator that records the calls of a function, a coroutine or a generator.

    Args:
        name: Name of the span.
        component: Step of the pipeline that it belongs to.
        kind: Kind of the step.
        is_there: Whether another decorator makes the span, so that only notes are added to it.
        start: Values of notes before any line says another.
    """

    def decorate(function: Any) -> Any:
        signature = inspect.signature(function)

        def open_span(args: Any, kwargs: Any) -> Any:
            if is_there:
                return _Open(trace.get_current_span(), dict(start), False)
            span = _tracer.start_span(name)
            span.set_attribute("openinference.span.kind", _KINDS.get(kind, "CHAIN"))
            span.set_attribute("gapwatch.component", component)
            given = signature.bind_partial(*args, **kwargs).arguments
            span.set_attribute("input.value", _text({k: v for k, v in given.items() if k not in ("self", "cls")}))
            return _Open(span, dict(start), True)

        if inspect.isasyncgenfunction(function):

            @functools.wraps(function)
            async def give_async(*args: Any, **kwargs: Any) -> Any:
                call = open_span(args, kwargs)
                source = function(*args, **kwargs)
                try:
                    while True:
                        with call:
                            try:
                                chunk = await anext(source)
                            except StopAsyncIteration:
                                break
                        call.add(chunk)
                        yield chunk
                except BaseException as error:
                    call.end(None, error)
                    raise
                finally:
                    await source.aclose()
                call.end(None, None)

            return give_async
        if inspect.isgeneratorfunction(function):

            @functools.wraps(function)
            def give(*args: Any, **kwargs: Any) -> Any:
                call = open_span(args, kwargs)
                source = function(*args, **kwargs)
                try:
                    while True:
                        with call:
                            try:
                                chunk = next(source)
                            except StopIteration as stop:
                                result = stop.value
                                break
                        call.add(chunk)
                        yield chunk
                except BaseException as error:
                    call.end(None, error)
                    raise
                finally:
                    source.close()
                call.end(None, None)
                return result

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
                call.end(result, None)
                return result

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
            call.end(result, None)
            return result

        return run

    return decorate


def note(name: str, value: Any) -> None:
    """Set a field of the span of the function that runs."""
    notes = context.get_value(_NOTES)
    if isinstance(notes, dict):
        notes[name] = value


def count(name: str) -> None:
    """Add one to a field of the span of the function that runs."""
    notes = context.get_value(_NOTES)
    if isinstance(notes, dict):
        notes[name] = notes.get(name, 0) + 1


def ends(how: str | None) -> None:
    """Set how the innermost agent that runs ends."""
    notes = context.get_value(_NOTES)
    while isinstance(notes, dict) and "agent_exit" not in notes:
        notes = notes.get(_NOTES)
    if isinstance(notes, dict):
        notes["agent_exit"] = how


def reply(value: Any) -> None:
    """Note model, tokens and finish reason of a model's reply for the span of the function that runs."""
    notes = context.get_value(_NOTES)
    if isinstance(notes, dict):
        for key, found in _reply(value).items():
            is_count = key in _TOKENS and isinstance(notes.get(key), int)
            notes[key] = notes[key] + found if is_count else found


class _Open:
    """A span that is under way; as a context manager it is the current one."""

    def __init__(self, span: Any, notes: dict[str, Any], is_own: bool) -> None:
        self.span, self.notes, self.is_own = span, notes, is_own
        self.started, self.first, self.chunks, self.token = time.monotonic(), None, [], None  # type: ignore[var-annotated]

    def __enter__(self) -> None:
        outer = context.get_value(_NOTES)
        if outer is not self.notes and isinstance(outer, dict):
            self.notes[_NOTES] = outer
        inner = trace.set_span_in_context(self.span)
        self.token = context.attach(context.set_value(_NOTES, self.notes, inner))  # type: ignore[assignment]

    def __exit__(self, *error: object) -> None:
        context.detach(self.token)  # type: ignore[arg-type]

    def add(self, chunk: Any) -> None:
        if self.first is None:
            self.first = time.monotonic() - self.started  # type: ignore[assignment]
        if isinstance(chunk, str) and len(self.chunks) < _MOST:
            self.chunks.append(chunk)

    def end(self, result: Any, error: BaseException | None) -> None:
        span, notes = self.span, self.notes
        notes.pop(_NOTES, None)
        end = notes.pop("agent_end", None)
        if end is not None and notes["agent_exit"] is None:
            notes["agent_exit"] = "error" if isinstance(error, Exception) else end
        for key, value in _reply(result).items():
            notes.setdefault(key, value)
        attempts = notes.pop("attempts", None)
        if attempts is not None:
            notes["retry_count"] = max(0, attempts - 1)
            if error is not None:
                notes["retry_outcome"] = "exhausted"
            notes.setdefault("retry_outcome", "first_try" if attempts < 2 else "recovered")
        if "retrieved_count" in notes:
            notes["retrieved_count"] = len(result) if isinstance(result, list | tuple) else None
        if "rows_written" in notes:
            notes["rows_written"] = result if type(result) is int else None
        if "stream_outcome" in notes:
            notes["stream_outcome"] = "aborted" if error else "empty" if self.first is None else "completed"
        if "first_chunk_seconds" in notes:
            notes["first_chunk_seconds"] = self.first
        for key, value in notes.items():
            if value is not None:
                span.set_attribute("gapwatch.tier" if key == "tier" else key, value)
        if not self.is_own:
            return
        if error is None:
            span.set_attribute("output.value", "".join(self.chunks) if self.chunks else _text(result))
        elif isinstance(error, Exception):
            span.record_exception(error)
            span.set_attribute("error.type", type(error).__name__)
            span.set_status(trace.Status(trace.StatusCode.ERROR, str(error)[:300]))
        span.end()


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value[:_MOST]
    try:
        return json.dumps(value, ensure_ascii=False, default=str)[:_MOST]
    except (TypeError, ValueError):
        return f"<{type(value).__name__}>"


def _reply(value: Any) -> dict[str, Any]:
    """Return model, tokens and finish reason of a model's reply, as attributes; nothing of other values."""
    usage = getattr(value, "usage", None) or getattr(value, "usage_metadata", None) or {}
    metadata = getattr(value, "response_metadata", None) or {}  # LangChain
    found: dict[str, Any] = {}

    def read(name: str) -> Any:
        return usage.get(name) if isinstance(usage, dict) else getattr(usage, name, None)

    for key, names in _TOKENS.items():
        count_of = next((read(name) for name in names if isinstance(read(name), int)), None)
        if count_of is not None:
            found[key] = count_of
    choices = getattr(value, "choices", None)
    reason = getattr(choices[0], "finish_reason", None) if choices else getattr(value, "stop_reason", None)
    reason = metadata.get("finish_reason", reason) if isinstance(metadata, dict) else reason
    model = metadata.get("model_name") if isinstance(metadata, dict) else None
    model = model or getattr(value, "model", None)
    if not found and not reason:
        return {}
    if isinstance(reason, str):
        found["gen_ai.response.finish_reasons"] = [reason]
    if isinstance(model, str):
        found["gen_ai.response.model"] = model
    return found
