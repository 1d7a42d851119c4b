"""One feedback of a person about a trace, read from what a pipeline, a page or a file sent."""

from __future__ import annotations

import hashlib
import math
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import orjson

from gapwatch.scorers.errors import UsageError

#: Characters of a comment, and of each other text.
COMMENT_LIMIT, _TEXT_LIMIT = 10_000, 500
_FIELDS = ("trace_id", "value", "comment", "user", "pipeline", "at", "id")
_THUMBS = {"up": 1.0, "down": -1.0}


@dataclass(frozen=True)
class Feedback:
    """Words and value of one person about one trace.

    Attributes:
        id: Id of the sender, by which a repeated one is known.
        trace_id: Id of the trace.
        value: `up`, `down`, or the number as text.
        number: The number; 1 for up, -1 for down.
        comment: What the person wrote; None if nothing.
        user: Who gave it, as the sender names them; None if not said.
        pipeline: Pipeline of the trace; None if not said.
        at: Time at which it was given, naive UTC.
    """

    id: str
    trace_id: str
    value: str
    number: float
    comment: str | None
    user: str | None
    pipeline: str | None
    at: datetime

    @classmethod
    def read(cls, asked: Mapping[str, Any], now: datetime) -> Feedback:
        """Return the feedback of a JSON object.

        Args:
            asked: `trace_id` and `value` (up, down, true, false or a number); optional `comment`, `user`, `pipeline`,
                `at` (ISO 8601) and `id`.
            now: Time that counts without `at`, naive UTC.

        Raises:
            UsageError: A field is missing, unknown or wrong.
        """
        if unknown := sorted(set(asked) - set(_FIELDS)):
            raise UsageError(f"feedback has no field {unknown[0]!r}; give {', '.join(_FIELDS)}")
        texts = {name: _text(asked, name) for name in ("trace_id", "comment", "user", "pipeline", "at", "id")}
        if not texts["trace_id"]:
            raise UsageError("feedback needs `trace_id`, the id of the trace that it is about")
        value, number = _value(asked.get("value"))
        return cls(
            texts["id"] or secrets.token_hex(16), texts["trace_id"], value, number, texts["comment"] or None,
            texts["user"] or None, texts["pipeline"] or None, _time(texts["at"], now),
        )  # fmt: skip

    @classmethod
    def from_json(cls, data: bytes, now: datetime) -> Feedback:
        """Return the feedback of a record or a line.

        Raises:
            UsageError: It is no JSON object, or a field is wrong.
        """
        try:
            asked = orjson.loads(data)
        except orjson.JSONDecodeError as error:
            raise UsageError(f"not JSON: {error}") from None
        if not isinstance(asked, dict):
            raise UsageError('feedback is one JSON object, such as {"trace_id": "t-1", "value": "down"}')
        return cls.read(asked, now)

    @property
    def trace_hash(self) -> int:
        """Hash of the trace id, as `internal.trace_ids` has it."""
        return int.from_bytes(hashlib.blake2b(self.trace_id.encode(), digest_size=8).digest(), "little")

    def with_comment(self, comment: str | None) -> Feedback:
        """Return the same feedback with another comment, such as a redacted one."""
        return replace(self, comment=comment)


def _text(asked: Mapping[str, Any], name: str) -> str:
    value = asked.get(name)
    limit = COMMENT_LIMIT if name == "comment" else _TEXT_LIMIT
    if value is None:
        return ""
    if not isinstance(value, str) or len(value) > limit:
        raise UsageError(f"{name} of a feedback must be a text of at most {limit:,} characters")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise UsageError(f"{name} of a feedback holds half a character; send it as UTF-8") from None
    return value


def _value(value: object) -> tuple[str, float]:
    if isinstance(value, bool):
        value = "up" if value else "down"
    if isinstance(value, str) and value in _THUMBS:
        return value, _THUMBS[value]
    if isinstance(value, int | float) and math.isfinite(value) and abs(value) <= 1e15:
        return f"{value:g}", float(value)
    raise UsageError('value of a feedback must be "up", "down", true, false or a number')


def _time(text: str, now: datetime) -> datetime:
    if not text:
        return now
    try:
        moment = datetime.fromisoformat(text)
        return (moment.astimezone(UTC) if moment.tzinfo else moment).replace(tzinfo=None)
    except (ValueError, OverflowError):
        raise UsageError(f"at of a feedback is {text!r}, not a time; write 2026-11-21T10:00:00Z") from None
