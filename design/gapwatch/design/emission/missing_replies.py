"""Tells that a call of a model got no reply; its text becomes a part of a patched program."""

from __future__ import annotations

from typing import Any

from gapwatch.design.emission.recorded_values import held, quiet


def is_unanswered(error: BaseException | None) -> bool:
    """Return whether no reply came to a call of a model; one that was cancelled, or a graph that waits, says nothing.

    Args:
        error: What left it; None where it returned.
    """
    is_end = isinstance(error, StopIteration | StopAsyncIteration)
    waits = any(c.__name__ == "GraphBubbleUp" for c in type(error).__mro__)
    return isinstance(error, Exception) and not is_end and not waits


@quiet(bool)
def gives_error(value: Any, read: Any = held) -> bool:
    """Return whether what a model's client gave holds an error in place of a reply.

    Args:
        value: An object or a dict with `error` and without choices, or a response of HTTP with a status of an error.
        read: Reads a member of it.
    """
    status = [read(value, name) for name in ("status_code", "status")]
    if any(type(n) is int and 400 <= n < 600 for n in status):
        return True
    error = value.get("error") if isinstance(value, dict) else read(value, "error")
    is_said = bool(error) and (isinstance(error, str | dict | Exception) or "error" in type(error).__name__.lower())
    choices = value.get("choices") if isinstance(value, dict) else read(value, "choices")
    return is_said and not choices


def is_read_later(value: Any) -> bool:
    """Return whether a result is gone through, or waited for, after the function that gives it."""
    return any(hasattr(type(value), name) for name in ("__next__", "__anext__", "__await__"))
