"""Records functions as spans of OpenTelemetry: inputs, outputs, errors, and what lines of a function note."""

from __future__ import annotations

import functools
import inspect
import json
import time
from types import SimpleNamespace
from typing import Any

from opentelemetry import context, trace

_KINDS = {"llm": "LLM", "embedding": "EMBEDDING", "retrieval": "RETRIEVER", "rerank": "RERANKER", "tool": "TOOL"}
_KINDS |= {"agent": "AGENT", "guardrail": "GUARDRAIL", "parse": "PARSER"}
_NOTES, _SAID, _HELD = "span_recording.notes", "span_recording.said", "span_recording.held"
_TOKENS = {
    "gen_ai.usage.input_tokens": ("prompt_tokens", "input_tokens", "prompt_token_count"),
    "gen_ai.usage.output_tokens": ("completion_tokens", "output_tokens", "candidates_token_count"),
}
_MOST = 20_000  # characters of an input or an output
_SENT = ("system", "instructions", "messages", "prompt", "input", "contents")
_tracer = trace.get_tracer("span_recording")


def recorded(name: str, component: str = "", kind: str = "chain", is_there: bool = False, **start: Any) -> Any:
    """Return a decorator that records the calls of a function, a coroutine or a generator.

    `name`, `component` and `kind` are those of the span; `is_there` says that another decorator makes it, so that only
    notes are added to it; `start` has the values of notes before any line says another.
    """

    def decorate(function: Any) -> Any:
        signature = inspect.signature(function)

        def open_span(args: Any, kwargs: Any) -> Any:
            if is_there:
                return _Open(trace.get_current_span(), dict(start), False, kind)
            span = _tracer.start_span(name)
            span.set_attribute("openinference.span.kind", _KINDS.get(kind, "CHAIN"))
            span.set_attribute("gapwatch.component", component)
            given = signature.bind_partial(*args, **kwargs).arguments
            span.set_attribute("input.value", _text({k: v for k, v in given.items() if k not in ("self", "cls")}))
            return _Open(span, dict(start), True, kind)

        if inspect.isasyncgenfunction(function):

            @functools.wraps(function)
            async def give_async(*args: Any, **kwargs: Any) -> Any:
                sent = _sent_async(open_span(args, kwargs), function(*args, **kwargs))
                try:
                    async for chunk in sent:
                        yield chunk
                finally:
                    await sent.aclose()

            return give_async
        if inspect.isgeneratorfunction(function):

            @functools.wraps(function)
            def give(*args: Any, **kwargs: Any) -> Any:
                return (yield from _sent(open_span(args, kwargs), function(*args, **kwargs)))

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


async def _sent_async(call: Any, source: Any) -> Any:
    """Give the chunks of an asynchronous generator; the span ends with it."""
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


def _sent(call: Any, source: Any) -> Any:
    """Give the chunks of a generator; the span ends with it."""
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


def _ended(call: Any, result: Any) -> Any:
    """End the span, or let it end with the stream that the function hands on; return the result."""
    source = getattr(result, "body_iterator", result)  # Starlette's, or a generator
    is_async = inspect.isasyncgen(source)
    if "of_response" not in call.notes.values() or not (is_async or inspect.isgenerator(source)):
        call.end(result, None)
        return result
    sent = _sent_async(call, source) if is_async else _sent(call, source)
    if source is result:
        return sent
    result.body_iterator = sent
    return result


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


def reply(value: Any) -> Any:
    """Note model, tokens and finish reason of a model's reply for the span of the function that runs; return the reply.

    One that is read later, such as a response of HTTP or the helper of a stream, is noted at the end of the function.
    """
    notes = context.get_value(_NOTES)
    is_text = isinstance(value, str | bytes | None)
    if isinstance(notes, dict) and not _take(notes, value) and not is_text:
        notes.setdefault(_HELD, []).append(value)
    return value


def asked(function: Any) -> Any:
    """Return a function of a model's client that notes what the model is sent, for each span around that tells it."""

    def ask(*args: Any, **kwargs: Any) -> Any:
        sent = [*args, *(value for name, value in kwargs.items() if name in _SENT)]
        _tell(context.get_value(_NOTES), "model_prompt", _text(sent, 3 * _MOST))
        return function(*args, **kwargs)

    return ask


