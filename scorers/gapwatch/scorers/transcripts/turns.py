"""Turns of a conversation, read from a list of messages: OpenAI, Anthropic, LangChain, and OpenTelemetry's GenAI form.

`write_turns` writes the last of these forms, whatever was read, so that a conversation has one text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

#: Kinds of parts, as OpenTelemetry's GenAI messages name them; `other` stands for all else, such as an image.
TEXT, CALL, RESULT, OTHER = "text", "tool_call", "tool_call_response", "other"
#: Characters that are kept of a part that is no text, such as an image.
OTHER_CHARACTERS = 200
_TEXT_TYPES = ("text", "input_text", "output_text", "refusal", "reasoning", "thinking")
_CALL_TYPES = ("tool_call", "tool_use", "function_call")
_RESULT_TYPES = ("tool_call_response", "tool_result", "function_call_output")
#: Roles by LangChain's names of message types.
_ROLES = {"human": "user", "ai": "assistant", "system": "system", "tool": "tool", "function": "tool"}


@dataclass(frozen=True, slots=True)
class TurnPart:
    """Part of a turn.

    Attributes:
        kind: `TEXT`, `CALL` (of a tool), `RESULT` (of a tool) or `OTHER`.
        text: The text, the arguments of the call, or the result.
        name: Name of the tool, or type of another part; empty for a text.
        id: Id of the call; may be empty.
    """

    kind: str
    text: str
    name: str = ""
    id: str = ""


@dataclass(frozen=True, slots=True)
class Turn:
    """Message of a conversation.

    Attributes:
        role: Who speaks, as written: user, assistant, tool, system.
        parts: What was said, called and returned, in order.
        name: Component or person that speaks; may be empty.
    """

    role: str
    parts: tuple[TurnPart, ...]
    name: str = ""

    @property
    def characters(self) -> int:
        """Number of characters of all parts."""
        return sum(len(part.text) for part in self.parts)


@dataclass(frozen=True, slots=True)
class Transcript:
    """Conversation in turns, of which some in the middle may be left out.

    Attributes:
        turns: The turns that are left, in order.
        gap: Number of turns before those that are left out.
        left_turns: Number of turns that are left out; 0 if it is whole.
        left_characters: Number of their characters.
    """

    turns: tuple[Turn, ...]
    gap: int = 0
    left_turns: int = 0
    left_characters: int = 0


def read_transcript(text: str, is_own: bool = False) -> Transcript | None:
    """Return the conversation in a text, or None where the text is no JSON list of messages.

    A list of messages has an object with a role, a text, for each of them; an object with such a list under `messages`
    is read, too.

    Args:
        text: The text.
        is_own: Whether `write_transcript` wrote it; only then does an object say what is left out.
    """
    if text.lstrip()[:1] not in ("[", "{"):
        return None
    try:
        document = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    return transcript_in(document, is_own)


def transcript_in(document: object, is_own: bool = False) -> Transcript | None:
    """Return the conversation in a JSON value, or None where it is no list of messages."""
    if isinstance(document, dict):
        document = document.get("messages")
    if not isinstance(document, list):
        return None
    turns: list[Turn] = []
    gap = left_turns = left_characters = 0
    for message in document:
        if not isinstance(message, dict):
            return None
        turn = read_turn(message)
        if turn is not None:
            turns.append(turn)
        elif (left := _left_out(message)) is None:
            return None
        elif is_own:
            gap, (left_turns, left_characters) = len(turns), left
    return Transcript(tuple(turns), gap, left_turns, left_characters) if turns else None


def read_turn(message: Mapping[str, Any]) -> Turn | None:
    """Return one message as a turn, or None for an object without a role."""
    role = message.get("role")
    if not isinstance(role, str):
        kind = message.get("type")
        role = _ROLES.get(kind) if isinstance(kind, str) and "content" in message else None
    if not role:
        return None
    content = message.get("parts") if isinstance(message.get("parts"), list) else message.get("content")
    parts = list(_parts(content))
    if role in ("tool", "function") and all(part.kind == TEXT for part in parts):
        text = "\n".join(part.text for part in parts)
        parts = [
            TurnPart(RESULT, text, _word(message.get("name")), _word(message.get("tool_call_id") or message.get("id")))
        ]
    calls = message.get("tool_calls")
    if isinstance(calls, list):
        parts += [_call(call) for call in calls if isinstance(call, dict)]
    if isinstance(message.get("function_call"), dict):
        parts.append(_call(message["function_call"]))
    if not parts and isinstance(message.get("refusal"), str):
        parts = [TurnPart(TEXT, message["refusal"])]
    return Turn(role, tuple(parts) or (TurnPart(TEXT, ""),), "" if role == "tool" else _word(message.get("name")))


def write_transcript(transcript: Transcript) -> str:
    """Return a conversation as JSON: a list of messages in OpenTelemetry's GenAI form.

    An object `{"left_out": {"turns": n, "characters": n}}` stands for turns that are left out.
    """
    messages: list[dict[str, Any]] = [_message(turn) for turn in transcript.turns]
    if transcript.left_turns:
        left = {"turns": transcript.left_turns, "characters": transcript.left_characters}
        messages.insert(transcript.gap, {"left_out": left})
    return json_text(messages)


def json_text(value: object) -> str:
    """Return a JSON value as compact text; lone surrogates become `?`."""
    try:
        return orjson.dumps(value).decode()
    except TypeError:
        import json

        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace").decode()


def _message(turn: Turn) -> dict[str, Any]:
    named = {"name": turn.name} if turn.name else {}
    return {"role": turn.role, **named, "parts": [_written(part) for part in turn.parts]}


def _written(part: TurnPart) -> dict[str, str]:
    if part.kind == CALL:
        return {"type": CALL, "id": part.id, "name": part.name, "arguments": part.text}
    if part.kind == RESULT:
        return {"type": RESULT, "id": part.id, "name": part.name, "response": part.text}
    if part.kind == OTHER:
        return {"type": OTHER, "name": part.name, "content": part.text}
    return {"type": TEXT, "content": part.text}


def _left_out(message: Mapping[str, Any]) -> tuple[int, int] | None:
    left = message.get("left_out")
    if len(message) != 1 or not isinstance(left, dict):
        return None
    turns, characters = left.get("turns"), left.get("characters")
    return (turns, characters) if isinstance(turns, int) and isinstance(characters, int) and turns > 0 else None


def _parts(content: object) -> Iterable[TurnPart]:
    if content is None:
        return
    if isinstance(content, dict):
        content = [content]
    if not isinstance(content, list):
        yield TurnPart(TEXT, _text(content))
        return
    for one in content:
        yield _part(one) if isinstance(one, dict) else TurnPart(TEXT, _text(one))


def _part(one: Mapping[str, Any]) -> TurnPart:
    kind = one.get("type")
    if kind in _CALL_TYPES:
        return _call(one)
    if kind in _RESULT_TYPES:
        result = next((one[key] for key in ("response", "result", "content", "output") if key in one), None)
        id_ = one.get("id") or one.get("tool_use_id") or one.get("call_id")
        return TurnPart(RESULT, _result_text(result), _word(one.get("name")), _word(id_))
    if kind in _TEXT_TYPES or kind is None:
        for key in ("text", "content", "refusal", "thinking", "reasoning"):
            if isinstance(one.get(key), str):
                return TurnPart(TEXT, one[key])
    name = one.get("name") if kind == OTHER else kind
    text = one["content"] if kind == OTHER and isinstance(one.get("content"), str) else json_text(dict(one))
    return TurnPart(OTHER, text[:OTHER_CHARACTERS], _word(name))


def _call(call: Mapping[str, Any]) -> TurnPart:
    function = call.get("function")
    given = function if isinstance(function, dict) else call
    arguments = next((given[key] for key in ("arguments", "input", "args") if key in given), None)
    return TurnPart(CALL, _text(arguments), _word(given.get("name")), _word(call.get("id") or call.get("call_id")))


def _result_text(result: object) -> str:
    """Return a result; blocks of texts are joined."""
    if isinstance(result, list) and result and all(isinstance(one, dict) and "text" in one for one in result):
        return "\n".join(_text(one["text"]) for one in result)
    return _text(result)


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None else json_text(value)


def _word(value: object) -> str:
    return value if isinstance(value, str) else ""
