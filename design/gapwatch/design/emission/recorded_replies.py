"""Reads the replies of models for `span_recording`, of whose text this module becomes a part in a patched program."""

from __future__ import annotations

import functools
import json
import re
import sys
from types import SimpleNamespace
from typing import Any

from gapwatch.design.emission.recorded_values import MOST, held, quiet, written

TOKENS = {
    "gen_ai.usage.input_tokens": (
        *("prompt_tokens", "input_tokens", "prompt_token_count", "prompt_eval_count", "request_tokens", "inputTokens"),
        "promptTokenCount",
    ),
    "gen_ai.usage.output_tokens": (
        *(
            "completion_tokens",
            "output_tokens",
            "candidates_token_count",
            "eval_count",
            "response_tokens",
            "outputTokens",
            "candidatesTokenCount",
        ),
    ),
}
#: Names of exceptions by which a graph waits, an agent says that it is done, or another one takes over.
_GOES_ON = re.compile(
    r"Bubble|Interrupt|Submitted|Finish|Complete|Terminat|Stop|Hand_?[Oo]ff|Deferred|Approval|Control"
)
SAID = "span_recording.said"
SENT = (
    "system",
    "instructions",
    "systemInstruction",
    "messages",
    "prompt",
    "input",
    "contents",
    "chat_history",
    "user_msg",
)


@quiet(bool)
def take(notes: dict[str, Any], value: Any) -> bool:
    """Add what a reply says to the notes; return whether it is one."""
    found = reply_notes(value)
    for key, said in found.items():
        is_count = key in TOKENS and isinstance(notes.get(key), int)
        notes[key] = notes[key] + said if is_count else said
    if found or held(value, "choices"):
        notes[SAID] = said_text(value)
    return bool(found)


def json_objects(text: Any) -> Any:
    """Return JSON with objects as namespaces; None for other texts."""
    try:
        return json.loads(text, object_hook=lambda members: SimpleNamespace(**members))
    except (ValueError, RecursionError):
        return None


@quiet(([], ""))
def parts_in(piece: Any, before: str = "") -> tuple[list[Any], str]:
    """Return the parts of a streamed reply in some lines of a body, `data: {...}` or JSON alone, and what ends later.

    Args:
        piece: A line, or a piece of the body that may end inside of one.
        before: What the piece before it left.
    """
    text = before + (piece.decode("utf-8", "replace") if isinstance(piece, bytes) else piece)
    parts: list[Any] = []
    for line in text.splitlines():
        said = line.strip().removeprefix("data:").strip()
        if said.startswith("{") and (part := json_objects(said)) is not None:
            parts.append(part)
    last = text.splitlines()[-1] if text.strip() and text[-1:] != "\n" else ""
    said = last.strip().removeprefix("data:").strip()
    is_begun = (said.startswith("{") and json_objects(said) is None) or "data: ".startswith(last or "-")
    return parts, last if is_begun and len(last) <= MOST else ""


@quiet()
def as_chunk(value: Any) -> Any:
    """Return a chunk of a streamed reply that a generator passes on, as an object; None for other values."""
    if isinstance(value, dict):
        return json_objects(json.dumps(value, default=str)) if isinstance(value.get("choices"), list) else None
    return value if isinstance(held(value, "choices"), list) else None


def sent_in(args: Any, kwargs: Any) -> Any:
    """Return what a model is sent: named arguments of its client, or members of the body of a request of HTTP."""
    body = kwargs.get("json", kwargs.get("data"))
    body = json_plain(body) if isinstance(body, str | bytes) else body
    if isinstance(body, dict) and (found := {name: body[name] for name in SENT if name in body}):
        return next(iter(found.values())) if len(found) == 1 else found
    return [*args, *(value for name, value in kwargs.items() if name in SENT)]


