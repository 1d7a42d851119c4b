"""Reads model, tokens, finish reason, price and text from the replies of model clients, by their form."""

from __future__ import annotations

import contextlib
import inspect
import json
from collections.abc import Iterator, Sequence
from types import MemberDescriptorType
from typing import Any

from gapwatch.design.emission.interpreter.plain_values import MOST_OF_PROMPT, stored_fields, text_of_value

_INPUT = (
    *("prompt_tokens", "input_tokens", "prompt_token_count", "prompt_eval_count", "inputTokens", "promptTokenCount"),
)
_OUTPUT = (
    *("completion_tokens", "output_tokens", "candidates_token_count", "eval_count", "outputTokens"),
    "candidatesTokenCount",
)
#: Reasons of replies that are whole.
_WHOLE = frozenset(
    ["stop", "end_turn", "stop_sequence", "tool_calls", "tool_use", "function_call", "completed", "eos", "eos_token"]
)
#: Bytes of a body that is read a second time, here.
MOST_BYTES = 4_000_000
#: Why OpenAI's API of responses left one incomplete, in the words of its API of chats.
_INCOMPLETE = {"max_output_tokens": "length"}


def client_reply(value: Any) -> dict[str, Any]:
    """Return model, input_tokens, output_tokens, finish_reason and cost_usd of a reply, as far as it has them.

    Args:
        value: Result of a function; one that is no reply gives nothing.
    """
    generations = _generations(value)
    if generations:  # LangChain
        found = _of_batch(generations)
        generation = generations[0]
        output = member(value, "llm_output")
        info = {
            "model": member(output, "model_name"),
            "finish_reason": member(member(generation, "generation_info"), "finish_reason"),
        }
        texts = {name: text for name, text in info.items() if isinstance(text, str)}
        return {**_tokens(member(output, "token_usage")), **texts, **found}
    raw = member(value, "raw")  # LlamaIndex, and LangChain's `include_raw`
    if raw is not None and (found := client_reply(raw)):
        return found
    metadata = member(value, "response_metadata")
    usage = _first(value, ("usage", "usage_metadata", "usageMetadata")) or member(metadata, "token_usage")
    found = _tokens(usage)
    choices = member(value, "choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    reason = (
        member(choice, "finish_reason")
        or _first(metadata, ("finish_reason", "stop_reason", "done_reason"))
        or _first(value, ("stop_reason", "finish_reason", "done_reason", "stopReason"))
        or _candidate_reason(value)
        or _response_reason(value)
    )
    model = _first(value, ("model", "model_name", "model_version", "modelVersion")) or _first(
        metadata, ("model_name", "model")
    )
    if not found and choice is None and reason is None:
        return {}
    if not found and member(value, "eval_count") is not None:
        found = _tokens(value)
    if isinstance(model, str):
        found["model"] = model
    if reason is not None:
        found["finish_reason"] = str(getattr(reason, "value", reason)).lower()
    cost = _first(usage, ("cost_usd", "cost"))
    hidden = member(value, "_hidden_params")
    cost = cost if isinstance(cost, int | float) else member(hidden, "response_cost")
    if isinstance(cost, int | float) and not isinstance(cost, bool) and cost > 0:
        found["cost_usd"] = float(cost)
    return found


def _of_batch(generations: list[Any]) -> dict[str, Any]:
    """Return what the messages of generations say: the sum of tokens, and the worst reason."""
    found: dict[str, Any] = {}
    reasons = []
    for generation in generations:
        message = member(generation, "message")
        one = client_reply(message) if message is not None else {}
        for name, value in one.items():
            found[name] = found[name] + value if name in found and name.endswith("_tokens") else value
        reason = one.get("finish_reason") or member(member(generation, "generation_info"), "finish_reason")
        reasons += [reason] if isinstance(reason, str) else []
    if len(reasons) > 1:
        found["finish_reason"] = worst_reason(reasons)
    return found


def worst_reason(reasons: Sequence[str]) -> str:
    """Return the first reason that is none of a whole reply, else the last one."""
    return next((reason for reason in reasons if reason not in _WHOLE), reasons[-1])


def chunk_reply(value: Any) -> dict[str, Any]:
    """Return what one chunk of a streamed reply says of it, as `client_reply` does of a whole one."""
    found: dict[str, Any] = {}
    for part in (member(value, "message"), member(value, "response"), value):
        found |= client_reply(part)
    reason = member(member(value, "delta"), "stop_reason")
    if isinstance(reason, str):
        found["finish_reason"] = reason
    return found


#: What a streamed body says behind its last part.
STREAM_END = "[DONE]"


