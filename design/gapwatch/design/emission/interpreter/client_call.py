"""Calls of model clients and of searches: what they give goes to the watched call around them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from opentelemetry import context as contexts

from gapwatch.design.emission.interpreter.model_replies import (
    MOST_BYTES,
    STREAM_END,
    chunk_reply,
    client_reply,
    count_results,
    is_read,
    member,
    parsed_body,
    parsed_lines,
    provided_text,
    reply_text,
    sent_body,
    worst_reason,
)
from gapwatch.design.emission.interpreter.plain_values import (
    MOST_CHARACTERS,
    MOST_OF_PROMPT,
    stored_fields,
    text_of_value,
)
from gapwatch.design.emission.interpreter.watched_call import (
    CALL,
    CLIENT,
    RunningCall,
    WatchedCall,
    calls_around,
    calls_with,
)
from gapwatch.design.emission.missing_replies import gives_error, is_unanswered

#: Arguments of clients that hold what a model is asked, and those that hold what it is told beside it.
_ASKED = ("messages", "prompt", "prompts", "input", "contents")
_TOLD = ("system", "instructions", "system_instruction", "systemInstruction")
#: Kinds of generators that give the lines of a body, and of calls that read one of a response that is known.
_IN_LINES, _OF_HTTP = ("lines", "pieces"), ("body", "lines", "pieces")
#: Kinds of calls that give a whole reply, and not one part of it.
_WHOLE = ("llm", "body", "lines", "pieces")
#: Libraries whose responses may be of any server.
_ANY_SERVER = frozenset({"requests", "httpx", "aiohttp", "http"})
#: Reasons by which a reply ends that calls tools; its chunks hold their arguments and may hold no text.
_OF_TOOLS = frozenset({"tool_use", "tool_calls", "function_call"})


@dataclass(slots=True)
class ClientCall(RunningCall):
    """A call of a client.

    Attributes:
        call: The watched call around it.
        kind: llm, retrieval, body, chunk, lines, line or pieces.
        parts: What the chunks of a streamed reply say.
        texts: Their texts.
        asked: What is searched for.
        told: What the model was sent, as the calls around tell it; None where none does.
        source: The response whose body it reads; None for other calls.
        is_given: Whether its reply went to the watched call.
        rest: Begin of a line whose end comes with the next piece.
        is_model: Whether a model replies, and no embedding or picture is made.
        is_told: Whether a call of a model inside of it was counted as one without a reply.
        began: Nanoseconds since the epoch.
    """

    call: WatchedCall
    kind: str
    parts: dict[str, Any] = field(default_factory=dict)
    texts: list[str] = field(default_factory=list)
    asked: Any = None
    told: str | None = None
    source: Any = None
    is_given: bool = False
    rest: bytes = b""
    is_model: bool = True
    is_told: bool = False
    began: int = field(default_factory=time.time_ns)

    @property
    def is_hidden_search(self) -> bool:
        """True if it is a search whose passages, or whose number, no span of the plan gives."""
        is_planned = self.call.plan["kind"] in ("retrieval", "rerank") and "retrieved_count" in self.call.notes
        return self.kind == "retrieval" and not is_planned

    def chunk(self, value: Any) -> None:
        """Take what one chunk of a streamed reply says: counts and the reason come in the last ones."""
        if self.kind == "pieces":
            piece = value.encode() if isinstance(value, str) else value if isinstance(value, bytes) else b""
            value, _, self.rest = (self.rest + piece).rpartition(b"\n")
            if len(self.rest) > MOST_BYTES:
                self.rest = b""
        for part in (value,) if self.kind == "llm" else parsed_lines(value) if self.kind in _IN_LINES else ():
            if part is STREAM_END:
                self._give(None)  # Who reads it may stop here, and an asynchronous generator ends when it is cleared.
                continue
            self.parts |= chunk_reply(part)
            self._note_provided(part)
            if (text := reply_text(part)) and sum(map(len, self.texts)) < MOST_CHARACTERS:
                self.texts.append(text)

    def end(self, result: Any, error: BaseException | None) -> None:
        """Give the reply to the watched call around it.

        Args:
            result: What the client returned.
            error: What it raised; None where it returned.
        """
        self.leave()
        call, notes = self.call, self.call.notes
        if self.is_model and not self.is_told and (is_unanswered(error) or gives_error(result, member)):
            call.note_unanswered()
        call.batch.running -= self.kind in _WHOLE
        call.is_failing = isinstance(error, Exception) and not isinstance(error, StopIteration | StopAsyncIteration)
        if self.kind == "retrieval":
            if (count := count_results(result)) is not None and "retrieved_count" in notes:
                known = notes["retrieved_count"]
                notes["retrieved_count"] = count + (known if isinstance(known, int) else 0)
            return
        if self.rest:
            self.chunk("\n")
        for part in parsed_lines(result) if self.kind == "line" else (result,):
            if part is not STREAM_END:
                self._give(part)
        if self.kind == "llm" and self.told is not None and not self.is_given:
            for around in calls_around(call):
                around.streams[id(result)] = self.told

    def _give(self, result: Any) -> None:
        """Give a whole reply, or a part of one that is read part by part, to the watched call."""
        if self.is_given and self.kind != "line":
            return
        call, notes = self.call, self.call.notes
        if self.kind in ("chunk", "line"):
            found, text = call.new_parts(chunk_reply(result)), reply_text(result)
            is_one = bool(found) or any(member(result, n) is not None for n in ("model", "choices", "delta"))
            if self.kind == "line" and not is_one:
                return  # A line of something else.
            result = None
            text = (call.reply or "") + text if text else None
        else:
            result = parsed_body(result)
            found, text = client_reply(result), reply_text(result)
            if self.parts:
                found, text = self.parts | found, text or "".join(self.texts)
                # Of a stream that was left, or that called a tool, nothing says that the answer is empty.
                text = None if not text.strip() and found.get("finish_reason") in (None, *_OF_TOOLS) else text
            elif (text is None and "finish_reason" not in found) or (self.kind in _OF_HTTP and not found):
                return  # Embeddings, pictures, files: clients have functions for all that they ask.
        self.is_given = True
        if self.kind in _OF_HTTP:
            self.told = _note_prompt(sent_body(self.source), call)
        for around in calls_around(call):
            around.is_answered = True
            around.is_passing_on |= around is not call
        self._note_provided(result)
        for name, value in found.items():
            if name.endswith("_tokens") or name == "cost_usd":
                notes[name] = notes.get(name, 0) + value
            else:
                notes[name] = value
        said = text
        if self.kind not in ("chunk", "line"):
            text = call.batch.ended(found.get("finish_reason"), text)
            if call.batch.reasons:
                notes["finish_reason"] = worst_reason(call.batch.reasons)
        if text is not None:
            call.reply = text
            for around in calls_with("model_reply", call):
                # Of calls at the same time each reply stands beside what that call was sent.
                if self.told is not None:
                    around.notes["model_prompt"] = self.told
                around.notes["model_reply"] = (said if self.told is not None and said is not None else text)[
                    :MOST_CHARACTERS
                ]

    def _note_provided(self, value: Any) -> None:
        """Note what the provider of a model found itself, behind what the model was sent."""
        if (found := provided_text(value)) is not None:
            self.told = f"{self.told or ''}\n\nFound by the provider:\n{found}"
            for around in calls_with("model_prompt", self.call):
                around.notes["model_prompt"] = self.told


def begin_client(kind: str, values: Mapping[str, Any]) -> ClientCall | None:
    """Begin a client's call; return None where one is under way already, or no watched call is around it.

    Args:
        kind: Kind of the call.
        values: Its variables; a body that its object has read already, and gave, is none a second time.
    """
    before, source = contexts.get_current(), values.get("self")
    call = contexts.get_value(CALL, before)
    if contexts.get_value(CLIENT, before) or not isinstance(call, WatchedCall):
        return None
    if kind == "body" and is_read(source):
        return None
    if kind in ("chunk", "line") and call.source != id(source):
        call.source, call.reply, call.parts = id(source), None, {}
    if kind in _WHOLE:
        call.batch.begin()
    made = ClientCall(before, before, call, kind, source=source)
    made.context = contexts.set_value(CLIENT, made, before)
    made.is_model = _is_of_model(kind, values)
    if kind == "llm" and made.is_model:
        call.note_asking()
        made.told = _note_prompt(values, call)
    if made.told is None and source is not None:
        made.told = next((c.streams[id(source)] for c in calls_around(call) if id(source) in c.streams), None)
    if kind == "retrieval":
        made.asked = next((value for name, value in values.items() if name != "self" and _is_given(value)), None)
    contexts.attach(made.context)
    return made


def _note_prompt(values: Mapping[str, Any], call: WatchedCall) -> str | None:
    """Note what a model is sent, for each watched call around it that tells it, and return it; its reply comes later.

    Args:
        values: Variables of the client's function.
        call: The innermost watched call.
    """
    further = values.get("kwargs")
    given = {**further, **values} if isinstance(further, dict) else values
    asked = {name: given[name] for name in _ASKED if _is_given(given.get(name))}
    if not asked:
        return None  # A stream, whose call came before.
    if call.is_model or call.notes.get("asked"):
        call.question = text_of_value(next(iter(asked.values())))
    told: str | None = None
    for around in calls_with("model_prompt", call):
        if told is None:
            beside = {name: found for name in _TOLD if (found := given.get(name) or member(given.get("config"), name))}
            every = {**beside, **asked}
            told = text_of_value(next(iter(every.values())) if len(every) == 1 else every, MOST_OF_PROMPT)
        around.notes["model_prompt"] = told
    # What was said before answers no other prompt.
    call.reply = None
    for around in calls_with("model_reply", call):
        around.notes["model_reply"] = None
    return told


def _is_of_model(kind: str, values: Mapping[str, Any]) -> bool:
    """Return whether a client's function asks for a reply or reads one; a response of HTTP may be of any server.

    Litellm wraps all that it does in one function.
    """
    if kind not in ("llm", "chunk"):
        return kind == "body" and type(values.get("self")).__module__.partition(".")[0] not in _ANY_SERVER
    name = getattr(values.get("original_function"), "__name__", "completion")
    return any(word in name for word in ("completion", "responses", "message"))


def _is_given(value: Any) -> bool:
    """Return whether a value is what a model is asked; a mark of what is left out has no content."""
    if type(value) in (str, list, tuple, dict):
        return bool(value)
    return any(not name.startswith("_") for name in stored_fields(value))