def json_plain(text: Any) -> Any:
    """Return JSON; None for other texts."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


@quiet()
def whole_reply(value: Any) -> Any:
    """Return the reply that an HTTP response or the helper of a stream holds by now; None without one."""
    response = held(value, "http_response") or value
    bodies = (held(response, "_content"), held(response, "_body"))  # `content` raises before it is read
    body = next((b for b in bodies if isinstance(b, bytes)), None)
    if body is not None:
        return json_objects(body)
    if isinstance(held(value, "raw_responses"), list):  # a run that was streamed
        return value
    state = held(value, "_state")
    snapshots = (held(value, "current_message_snapshot"), held(value, "current_completion_snapshot"))
    return next((s for s in (*snapshots, held(state, "_completed_response")) if s is not None), None)


@quiet(dict)
def reply_notes(value: Any) -> dict[str, Any]:
    """Return model, tokens and finish reason of a model's reply, as attributes; nothing of other values."""
    raw = held(value, "raw") or (value.get("raw") if isinstance(value, dict) else None)
    if raw is not None and (of_raw := reply_notes(raw)):  # LlamaIndex, and LangChain's `include_raw`
        return of_raw
    if of_run := _run_notes(value):
        return of_run
    get = value.get if isinstance(value, dict) else functools.partial(held, value)
    metadata = get("response_metadata") or {}  # LangChain
    usage = get("usage") or get("usage_metadata") or get("usageMetadata") or {}
    if not usage and isinstance(metadata, dict):
        usage = metadata.get("token_usage") or {}
    if not usage and get("eval_count") is not None:
        usage = value  # Ollama
    found: dict[str, Any] = {}

    def read(name: str) -> Any:
        return usage.get(name) if isinstance(usage, dict) else held(usage, name)

    for key, names in TOKENS.items():
        count_of = next((read(name) for name in names if isinstance(read(name), int)), None)
        if count_of is not None:
            found[key] = count_of
    choices, output, status = get("choices"), get("output"), get("status")
    reason = (
        _member(choices[0], "finish_reason")
        if choices
        else get("stop_reason") or get("done_reason") or get("stopReason")
    )
    if reason is None and not choices:
        reason = get("finish_reason")
    if reason is None and isinstance(candidates := get("candidates"), list) and candidates:  # Google
        reason = _member(candidates[0], "finish_reason") or _member(candidates[0], "finishReason")
        reason = str(held(reason, "value") or reason) if reason else None
    if isinstance(output, list) and status in ("completed", "incomplete"):  # OpenAI's responses
        is_called = any(held(item, "type") == "function_call" for item in output)
        reason = "length" if status == "incomplete" else "tool_calls" if is_called else "stop"
    if isinstance(metadata, dict):
        reasons = (metadata.get(name) for name in ("finish_reason", "stop_reason", "done_reason"))
        reason = next((r for r in reasons if isinstance(r, str)), reason)
    model = (metadata.get("model_name") or metadata.get("model")) if isinstance(metadata, dict) else None
    model = model or get("model") or get("model_name") or get("model_version") or get("modelVersion")
    if not found and not reason:
        return {}
    if isinstance(reason, str):
        found["gen_ai.response.finish_reasons"] = [reason.lower()]
    if isinstance(model, str):
        found["gen_ai.response.model"] = model
    hidden = held(value, "_hidden_params")
    cost = read("cost") or (hidden.get("response_cost") if isinstance(hidden, dict) else None)
    if isinstance(cost, int | float) and cost > 0:
        found["gen_ai.usage.cost"] = float(cost)
    return found


