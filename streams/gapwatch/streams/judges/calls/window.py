"""Fits a request into the context window of its model, before it is sent."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gapwatch.scorers.judges.canonical import canonical_value
from gapwatch.scorers.judges.chat_model import ChatCall
from gapwatch.streams.judges.calls.tokens import count_tokens
from gapwatch.streams.judges.settings import JudgeSettings, vendor_of

#: Bytes of a request that every model takes; for smaller ones litellm's list is not loaded.
SMALL_BYTES = 8_000
#: Tokens for what a provider adds to each message, and for the words of the repair request.
_ADDED_TOKENS = 400
#: Fewest characters of an input that a judge can still judge.
LEAST_CHARACTERS = 600
#: Most attempts to find the number of characters that fits.
_ATTEMPTS = 8


class OverWindow(Exception):  # noqa: N818 - an answer that every caller handles
    """A request does not fit into the window of its model, however much of its inputs is left out."""


def window_of(settings: JudgeSettings, model: str, size: int) -> int | None:
    """Return the context window of a model in tokens; None if neither the settings nor litellm's list has it.

    Args:
        settings: Settings of the judges.
        model: `vendor/name`.
        size: Bytes of the request; for at most `SMALL_BYTES` only the settings are read.
    """
    written = settings.context_tokens.get(model)
    if written is not None:
        return written
    vendor = vendor_of(model)
    if size <= SMALL_BYTES or settings.provider(vendor).adapter != "litellm":
        return None
    from gapwatch.streams.judges.models.quiet_litellm import load_litellm

    listed = load_litellm().model_cost
    known: dict[str, object] = next((listed[name] for name in (model, model.partition("/")[2]) if name in listed), {})
    tokens = known.get("max_input_tokens")
    return int(tokens) if isinstance(tokens, int | float) and tokens > 0 else None


def fitted_call(
    make: Callable[[int | None, Mapping[str, str | None]], ChatCall],
    inputs: Mapping[str, str | None],
    most_output_tokens: int,
    look_up: Callable[[int], int | None],
) -> tuple[ChatCall, int | None]:
    """Return a call that fits into the window, with the characters to which its inputs were cut; None if they were not.

    A repair request repeats the reply, so twice the longest reply has to fit as well.

    Args:
        make: Makes the call of some inputs, cut to a number of characters; None: cut by the rule of the rubric alone.
        inputs: The inputs.
        most_output_tokens: Token limit of the reply.
        look_up: Returns the window in tokens by the bytes of the request; None: it is not known, and nothing is cut.

    Raises:
        OverWindow: It does not fit with `LEAST_CHARACTERS` of each input either.
    """
    call = make(None, inputs)
    window = look_up(_bytes(call))
    if window is None:
        return call, None
    room = window - 2 * most_output_tokens - _ADDED_TOKENS
    tokens = _tokens(call, room)
    if tokens <= room:
        return call, None
    fixed = _tokens(make(None, dict.fromkeys(inputs, "")), 0)
    characters = sum(len(text) for _, text in call.messages)
    for _ in range(_ATTEMPTS):
        share = (room - fixed) / max(tokens - fixed, 1)
        characters = int(characters * min(share, 1.0) * 0.95)
        if characters < LEAST_CHARACTERS * len(inputs):
            break
        call = make(characters, inputs)
        tokens = _tokens(call, room)
        if tokens <= room:
            return call, characters
    raise OverWindow(f"the request has about {tokens:,} tokens, and {call.model} takes {max(room, 0):,} of {window:,}")


def fits_window(call: ChatCall, most_output_tokens: int, look_up: Callable[[int], int | None]) -> bool:
    """Return True if a call fits into the window, or the window is not known; the arguments are those of `fitted_call`.

    A call with several items is not repaired, so its longest reply has to fit once.
    """
    window = look_up(_bytes(call))
    room = None if window is None else window - most_output_tokens - _ADDED_TOKENS
    return room is None or _tokens(call, room) <= room


def _bytes(call: ChatCall) -> int:
    return sum(len(text.encode("utf-8", "replace")) for _, text in call.messages) + len(_schema(call))


def _tokens(call: ChatCall, room: int) -> int:
    """Return the tokens of a call; the number of bytes, which is never less, if that fits already."""
    size = _bytes(call)
    if size <= room:
        return size
    return sum(count_tokens(text, call.model) for text in (*(t for _, t in call.messages), _schema(call).decode()))


def _schema(call: ChatCall) -> bytes:
    return b"" if call.response_format is None else canonical_value(call.response_format)
