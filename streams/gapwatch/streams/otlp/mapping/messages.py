"""Inputs and outputs of steps in one normal form, from the forms in which libraries write messages.

The input of a model call is a JSON list of `{role, content}`, its output the text of the assistant or, where it called
tools instead, a JSON list of `{name, arguments}`. What is no message stays the text that it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson

from gapwatch.streams.otlp.mapping.json_text import compact_text, listed, parsed

#: Members of an object that hold the content of a message or a result, in order of preference.
_CONTENT = ("content", "text", "message", "output", "output_text", "result")
#: Members of an object that hold a list of messages.
_MESSAGES = ("messages", "input", "prompt", "contents", "history")
#: Members of an object that hold what a model answered, as only replies of providers and frameworks have them.
_REPLIES = ("choices", "generations", "candidates", "replies")
#: Members that may hold such a reply, or a message; what a model wrote as JSON may have them, too.
_AROUND = ("output", "messages", "outputs", "response", "message", "content", "data", "kwargs")
_TEXT_PARTS = ("text", "input_text", "output_text", "reasoning_text")
#: Nesting that is looked into for an answer.
_DEEPEST = 8


def model_input(value: Any, content: Any, system: Any = None) -> str | None:
    """Return the input of a model call in its normal form.

    Args:
        value: What a library wrote: messages, an object with messages, a text.
        content: What `parsed` returned of it; so in the functions below.
        system: System instructions that are apart from the messages.
    """
    messages = _messages(content)
    if messages is None:
        text = None if content is None else compact_text(value)
        if system is None:
            return text
        messages = [] if text is None else [{"role": "user", "content": text}]
    if system is not None:
        messages = [{"role": "system", "content": _content(parsed(system))}, *messages]
    return orjson.dumps(messages).decode()


def model_output(value: Any, content: Any) -> tuple[str | None, bool]:
    """Return the output of a model call in its normal form, and whether an answer was found in it."""
    answer = _answer(content, 0, False)
    if answer is not None:
        return answer, True
    if content is None:
        return None, False
    return compact_text(value), isinstance(content, str) and bool(content)


def agent_input(value: Any, content: Any) -> str | None:
    """Return the input of an agent: messages in their normal form, or else what `step_value` returns."""
    found = _messages(content)
    return step_value(value, content) if found is None else orjson.dumps(found).decode()


def agent_output(value: Any, content: Any) -> str | None:
    """Return the output of an agent: the text of its last answer, or else what `step_value` returns."""
    answer = _answer(content, 0, False)
    return step_value(value, content) if answer is None else answer


def step_value(value: Any, content: Any) -> str | None:
    """Return input or output of a step that is no model call: the one argument of a call, the content of a result."""
    if isinstance(content, list) and len(content) == 1 and isinstance(content[0], dict) and "role" in content[0]:
        inner = content[0].get("content")  # one message of a tool
        return inner if isinstance(inner, str) else _content(inner) if isinstance(inner, list) else compact_text(inner)
    if isinstance(content, dict):
        content = _unwrapped(content)
        return None if content is None else compact_text(content)
    if isinstance(content, str) or content is None:
        return content
    return compact_text(value)


def answered_usage(content: Any) -> dict[str, Any] | None:
    """Return the object of token counts that a provider's reply, or a framework's around it, has in it."""
    return _usage(content, 0)


class IndexedMessages:
    """Messages from the values of keys with numbers.

    Args:
        members: Rest of each key behind the family's, such as `0.message.content` or `1.tool_calls.0.name`.
    """

    __slots__ = ("_paths", "_plain")

    def __init__(self, members: Sequence[str]) -> None:
        self._paths = [_path(member) for member in members]
        #: Positions of role and content, where each message has these two alone.
        self._plain: list[tuple[int, int]] | None = []
        by_number: dict[str, dict[str, int]] = {}
        for position, (parts, last) in enumerate(self._paths):
            if len(parts) != 1:
                self._plain = None
                return
            by_number.setdefault(parts[0], {})[last] = position
        for found in listed(by_number):
            if found.keys() != {"role", "content"}:
                self._plain = None
                return
            self._plain.append((found["role"], found["content"]))

    def of(self, values: Sequence[Any]) -> list[dict[str, Any]]:
        """Return the messages with these values, in the order of the members."""
        if self._plain is not None:
            return [{"role": values[role], "content": values[content]} for role, content in self._plain]
        root: dict[str, Any] = {}
        for (parts, last), value in zip(self._paths, values, strict=True):
            node = root
            for part in parts:
                below = node.get(part)
                if type(below) is not dict:
                    below = node[part] = {}
                node = below
            node[last] = value
        return [_with_lists(message) for message in listed(root) if isinstance(message, dict)]


def _path(member: str) -> tuple[list[str], str]:
    parts = member.split(".")
    if len(parts) > 2 and parts[1] == "message":
        del parts[1]
    return parts[:-1], parts[-1]


def _messages(content: Any) -> list[dict[str, Any]] | None:
    """Return messages in their normal form; None if the value has none."""
    if isinstance(content, dict):
        if "role" in content:
            return [_message(content)]
        for key in _MESSAGES:
            if isinstance(content.get(key), list) and (found := _messages(content[key])) is not None:
                system = content.get("system") or content.get("instructions")
                return [{"role": "system", "content": _content(system)}, *found] if system else found
        return None
    if not isinstance(content, list) or not content:
        return None
    if all(isinstance(one, list) for one in content) and len(content) == 1:
        return _messages(content[0])
    found = []
    for one in content:
        plain = _plain(one) if isinstance(one, dict) else None
        if plain is not None:
            found.append(plain)
        elif isinstance(one, dict) and (_role(one) is not None or one.get("type") == "function_call_output"):
            found.append(_message(one))
        elif isinstance(one, list) and len(one) == 2 and all(isinstance(part, str) for part in one):
            found.append({"role": one[0], "content": one[1]})
        else:
            return None
    return found


def _plain(message: dict[str, Any]) -> dict[str, Any] | None:
    """Return the usual message, of a role and a text alone, in its normal form; None for any other."""
    role, text = message.get("role"), message.get("content")
    if type(role) is not str:
        return None
    if text is None:
        parts = message.get("parts")
        if type(parts) is not list or len(parts) != 1 or type(parts[0]) is not dict or parts[0].get("type") != "text":
            return None
        text = parts[0].get("content")
    if type(text) is not str or not text:
        return None
    return {"role": role.lower(), "content": text}


def _role(message: dict[str, Any]) -> str | None:
    role = message.get("role")
    if isinstance(role, str):
        return role.lower()
    kind = message.get("type") or message.get("event.name")
    if kind in ("human", "ai", "system", "tool"):  # LangChain
        return {"human": "user", "ai": "assistant"}.get(str(kind), str(kind))
    id_ = message.get("id")
    if kind == "constructor" and isinstance(id_, list) and id_ and str(id_[-1]).endswith("Message"):
        name = str(id_[-1]).removesuffix("Message").removesuffix("Chunk").lower()
        return {"human": "user", "ai": "assistant"}.get(name, name)
    return None


def _message(message: dict[str, Any]) -> dict[str, Any]:
    if isinstance(message.get("kwargs"), dict):
        return {"role": _role(message), "content": _text_or_calls(message["kwargs"])}
    if message.get("type") == "function_call_output":
        return {"role": "tool", "content": compact_text(message.get("output"))}
    return {"role": _role(message) or "user", "content": _text_or_calls(message)}


def _text_or_calls(message: dict[str, Any]) -> str:
    """Return the text of a message, or a JSON list of the tools that it calls instead."""
    parts = message.get("parts")
    text = _content(parts if isinstance(parts, list) else message.get("content"))
    if text:
        return text
    calls = _tool_calls(message)
    return orjson.dumps(calls).decode() if calls else text


def _content(content: Any) -> str:
    """Return the text of a message's content: a text, or a list of parts."""
    if isinstance(content, str):
        return content
    if content is None:
        return ""
    if isinstance(content, dict):
        return _content(next((content[key] for key in _CONTENT if key in content), compact_text(content)))
    if not isinstance(content, list):
        return compact_text(content)
    texts = []
    for part in content:
        if isinstance(part, str):
            texts.append(part)
        elif isinstance(part, dict):
            result = part.get("toolResult")
            if isinstance(result, dict):  # Bedrock names a part by its only member
                texts.append(_content(result.get("content")))
                continue
            kind = str(part.get("type") or part.get("part_kind") or ("toolUse" if "toolUse" in part else "text"))
            if kind in _TEXT_PARTS or (kind not in _CALL_PARTS and isinstance(part.get("text"), str)):
                inner = part.get("content", part.get("text"))
                if inner is not None:
                    texts.append(inner if isinstance(inner, str) else compact_text(inner))
            elif kind in ("tool_call_response", "tool_result", "tool-result", "tool-return"):
                result = part.get("result", part.get("response", part.get("content", part.get("output"))))
                texts.append(compact_text(_unwrapped(result) if isinstance(result, dict) else result))
    return "\n".join(text for text in texts if text)