def parsed_lines(value: Any) -> Iterator[Any]:
    """Yield the parts of a streamed reply that some lines of its body hold; `STREAM_END` where it says that it ends.

    Args:
        value: Lines of a body, as `data: {...}` or as JSON alone; other values yield nothing.
    """
    text = bytes(value).decode("utf-8", "replace") if isinstance(value, bytes | bytearray) else value
    for line in text.splitlines() if isinstance(text, str) and len(text) <= MOST_BYTES else ():
        said = line.strip().removeprefix("data:").strip()
        if said == STREAM_END:
            yield STREAM_END
        elif said.startswith("{"):
            with contextlib.suppress(ValueError, RecursionError):
                part = json.loads(said)
                yield part
                if member(part, "type") == "message_stop" or member(part, "done") is True:
                    yield STREAM_END


def sent_body(response: Any) -> dict[str, Any]:
    """Return the JSON object that was sent for a response of requests or httpx; an empty one without one."""
    request = _first(response, ("request", "_request"))
    body = _first(request, ("body", "_content"))
    if isinstance(body, str | bytes) and len(body) <= MOST_BYTES:
        with contextlib.suppress(ValueError, RecursionError):
            sent = json.loads(body)
            return sent if isinstance(sent, dict) else {}
    return {}


def is_read(response: Any) -> bool:
    """Return whether the body of a response has been read: what is given again is no second reply."""
    inner = member(response, "http_response")
    return any(type(_first(r, ("_content", "_body"))) is bytes for r in (response, inner))


def parsed_body(value: Any) -> Any:
    """Return the JSON of an HTTP response that has been read whole; other values as they are.

    Args:
        value: Result of a client: a response, an object that holds one as `http_response`, or its body.
    """
    body = value if isinstance(value, bytes) else member(member(value, "http_response"), "_content")
    if isinstance(body, bytes) and len(body) <= MOST_BYTES:
        with contextlib.suppress(ValueError, RecursionError):
            return json.loads(body)
    return value


def reply_text(value: Any) -> str | None:
    """Return the text of a reply or of a chunk; where the model calls tools instead, JSON of their names and arguments.

    Args:
        value: Result of a client; None is returned for one that is no reply.
    """
    generations = _generations(value)
    if generations:
        texts = [text for generation in generations if (text := _generated(generation))]
        return "\n\n".join(texts) if texts else _generated(generations[0])
    raw = member(value, "raw")
    if raw is not None and client_reply(raw):
        return _said(member(value, "message")) or _text(member(value, "text")) or reply_text(raw)
    choices = member(value, "choices")
    if isinstance(choices, list):
        message = _first(choices[0], ("message", "delta")) if choices else None
        return _said(message) or (_text(member(choices[0], "text")) if choices else None) or ""
    if (output := member(value, "output")) is not None and isinstance(output, list):  # OpenAI's responses
        return _said({"content": [p for item in output for p in _parts(item)], "tool_calls": _calls(output)}) or ""
    if member(value, "stopReason") is not None:  # Bedrock
        return _said(member(output, "message")) or ""
    candidates = member(value, "candidates")
    if isinstance(candidates, list):
        content = member(candidates[0], "content") if candidates else None
        return _said({"content": member(content, "parts")}) or ""
    if (message := member(value, "message")) is not None and member(message, "content") is not None:  # Ollama
        return _said(message)
    if isinstance(member(value, "done"), bool) and isinstance(told := member(value, "response"), str):
        return told  # Ollama, asked to complete a prompt
    if (delta := member(value, "delta")) is not None:  # a chunk of Anthropic's or of OpenAI's responses
        return delta if isinstance(delta, str) else _text(member(delta, "text"))
    if _first(value, ("response_metadata", "usage_metadata", "stop_reason")) is not None:
        return _said(value) or ""
    return None


