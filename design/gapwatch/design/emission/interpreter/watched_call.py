"""Calls that are under way, each with a context of OpenTelemetry that is the current one while its function runs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

from opentelemetry import context as contexts
from opentelemetry.context import Context

from gapwatch.design.emission.interpreter.given_pieces import GivenPieces
from gapwatch.design.emission.interpreter.model_replies import member
from gapwatch.design.emission.interpreter.plain_values import text_of_value
from gapwatch.design.emission.missing_replies import gives_error, is_read_later, is_unanswered
from gapwatch.design.emission.recorded_replies import is_failed, request_outcome

#: The innermost watched call, in OpenTelemetry's context.
CALL = contexts.create_key("gapwatch-call")
#: The client's call that is under way, there: of nested clients the outermost counts.
CLIENT = contexts.create_key("gapwatch-client")
#: Most calls around one that are looked at.
_MOST_AROUND = 200


@dataclass(slots=True)
class RunningCall:
    """A call whose context is current while its function runs.

    Attributes:
        context: Context inside it.
        before: Context in which it was called, or last went on.
        inner: Context of a call inside of it that waits while it waits, too; None where none does.
    """

    context: Context
    before: Context
    inner: Context | None = field(init=False, default=None)

    def leave(self) -> None:
        """Make the caller's context current again, where the call's own, or that of a call inside of it, still is."""
        current = contexts.get_current()
        if current is self.context:
            contexts.attach(self.before)
        elif any(call is self for call in _calls_of(current)):
            # An asynchronous generator waits for what it awaits, and its caller with it.
            self.inner = current
            contexts.attach(self.before)

    def enter(self) -> None:
        """Make the call's context current: a generator goes on, perhaps for another caller."""
        current, inner, self.inner = contexts.get_current(), self.inner, None
        if not any(call is self for call in _calls_of(current)):
            self.before = current
            contexts.attach(inner or self.context)

    def chunk(self, value: Any) -> None:
        """Note what a generator gives."""


def _calls_of(context: Context) -> Iterator[RunningCall]:
    """Yield the calls that a context is inside of, the innermost first."""
    client, call = contexts.get_value(CLIENT, context), contexts.get_value(CALL, context)
    if isinstance(client, RunningCall):
        yield client
    if isinstance(call, WatchedCall):
        yield from calls_around(call)


@dataclass(slots=True)
class ClientBatch:
    """Calls of clients that run at the same time; calls one after the other are batches of one.

    Attributes:
        running: Number of calls under way.
        reasons: Why the replies ended.
        texts: Their texts.
    """

    running: int = 0
    reasons: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)

    def begin(self) -> None:
        """Begin a call; where no other is under way, a new batch."""
        if self.running <= 0:
            self.running, self.reasons, self.texts = 0, [], []
        self.running += 1

    def ended(self, reason: str | None, text: str | None) -> str | None:
        """Add a reply; return the text of all of the batch, None without any."""
        self.reasons += [reason] if reason else []
        self.texts += [text] if text else []
        return "\n\n".join(self.texts) if len(self.texts) > 1 else text