_CALL_PARTS = ("tool_call", "tool-call", "tool_use", "function_call", "toolUse")


def _tool_calls(message: dict[str, Any]) -> list[dict[str, Any]]:
    """Return name and arguments of the tools that a message calls."""
    calls = parsed(message.get("tool_calls") or message.get("toolCalls") or [])
    calls = list(calls.values()) if isinstance(calls, dict) else calls if isinstance(calls, list) else []
    for content in (message.get("parts"), message.get("content")):
        if isinstance(content, list):
            calls = [*calls, *(p for p in content if isinstance(p, dict) and p.get("type") in _CALL_PARTS)]
            calls = [*calls, *(p["toolUse"] for p in content if isinstance(p, dict) and "toolUse" in p)]
    if message.get("type") in _CALL_PARTS:
        calls = [*calls, message]
    found = []
    for call in calls:
        if not isinstance(call, dict):
            continue
        inner = call.get("function") or call.get("tool_call") or call
        inner = inner.get("function", inner) if isinstance(inner, dict) else call
        if not isinstance(inner, dict):
            inner = call
        name = inner.get("name") or inner.get("function.name") or call.get("toolName")
        arguments = next(
            (inner[key] for key in ("arguments", "args", "input", "function.arguments") if key in inner), None
        )
        if name is not None:
            found.append({"name": name, "arguments": parsed(arguments)})
    return found