def provided_text(value: Any) -> str | None:
    """Return what the provider of a model found itself for a reply or a chunk, as JSON: Azure OpenAI on own data.

    Args:
        value: Result of a client.
    """
    choices = member(value, "choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    context = member(_first(choice, ("message", "delta")), "context")
    return text_of_value(context, MOST_OF_PROMPT) if context else None


def _said(message: Any) -> str | None:
    """Return the text of a message, or its calls of tools."""
    content = member(message, "content")
    content = member(message, "blocks") if content is None else content  # LlamaIndex
    content = member(message, "refusal") if content is None else content  # OpenAI: it says why it does not answer
    texts = [content] if isinstance(content, str) else []
    extra = member(message, "additional_kwargs")  # LangChain before its core
    calls = list(member(message, "tool_calls") or member(extra, "tool_calls") or ())
    if not calls and (called := member(message, "function_call") or member(extra, "function_call")):
        calls = [called]
    if isinstance(content, list):
        beside = []
        for part in content:
            if isinstance(text := part if isinstance(part, str) else member(part, "text"), str):
                texts.append(text)
            elif not _is_thought(part):
                beside.append(part)  # A call of a tool, a picture, a sound.
        calls = calls or beside
    text = "".join(texts)
    if text.strip() or not calls:
        return text
    return json.dumps([_call(call) for call in calls], ensure_ascii=False, default=str)


def _is_thought(part: Any) -> bool:
    """Return whether a part of a message holds what the model thought, which is no answer, or nothing at all."""
    members = part if isinstance(part, dict) else stored_fields(part)
    kind = members.get("type")
    is_thought = isinstance(kind, str) and ("thinking" in kind or "reasoning" in kind)
    given = [value for name, value in members.items() if name != "type" and not str(name).startswith("_")]
    return is_thought or "reasoningContent" in members or all(value is None for value in given)


def _call(call: Any) -> dict[str, Any]:
    function = _first(call, ("function", "function_call", "functionCall", "toolUse")) or call
    given = _first(function, ("arguments", "args", "input"))
    if isinstance(given, str):
        with contextlib.suppress(ValueError):
            given = json.loads(given)
    return {"name": member(function, "name"), "arguments": given}


def _parts(item: Any) -> Iterator[Any]:
    content = member(item, "content")
    yield from content if isinstance(content, list) else ()


def _functions(output: list[Any]) -> list[Any]:
    return [item for item in output if member(item, "type") == "function_call"]


def _calls(output: list[Any]) -> list[Any]:
    """Return the items of OpenAI's responses that call something, of whatever kind."""
    return [item for item in output if isinstance(kind := member(item, "type"), str) and kind.endswith("_call")]


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _generations(value: Any) -> list[Any]:
    """Return the first generation for each prompt of a result of LangChain; none of other values."""
    generations = member(value, "generations")
    if not isinstance(generations, list):
        return []
    return [g[0] if isinstance(g, list) else g for g in generations if not isinstance(g, list) or g]


def _generated(generation: Any) -> str | None:
    message = member(generation, "message")
    said = reply_text(message) if message is not None else None
    return said if said is not None else _said(message) or _text(member(generation, "text"))


def _tokens(usage: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, keys in (("input_tokens", _INPUT), ("output_tokens", _OUTPUT)):
        count = _first(usage, keys)
        if type(count) is int:
            found[name] = count
    return found


def _candidate_reason(value: Any) -> Any:
    candidates = member(value, "candidates")
    is_some = isinstance(candidates, list) and bool(candidates)
    return _first(candidates[0], ("finish_reason", "finishReason")) if is_some else None


def _response_reason(value: Any) -> str | None:
    """Return why a response of OpenAI's API of responses ended."""
    output = member(value, "output")
    if not isinstance(output, list):
        return None
    if member(value, "status") == "incomplete":
        reason = member(member(value, "incomplete_details"), "reason")
        return _INCOMPLETE.get(reason, reason) if isinstance(reason, str) else "incomplete"
    return "tool_calls" if _functions(output) else "stop" if member(value, "status") == "completed" else None


def _first(value: Any, names: tuple[str, ...]) -> Any:
    return next((found for name in names if (found := member(value, name)) is not None), None)


def is_response(value: Any) -> bool:
    """Return whether a value is a response of Starlette that gives its parts when it is sent."""
    return any(c.__name__ == "StreamingResponse" and c.__module__ == "starlette.responses" for c in type(value).__mro__)


def member(value: Any, name: str) -> Any:
    """Return a member of a value that is stored in it: properties and `__getattr__` are code of the program."""
    if isinstance(value, dict):
        return value.get(name)
    if value is None or isinstance(value, str | bytes | int | float | list | tuple):
        return None
    for held in ("__dict__", "__pydantic_extra__", "__pydantic_private__"):
        try:
            members = object.__getattribute__(value, held)
        except AttributeError:
            continue
        if type(members) is dict and name in members:
            return members[name]
    slot = inspect.getattr_static(type(value), name, None)
    if isinstance(slot, MemberDescriptorType):
        return getattr(value, name, None)
    return None


#: Members of a response in which a store gives what it found.
_HOLDERS = ("source_nodes", "points", "matches", "objects")


def count_results(value: Any) -> int | None:
    """Return the number of results of a search; None if its result is no list of them."""
    for name in ("documents", "source_nodes", "points", "matches", "results", "objects", "ids"):
        inner = member(value, name)
        if isinstance(inner, list):
            return count_results(inner)
    if isinstance(value, list | tuple):
        if len(value) == 1 and isinstance(value[0], list):  # one list for each query
            return len(value[0])
        if isinstance(value, tuple) and len(set(map(type, value))) > 1:  # passages beside something else
            kept = [one for one in value if isinstance(one, list)]
            return count_results(kept[0]) if kept and (len(kept) == 1 or kept[0] is value[0]) else None
        if isinstance(value, tuple) and value and isinstance(value[0], list):
            return count_results(value[0])
        held = [m for one in value for n in _HOLDERS if isinstance(m := member(one, n), list)]
        # One response for each collection that was asked.
        return sum(map(len, held)) if value and len(held) == len(value) else len(value)
    if isinstance(value, dict):
        lists = [len(v) for v in value.values() if isinstance(v, list)]
        return lists[0] if len(lists) == 1 else None
    return None