@dataclass(slots=True)
class WatchedCall(RunningCall):
    """A call of a planned function.

    Attributes:
        plan: The planned span.
        span: Its span.
        is_owner: Whether the span ends with it.
        notes: Fields of the span.
        started: Seconds of the monotonic clock.
        pieces: What a generator gave.
        last: Nanoseconds since the epoch at its last piece; None for none.
        wrapped: Function whose attempts it is around; None where it is around one call.
        failed, repeats: Attempts that failed, and those that a library announced to repeat.
        is_failing: Whether the last attempt, or the last call of a client, failed.
        reply: Text of the last reply of a model; None without one.
        source: Id of the stream that gives that reply; 0 for a whole one.
        parts: What the parts of that stream have said so far.
        streams: What a model was sent, by the id of the stream that answers it.
        question: What a client was last asked, which is what `reply` answers; None without one.
        is_answered: Whether a model answered in it, or in a call that it is around.
        is_passing_on: Whether a model answered in a call that it is around, which has the tokens.
        is_silent: Whether no argument says what is asked: it is in the object of the method, or in a page.
        batch: The calls of clients that run at the same time.
        is_asking: Whether a call of a model at a known line is under way, or what it gave may still be gone through.
        is_told: Whether that, or one inside of it, was counted as one without a reply.
        awaits_status: Whether that is a request of HTTP whose response has not come.
    """

    plan: dict[str, Any]
    span: Any
    is_owner: bool
    notes: dict[str, Any]
    started: float = field(default_factory=time.monotonic)
    pieces: GivenPieces = field(default_factory=GivenPieces)
    last: int | None = None
    wrapped: CodeType | None = None
    failed: int = 0
    repeats: int = 0
    is_failing: bool = False
    reply: str | None = None
    source: int = 0
    parts: dict[str, Any] = field(default_factory=dict)
    streams: dict[int, str] = field(default_factory=dict)
    question: str | None = None
    is_answered: bool = False
    is_passing_on: bool = False
    is_silent: bool = False
    batch: ClientBatch = field(default_factory=ClientBatch)
    is_asking: bool = False
    is_told: bool = False
    awaits_status: bool = False

    def chunk(self, value: Any) -> None:
        """Note what a generator gives."""
        self.last = time.time_ns()
        self.pieces.add(value, time.monotonic() - self.started)

    def new_parts(self, found: dict[str, Any]) -> dict[str, Any]:
        """Return what a part of a stream says that those before did not: tokens may be given with each, so far."""
        new = dict(found)
        for name in (n for n in found if n.endswith("_tokens")):
            before = self.parts.get(name, 0)
            self.parts[name] = max(before, found[name])
            new[name] = self.parts[name] - before
        return new

    @property
    def is_model(self) -> bool:
        """True if it calls a model."""
        return self.plan["kind"] == "llm" or bool(self.plan.get("reads_reply"))

    def note_attempt(self, what: str) -> None:
        """Note what a library says of an attempt: `failed`, `repeats` (it will be repeated) or `succeeded`."""
        if what != "repeats":
            self.is_failing = what == "failed"
        self.failed += what == "failed"
        self.repeats += what == "repeats"

    def note_asking(self) -> None:
        """Note that a model is asked, for the innermost call around that counts those that get no reply."""
        if (found := innermost_with("model_errors", self)) is not None:
            found.notes["model_errors"] = found.notes["model_errors"] or 0

    def note_unanswered(self) -> None:
        """Count a call of a model that got no reply."""
        if (found := innermost_with("model_errors", self)) is not None:
            found.notes["model_errors"] = (found.notes["model_errors"] or 0) + 1
        for around in calls_around(self):
            around.is_told = True
        if (client := contexts.get_value(CLIENT, self.context)) is not None:
            client.is_told = True  # type: ignore[attr-defined]

    def begin_asking(self, awaits_status: bool) -> None:
        """Note that a call of a model begins at a known line.

        Args:
            awaits_status: Whether it is a request of HTTP.
        """
        self.note_asking()
        self.is_asking, self.is_told, self.awaits_status = True, False, awaits_status

    def raised(self, error: BaseException) -> None:
        """Note what was raised where a model is asked at a known line; of calls in each other the innermost counts."""
        if self.is_asking and not self.is_told and is_unanswered(error):
            self.note_unanswered()
        if not isinstance(error, StopIteration | StopAsyncIteration):
            self.is_asking = self.awaits_status = False

    def came(self, response: Any) -> None:
        """Note a response of HTTP: one of an error is no reply."""
        if self.awaits_status and not self.is_told and gives_error(response, member):
            self.note_unanswered()
        self.awaits_status = False

    def settle(self, result: Any, error: BaseException | None, is_stream: bool) -> None:
        """Work out the notes that only the end shows.

        Args:
            result: What the function returned.
            error: What it raised; None where it returned.
            is_stream: Whether it gave its result in chunks.
        """
        notes = self.notes
        is_left = error is not None and not isinstance(error, Exception)
        notes.pop("model_held", None)
        notes.pop("model_own", None)
        self._settle_agent(result, error, is_stream)
        if notes.pop("is_tool", 0) and is_failed(error):
            notes["tool_errors"] = notes["tool_errors"] or 1
        if notes.get("model_errors") == 0 and is_read_later(result):
            notes["model_errors"] = None  # What a stream that is handed on will bring is not known yet.
        begun, refusals = self.pieces.first is not None, notes.pop("request_refusals", "")
        if notes.get("request_outcome") == "answered":
            notes["request_outcome"] = request_outcome(result, error, begun, member, refusals)
        if notes.pop("loop_left", 0):
            # The line after the loop was reached by `break`.
            notes.pop("retry_outcome", None)
        attempts = notes.pop("attempts", None)
        if attempts is not None:
            notes["retry_count"] = max(0, attempts - 1)
            if error is not None and notes.get("retry_outcome") != "exhausted":
                notes["retry_outcome"] = None if is_left else "exhausted"
            else:
                notes.setdefault("retry_outcome", "first_try" if attempts <= 1 else "recovered")
        if (of := notes.pop("unseen_attempts", None)) is not None:
            is_exhausted = isinstance(error, Exception) or (self.is_failing and bool(self.failed or self.repeats))
            # The last failed attempt is followed by none.
            notes["retry_count"] = max(0, self.failed - is_exhausted) + self.repeats
            repeated = "recovered" if self.failed or self.repeats else "first_try"
            notes["retry_outcome"] = None if is_left else "exhausted" if is_exhausted else repeated
            if of == "of_decorator" and self.wrapped is None:
                notes["retry_outcome"] = None  # One attempt does not know how they end.
        if notes.get("rows_written") == "of_cursor":
            notes["rows_written"] = None
        if "stream_outcome" in notes:
            # Of a model that said nothing there may be pieces all the same: a first one, a last one.
            has_some = self.pieces.first is not None and (self.reply is None or bool(self.reply.strip()))
            came = "completed" if has_some else "empty"
            ended = came if error is None else None if type(error).__name__ == "CancelledError" else "aborted"
            notes["stream_outcome"] = ended if is_stream else None
        if "first_chunk_seconds" in notes:
            notes["first_chunk_seconds"] = self.pieces.first_said()

    def _settle_agent(self, result: Any, error: BaseException | None, is_stream: bool) -> None:
        """Say how a run of an agent ended where no line said it: by its default, which is that of runs with a step."""
        notes = self.notes
        end, told_by = notes.pop("agent_end", None), notes.pop("agent_limit", "")
        steps = notes.pop("agent_began", 1)
        if end is None or notes["agent_exit"] is not None:
            return
        said = type(error).__name__
        if error is None and told_by:
            said = self.pieces.text() if is_stream else text_of_value(result)
        if any(text in said for text in told_by.split("\n") if text):
            notes["agent_exit"] = "limit"
        elif isinstance(error, Exception):
            notes["agent_exit"] = "error"
        elif error is None and steps:
            # A run that was left, or refused before its first step, ended in none of these ways.
            notes["agent_exit"] = end