def _member(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else held(value, name)


def _run_notes(value: Any) -> dict[str, Any]:
    """Return what a run of an agent says of all its replies: OpenAI's agents, Pydantic AI, DSPy, Strands."""
    replies, reason = held(value, "raw_responses"), None
    if isinstance(replies, list):
        counts = [held(reply, "usage") for reply in replies]
    elif isinstance(usages := held(value, "_lm_usage"), dict):
        counts = list(usages.values())
    elif isinstance(usage := held(held(value, "metrics"), "accumulated_usage"), dict):  # Strands
        counts, reason = [usage], held(value, "stop_reason")
    elif (state := held(value, "_state")) is not None and isinstance(held(state, "message_history"), list):
        counts = [held(state, "usage")]
        reasons = [r for m in held(state, "message_history") if isinstance(r := held(m, "finish_reason"), str)]
        reason = reasons[-1] if reasons else None
    else:
        return {}
    found: dict[str, Any] = {"gen_ai.response.finish_reasons": [reason]} if reason else {}
    for key, names in TOKENS.items():
        said = [c for one in counts for name in names if type(c := _member(one, name)) is int]
        if said:
            found[key] = sum(said)
    return found


@quiet()
def said_text(value: Any) -> str | None:
    """Return the text of a model's reply, or JSON of the calls of tools that it is; None for other values."""
    final = held(value, "final_output") if isinstance(held(value, "raw_responses"), list) else None
    final = held(value, "output") if held(held(value, "_state"), "message_history") else final
    final = held(value, "_store") if isinstance(held(value, "_lm_usage"), dict) else final
    if final is not None:
        return written(final)
    if isinstance(value, dict) and "choices" not in value:
        value = SimpleNamespace(**{str(name): inside for name, inside in value.items()})
    choices, output = held(value, "choices"), held(value, "output")
    message = held(choices[0], "message") if choices else value
    if not choices and _member(held(value, "message"), "content") is not None:  # Ollama
        message = held(value, "message")
    elif not choices and isinstance(held(value, "done"), bool) and isinstance(held(value, "response"), str):
        message = {"content": held(value, "response")}  # Ollama, asked to complete a prompt
    if isinstance(candidates := held(value, "candidates"), list):  # Google
        message = held(candidates[0], "content") if candidates else None
        message = {"content": _member(message, "parts") or ""}
    if held(value, "stopReason"):  # Bedrock
        message = _member(output, "message")
    content, extra = _member(message, "content"), _member(message, "additional_kwargs")
    content = _member(message, "refusal") if content is None else content
    calls = _member(message, "tool_calls") or _member(extra, "tool_calls")
    if not calls and (before := _member(message, "function_call") or _member(extra, "function_call")):
        calls = [before]  # OpenAI before its tools
    if isinstance(output, list):  # OpenAI's responses
        content = [part for item in output for part in held(item, "content") or ()]
        calls = [item for item in output if str(held(item, "type")).endswith("_call")]
    if isinstance(content, list):
        texts = [p if isinstance(p, str) else _member(p, "text") for p in content]
        beside = [p for p, text in zip(content, texts) if text is None and not _is_thought(p)]  # noqa: B905
        calls, content = calls or beside, "".join(filter(None, texts))
    if not str(content or "").strip() and calls:
        return written([called(c) for c in calls])
    content = content or (held(choices[0], "text") if choices else None)
    return content if isinstance(content, str) else "" if choices or calls is not None else None


def _is_thought(part: Any) -> bool:
    kind = str(_member(part, "type"))
    return "thinking" in kind or "reasoning" in kind or _member(part, "reasoningContent") is not None


@quiet()
def called(call: Any) -> Any:
    """Return name and arguments of a call of a tool."""
    function = held(call, "function") or call
    if isinstance(function, dict):
        return function
    given = held(function, "arguments") or held(function, "input")
    return {
        "name": held(function, "name"),
        "arguments": given if isinstance(given, str) else held(given, "__dict__") or given,
    }


def texts_in(value: Any, levels: int = 6) -> Any:
    """Yield the texts of an event, a component or a message; not those of who asks, nor arguments of tools."""
    if isinstance(value, list | tuple):
        for inside in value[:100] if levels else ():
            yield from texts_in(inside, levels - 1)
        return
    members = value if isinstance(value, dict) else held(value, "__dict__")
    if not isinstance(members, dict) or not levels:
        return
    kinds = [str(members.get(name)) for name in ("role", "type")]
    if {"human", "user", "system", "tool", "function"} & {*kinds} or any(
        w in kinds[1] for w in ("function_call", "tool_use", "input_json")
    ):
        return
    names = ("content", "text", "delta", "page_content", "output_text", "answer", "response", "data")
    texts = [members[name] for name in names if isinstance(members.get(name), str) and members[name]]
    if texts:
        yield texts[0]
        return
    for name, inside in members.items():
        if not str(name).startswith("_"):
            yield from texts_in(inside, levels - 1)


#: Exceptions of libraries that fail nothing: the user left, or the job is put off; the run waits for a person, or ends.
_LEAVES = {"WebSocketDisconnect", "ClientDisconnect", "Abort", "Retry", "Ignore"}
_ENDS_WELL = {"GraphBubbleUp", "Exit", "ScriptControlException"}
#: Those that say of a request that it is at fault.
_REFUSES = {"UsageError", "RequestValidationError", "WebSocketRequestValidationError", "Http404"}
#: Libraries whose exceptions answer a request; those of a client say what another server answered.
_SERVERS = {
    *("starlette", "fastapi", "werkzeug", "quart", "sanic", "aiohttp.web_exceptions", "tornado.web", "falcon"),
    *("bottle", "rest_framework", "ninja", "django", "litestar", "chalice", "click", "typer", "celery", "langgraph"),
    "streamlit",
}


@quiet()
def request_outcome(
    result: Any, error: BaseException | None, has_begun: bool, read: Any = held, refusals: str = ""
) -> str | None:
    """Return what became of a request: `answered`, `refused` for a fault of its own, or `failed`; None if it was left.

    Args:
        result: What the function gave; a response may come with its status: `return body, 500`.
        error: What left it; the status that an exception of a client has is that of another's answer.
        has_begun: Whether a part of the answer was sent.
        read: Reads a member of the error.
        refusals: Names of exceptions that the program answers with a status of 400 to 499, with spaces between.
    """
    if error is None:
        given = result[1] if isinstance(result, tuple) and len(result) > 1 else 200
        status = held(result, "status_code")
        status = given if status is None else status
        status = status if type(status) is int else 200
    else:
        kinds = type(error).__mro__
        names = {c.__name__ for c in kinds if any(f"{c.__module__}.".startswith(f"{s}.") for s in _SERVERS)}
        is_over = isinstance(error, SystemExit) and not error.code
        if is_over or (names & _ENDS_WELL and not read(error, "exit_code")):
            return "answered"
        if not isinstance(error, Exception) or names & _LEAVES:
            return "answered" if has_begun else None
        if not {c.__name__ for c in kinds}.isdisjoint(refusals.split()):
            return "refused"
        status = 400 if names & _REFUSES else 500
        if names or not any(map(_is_of_library, kinds)):
            said = [read(error, "status_code"), *(getattr(type(error), n, None) for n in ("status_code", "code"))]
            status = next((n for n in said if type(n) is int and n >= 300), status)
        # What is raised because another service refused, or was too busy, is no fault of the request.
        others = [e for e in (error, error.__context__) for n in ("response", "request") if read(e, n) is not None]
        if others or (status in (408, 429) and error.__context__ is not None):
            status = 500
    if status < 400:
        return "answered"
    return "failed" if status >= 500 else "refused"


def is_failed(error: BaseException | None) -> bool:
    """Return whether an exception says that the function it left failed, and not that a run waits, ends or goes on.

    Args:
        error: What left it; None where it returned.
    """
    names = [c.__name__ for c in type(error).__mro__]
    return isinstance(error, Exception) and not any(_GOES_ON.search(name) for name in names)


def _is_of_library(kind: type) -> bool:
    """Return whether a class comes from an installed package, and not from the program."""
    path = getattr(sys.modules.get(kind.__module__), "__file__", None) or ""
    return "site-packages" in path or "dist-packages" in path


@quiet()
def count_found(value: Any) -> int | None:
    """Return the number of results of a search, also in a state of a graph; None if there is no list of them."""
    for name in ("documents", "source_nodes", "points", "matches", "results", "objects", "ids"):
        inner = _member(value, name)
        if isinstance(inner, list):
            return count_found(inner)
    if isinstance(value, list | tuple):
        if len(value) == 1 and isinstance(value[0], list):  # one list for each query
            return len(value[0])
        if isinstance(value, tuple) and len(set(map(type, value))) > 1:  # passages beside something else
            kept = [one for one in value if isinstance(one, list)]
            return count_found(kept[0]) if kept and (len(kept) == 1 or kept[0] is value[0]) else None
        if isinstance(value, tuple) and value and isinstance(value[0], list):
            return count_found(value[0])
        names = ("source_nodes", "points", "matches", "objects")
        inside = [m for one in value for n in names if isinstance(m := getattr(one, "__dict__", {}).get(n), list)]
        # One response for each collection that was asked.
        return sum(map(len, inside)) if value and len(inside) == len(value) else len(value)
    lists = [len(v) for v in value.values() if isinstance(v, list)] if isinstance(value, dict) else []
    return lists[0] if len(lists) == 1 else None
