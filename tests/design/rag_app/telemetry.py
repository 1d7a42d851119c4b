"""Facts about the running call, for a listener; without a listener they are lost."""

from __future__ import annotations

import contextvars
from typing import Any

_notes: contextvars.ContextVar[dict[str, Any] | None] = contextvars.ContextVar("notes", default=None)


def note(**values: Any) -> None:
    """Say something about the innermost call that is being watched."""
    current = _notes.get()
    if current is not None:
        current.update(values)


def listen() -> tuple[dict[str, Any], contextvars.Token[dict[str, Any] | None]]:
    """Begin to listen; hand the token to `stop`."""
    notes: dict[str, Any] = {}
    return notes, _notes.set(notes)


def stop(token: contextvars.Token[dict[str, Any] | None]) -> None:
    """Stop listening."""
    _notes.reset(token)