def innermost_call() -> WatchedCall | None:
    """Return the innermost watched call of the current context."""
    found = contexts.get_value(CALL)
    return found if isinstance(found, WatchedCall) else None


def innermost_with(name: str, call: WatchedCall) -> WatchedCall | None:
    """Return a call or the innermost one around it that has a field."""
    found: object = call
    while isinstance(found, WatchedCall) and name not in found.notes:
        found = contexts.get_value(CALL, found.before)
    return found if isinstance(found, WatchedCall) else None


def calls_around(call: WatchedCall) -> Iterator[WatchedCall]:
    """Yield a call and those around it, the innermost first."""
    found: object = call
    for _ in range(_MOST_AROUND):
        if not isinstance(found, WatchedCall):
            return
        yield found
        found = contexts.get_value(CALL, found.before)


def calls_with(name: str, call: WatchedCall) -> Iterator[WatchedCall]:
    """Yield a call and those around it that have a field, and do not hold to what they have.

    Who asks a model itself (`model_own`) is not told what another function asks within, such as a guardrail of a run.
    """
    is_inside = False
    for found in calls_around(call):
        notes = found.notes
        if name in notes and not notes.get("model_held") and not (is_inside and notes.get("model_own")):
            yield found
        is_inside = is_inside or found.is_model