def _tell(notes: Any, name: str, value: Any) -> None:
    while isinstance(notes, dict):
        if name in notes:
            notes[name] = value
        notes = notes.get(_NOTES)


def piece(chunk: Any) -> None:
    """Note what one chunk of a model's streamed reply says, as `reply` does of a whole one, and add its text."""
    notes = context.get_value(_NOTES)
    if isinstance(notes, dict):
        whole, delta = _get(chunk, "response"), _get(chunk, "delta")  # an event of OpenAI's responses; Anthropic's
        found = {**_reply(_get(chunk, "message")), **_reply(whole), **_reply(chunk)}
        if isinstance(reason := _get(delta, "stop_reason"), str):
            found["gen_ai.response.finish_reasons"] = [reason]
        for key, value in found.items():
            # Some providers give the tokens so far with each chunk, others with the last one.
            notes[key] = max(value, notes.get(key, 0)) if key in _TOKENS else value
        choices = _get(chunk, "choices")
        delta = _get(choices[0], "delta") if choices else delta or chunk
        text = _said(delta) or _get(delta, "text")
        if isinstance(delta, str):
            text = delta if _get(chunk, "type") == "response.output_text.delta" else None
        said = notes.get(_SAID) or ""
        notes[_SAID] = (said + text)[:_MOST] if isinstance(text, str) else said
        if found and isinstance(_get(whole, "output"), list):
            notes[_SAID] = _said(whole) or notes[_SAID]


def noted_chunks(chunks: Any) -> Any:
    """Give the chunks of a streamed reply, each after it is noted."""
    for chunk in chunks:
        piece(chunk)
        yield chunk


class _Open:
    """A span that is under way; as a context manager it is the current one."""

    def __init__(self, span: Any, notes: dict[str, Any], is_own: bool, kind: str) -> None:
        self.span, self.notes, self.is_own, self.is_model = span, notes, is_own, kind == "llm"
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
        if isinstance(chunk, str | bytes) and len(self.chunks) < _MOST:
            self.chunks.append(chunk.decode("utf-8", "replace") if isinstance(chunk, bytes) else chunk)

    def end(self, result: Any, error: BaseException | None) -> None:
        span, notes = self.span, self.notes
        for held in notes.pop(_HELD, ()):
            _take(notes, _whole(held))
        end, told_by = notes.pop("agent_end", None), notes.pop("agent_limit", "")
        if end is not None and notes["agent_exit"] is None:
            how = "error" if isinstance(error, Exception) else end
            told = (_text(result) or "") if error is None and told_by else type(error).__name__
            notes["agent_exit"] = "limit" if any(text in told for text in told_by.split("\n") if text) else how
        for key, value in _reply(result).items():
            notes.setdefault(key, value)
        if notes.get("request_outcome") == "answered":
            status = getattr(result if error is None else error, "status_code", 200 if error is None else 500)
            is_said = isinstance(status, int) and status >= 400 and isinstance(error, (Exception, type(None)))
            notes["request_outcome"] = ("failed" if status >= 500 else "refused") if is_said else "answered"
        if notes.pop("loop_left", 0):
            notes.pop("retry_outcome", None)
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
        said = notes.pop(_SAID, None)
        if said is None and _reply(result):
            said = _said(result)
        if said is not None:
            _tell(notes, "model_reply", said)
        notes.pop(_NOTES, None)
        if "first_chunk_seconds" in notes:
            notes["first_chunk_seconds"] = self.first
        for key, value in ((k, v) for k, v in notes.items() if v is not None):
            span.set_attribute("gapwatch.tier" if key == "tier" else key, value)
        if not self.is_own:
            return
        if error is None:
            text = "".join(self.chunks) if self.chunks else said if self.is_model else None
            span.set_attribute("output.value", _text(result if text is None or isinstance(result, str) else text))
        elif isinstance(error, Exception) and not any(c.__name__ == "GraphBubbleUp" for c in type(error).__mro__):
            span.record_exception(error)
            span.set_attribute("error.type", type(error).__name__)
            span.set_status(trace.Status(trace.StatusCode.ERROR, str(error)[:300]))
        span.end()


