"""Notes what models are sent, and counts their calls without a reply; its text becomes part of a patched program."""

from __future__ import annotations

from types import CoroutineType
from typing import Any

from opentelemetry import context

from gapwatch.design.emission.missing_replies import gives_error, is_unanswered
from gapwatch.design.emission.recorded_replies import SAID, sent_in
from gapwatch.design.emission.recorded_values import MOST, quiet, written

NOTES, IS_MODEL = "span_recording.notes", "span_recording.is_model"
SENT_LAST = "span_recording.sent"
_ASKING = "span_recording.asking"


def asked(function: Any) -> Any:
    """Return a function of a model's client that notes what the model is sent, for each span around that tells it.

    It counts the calls that get no reply, too.
    """
    inner = counted(function)

    def ask(*args: Any, **kwargs: Any) -> Any:
        _tell_sent(args, kwargs)
        return inner(*args, **kwargs)

    return ask


@quiet()
def _tell_sent(args: Any, kwargs: Any) -> None:
    notes, sent = context.get_value(NOTES), written(sent_in(args, kwargs), 3 * MOST)
    if isinstance(notes, dict):
        notes[SENT_LAST], notes[SAID] = sent, None
    tell(notes, "model_prompt", sent)
    tell(notes, "model_reply", None)  # What was said before answers no other prompt.


def counted(function: Any) -> Any:
    """Return a function of a model's client that counts the calls that get no reply, for the span of who asks."""

    def ask(*args: Any, **kwargs: Any) -> Any:
        asking = Asking()
        with asking:
            result = function(*args, **kwargs)
        return asking.wait(result) if type(result) is CoroutineType else asking.given(result)

    return ask


def waited_for(waiting: Any) -> Any:
    """Return what an `await` waits for; of an object that is no coroutine, a call without a reply is counted here."""
    return waiting if type(waiting) is CoroutineType else Asking().wait(waiting)


def tell_reply(notes: dict[str, Any], said: str) -> None:
    """Set what a model said, and what it was sent if its function knows, for each span around that tells it."""
    if notes.get(SENT_LAST) is not None:
        tell(notes, "model_prompt", notes[SENT_LAST])
    tell(notes, "model_reply", said)


def tell(notes: Any, name: str, value: Any) -> None:
    """Set a field of each span around that tells it, and that does not hold to what it has."""
    is_inside = False  # of another function that asks a model, such as a guardrail of a run
    while isinstance(notes, dict):
        if name in notes and not notes.get("model_held") and not (is_inside and notes.get("model_own")):
            notes[name] = value
        is_inside = is_inside or notes.get(IS_MODEL, False)
        notes = notes.get(NOTES)


class Asking:
    """A call of a model that is under way; what is raised in it is counted, if a function is recorded that asks.

    Of calls in each other the innermost that fails counts.
    """

    def __init__(self) -> None:
        found = context.get_value(NOTES)
        while isinstance(found, dict) and "model_errors" not in found:
            found = found.get(NOTES)
        self.notes = found if isinstance(found, dict) else {"model_errors": 0}
        self.notes["model_errors"] = self.notes["model_errors"] or 0
        self.is_told, self.around, self.token = False, None, None

    def __enter__(self) -> None:
        self.around = context.get_value(_ASKING)  # type: ignore[assignment]
        self.token = context.attach(context.set_value(_ASKING, self))  # type: ignore[assignment]

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        context.detach(self.token)  # type: ignore[arg-type]
        self._add(is_unanswered(error))

    def _add(self, is_failed: bool) -> None:
        if is_failed and not self.is_told:
            # The function may be over: who waits for the reply is another one.
            self.notes["model_errors"] = (self.notes["model_errors"] or 0) + 1
            found: Any = self
            while isinstance(found, Asking):
                found.is_told, found = True, found.around

    def given(self, result: Any) -> Any:
        """Count a result that holds an error; return it."""
        self._add(gives_error(result))
        if any(c.__name__ == "StreamingResponse" for c in type(result).__mro__):
            self.notes["has_unseen_stream"] = 1  # It asks when it is sent.
        return result

    async def wait(self, waiting: Any) -> Any:
        """Wait for a result; return it."""
        with self:
            result = await waiting
        return self.given(result)


class entered:  # noqa: N801
    """A stream of a reply, for a `with` alone; one that cannot be begun is counted."""

    def __init__(self, source: Any) -> None:
        self.source, self.asking = source, Asking()

    def __enter__(self) -> Any:
        with self.asking:
            result = self.source.__enter__()
        return result if result is self.source else self.asking.given(result)

    def __exit__(self, *error: Any) -> Any:
        return self.source.__exit__(*error)

    async def __aenter__(self) -> Any:
        with self.asking:
            result = await self.source.__aenter__()
        return result if result is self.source else self.asking.given(result)

    async def __aexit__(self, *error: Any) -> Any:
        return await self.source.__aexit__(*error)


class chunks:  # noqa: N801
    """The chunks of a reply, for a loop alone; a stream that breaks is counted."""

    def __init__(self, source: Any) -> None:
        self.source, self.asking = source, Asking()

    def __iter__(self) -> Any:
        with self.asking:
            self.source = iter(self.source)
        return self

    def __next__(self) -> Any:
        with self.asking:
            return next(self.source)

    def __aiter__(self) -> Any:
        with self.asking:
            self.source = aiter(self.source)
        return self

    async def __anext__(self) -> Any:
        with self.asking:
            return await anext(self.source)