def _answer(content: Any, depth: int, in_reply: bool) -> str | None:
    """Return the text of the last answer in a value, or its tool calls as JSON; None if it has none.

    Args:
        content: A message, a reply of a provider, or what a framework puts around one.
        depth: Nesting so far.
        in_reply: Whether a part of a reply was met around it; without one JSON may be the model's own.
    """
    if depth > _DEEPEST or content is None:
        return None
    if isinstance(content, list):
        if content and all(
            isinstance(one, dict) and (one.get("type") in _CALL_PARTS or _is_call(one)) for one in content
        ):
            return orjson.dumps(_tool_calls({"tool_calls": content})).decode()
        for one in reversed(content):
            if isinstance(one, dict | list) and (found := _answer(one, depth + 1, in_reply)) is not None:
                return found
            if in_reply and isinstance(one, str):
                return one
        return None
    if not isinstance(content, dict):
        return None
    role = _role(content)
    if role in ("assistant", "model"):
        text = _message(content)["content"]
        return str(text) if text or "content" in content or "parts" in content else None
    if role is not None:
        return None
    if content.get("type") in _CALL_PARTS:
        return orjson.dumps(_tool_calls(content)).decode()
    for key in _REPLIES:
        inner = content.get(key)
        if isinstance(inner, dict | list) and (found := _answer(inner, depth + 1, True)) is not None:
            return found
    for key in _AROUND:
        inner = content.get(key)
        if isinstance(inner, dict | list) and (found := _answer(inner, depth + 1, in_reply)) is not None:
            return found
    if in_reply:
        text = _content(content.get("content", content.get("parts", content.get("text"))))
        return text or None
    return None


def _is_call(one: dict[str, Any]) -> bool:
    return "function" in one or "toolName" in one or ("name" in one and ("arguments" in one or "args" in one))


def _usage(content: Any, depth: int) -> dict[str, Any] | None:
    if depth > _DEEPEST:
        return None
    if isinstance(content, dict):
        for key in ("usage", "token_usage", "usage_metadata", "usageMetadata"):
            if isinstance(content.get(key), dict) and content[key]:
                found: dict[str, Any] = content[key]
                return found
        members: Any = content.values()
    elif isinstance(content, list) and content and isinstance(content[0], dict | list):  # no list of numbers
        members = content
    else:
        return None
    for member in members:
        if isinstance(member, dict | list) and (inner := _usage(member, depth + 1)) is not None:
            return inner
    return None


def _unwrapped(content: Any) -> Any:
    """Return what a framework wrapped: the one argument of a call, the content of a tool's message."""
    for _ in range(_DEEPEST):
        if not isinstance(content, dict):
            break
        if content.keys() <= {"args", "kwargs"} and content:
            args, kwargs = content.get("args") or [], content.get("kwargs") or {}
            if not args:
                return kwargs or None
            if len(args) == 1 and not kwargs:
                content = args[0]
                continue
            return content
        if "input_str" in content:
            content = content.get("inputs") or content["input_str"]
            continue
        if content.get("type") == "constructor" and isinstance(content.get("kwargs"), dict):
            content = content["kwargs"].get("content")
            continue
        if content.get("type") in ("tool", "ToolMessage"):
            inner = content.get("data")
            content = inner if isinstance(inner, dict) else content
            if "content" in content:
                content = content["content"]
                continue
        if content.keys() == {"output"} or (content.keys() <= {"output", "kwargs"} and "output" in content):
            content = content["output"]
            continue
        break
    return content


def _with_lists(message: dict[str, Any]) -> dict[str, Any]:
    """Return a message in which the objects whose keys are numbers are lists."""
    if len(message) == 2 and "content" in message and type(message["content"]) is str:
        return message
    found: dict[str, Any] = {}
    for key, value in message.items():
        if isinstance(value, dict) and value and all(part.isdecimal() for part in value):
            members = [_flat_call(one) for one in listed(value)]
            found["content" if key == "contents" else key] = members
        else:
            found[key] = value
    return found


def _flat_call(one: Any) -> Any:
    """Return a part or a tool call without the name of its convention around it."""
    if isinstance(one, dict):
        part = one.get("message_content")
        if isinstance(part, dict):
            return part
        call = one.get("tool_call")
        if isinstance(call, dict):
            return call
    return one