def _text(value: Any, most: int = _MOST) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value[:most]
    try:
        return json.dumps(value, ensure_ascii=False, default=str)[:most]
    except (TypeError, ValueError):
        return f"<{type(value).__name__}>"


def _get(value: Any, name: str) -> Any:
    try:
        return getattr(value, name, None)
    except Exception:
        return None


def _take(notes: dict[str, Any], value: Any) -> bool:
    """Add what a reply says to the notes; return whether it is one."""
    found = _reply(value)
    for key, said in found.items():
        is_count = key in _TOKENS and isinstance(notes.get(key), int)
        notes[key] = notes[key] + said if is_count else said
    if found or _get(value, "choices"):
        notes[_SAID] = _said(value)
    return bool(found)


def _whole(value: Any) -> Any:
    """Return the reply that an HTTP response or the helper of a stream holds by now; None without one."""
    body = _get(_get(value, "http_response"), "_content")  # `content` raises before it is read
    if isinstance(body, bytes):
        try:
            return json.loads(body, object_hook=lambda members: SimpleNamespace(**members))
        except (ValueError, RecursionError):
            return None
    state = _get(value, "_state")
    snapshots = (_get(value, "current_message_snapshot"), _get(value, "current_completion_snapshot"))
    return next((s for s in (*snapshots, _get(state, "_completed_response")) if s is not None), None)


def _reply(value: Any) -> dict[str, Any]:
    """Return model, tokens and finish reason of a model's reply, as attributes; nothing of other values."""
    usage = _get(value, "usage") or _get(value, "usage_metadata") or {}
    metadata = _get(value, "response_metadata") or {}  # LangChain
    found: dict[str, Any] = {}
    read = usage.get if isinstance(usage, dict) else functools.partial(_get, usage)
    for key, names in _TOKENS.items():
        count_of = next((read(name) for name in names if isinstance(read(name), int)), None)
        if count_of is not None:
            found[key] = count_of
    choices, output, status = _get(value, "choices"), _get(value, "output"), _get(value, "status")
    reason = _get(choices[0], "finish_reason") if choices else _get(value, "stop_reason")
    if isinstance(output, list) and status in ("completed", "incomplete"):  # OpenAI's responses
        is_called = any(_get(item, "type") == "function_call" for item in output)
        reason = "length" if status == "incomplete" else "tool_calls" if is_called else "stop"
    reason = metadata.get("finish_reason", reason) if isinstance(metadata, dict) else reason
    model = (metadata.get("model_name") if isinstance(metadata, dict) else None) or _get(value, "model")
    if not found and not reason:
        return {}
    if isinstance(reason, str):
        found["gen_ai.response.finish_reasons"] = [reason]
    if isinstance(model, str):
        found["gen_ai.response.model"] = model
    cost = read("cost") or (h.get("response_cost") if isinstance(h := _get(value, "_hidden_params"), dict) else None)
    if isinstance(cost, int | float) and cost > 0:
        found["gen_ai.usage.cost"] = float(cost)
    return found


def _said(value: Any) -> str | None:
    """Return the text of a model's reply, or JSON of the calls of tools that it is; None for other values."""
    choices, output = _get(value, "choices"), _get(value, "output")
    message = _get(choices[0], "message") if choices else value
    content, calls = _get(message, "content"), _get(message, "tool_calls")
    if isinstance(output, list):  # OpenAI's responses
        content = [part for item in output for part in _get(item, "content") or ()]
        calls = [item for item in output if _get(item, "type") == "function_call"]
    if isinstance(content, list):
        calls = calls or [p for p in content if _get(p, "type") == "tool_use"]
        content = "".join(p.get("text", "") if isinstance(p, dict) else _get(p, "text") or "" for p in content)
    if not content and calls:
        return _text([_call(c) for c in calls])
    content = content or (_get(choices[0], "text") if choices else None)
    return content if isinstance(content, str) else "" if choices or calls is not None else None


def _call(call: Any) -> Any:
    function = _get(call, "function") or call
    if isinstance(function, dict):
        return function
    given = _get(function, "arguments") or _get(function, "input")
    given = given if isinstance(given, str) else _get(given, "__dict__") or given
    return {"name": _get(function, "name"), "arguments": given}
