"""Feedback that comes as the event `gen_ai.evaluation.result` of OpenTelemetry's GenAI conventions."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from gapwatch.scorers.errors import UsageError
from gapwatch.sinks.feedback.feedback import Feedback
from gapwatch.streams.otlp.assembly.item_ledger import EVENT, LOG
from gapwatch.streams.otlp.decoding.raw_items import KEPT_BYTES, DeadItem, RawLog, RawSpan, UndecodableError
from gapwatch.streams.otlp.decoding.splitting import decode_log, events_of_span

#: Name of the event.
EVALUATION = "gen_ai.evaluation.result"
_EVALUATION_BYTES = EVALUATION.encode()
#: Labels that count where an event has no number.
_LABELS = {
    "up": "up", "pass": "up", "correct": "up", "relevant": "up",
    "down": "down", "fail": "down", "incorrect": "down", "not_relevant": "down",
}  # fmt: skip

#: Item of the ledger, and the feedback, or what is wrong with it.
FoundFeedback = tuple[str, Feedback | DeadItem]


def feedback_of(
    spans: Sequence[RawSpan], logs: Sequence[RawLog], received_at: float
) -> tuple[list[RawLog], list[FoundFeedback]]:
    """Return the log records that are no feedback, and the feedback of the others and of the events of spans.

    Args:
        spans: Spans of a request.
        logs: Log records of a request.
        received_at: Time that counts for an event without one, seconds since the epoch.
    """
    others, found = list[RawLog](), list[FoundFeedback]()
    for record in logs:
        event = _event_of(record) if _EVALUATION_BYTES in record.raw else None
        if event is None:
            others.append(record)
        else:
            found.append((LOG, _feedback(LOG, record, *event, received_at)))
    for span in spans:
        if _EVALUATION_BYTES in span.raw:
            for name, time, attributes in events_of_span(span):
                if name == EVALUATION:
                    found.append((EVENT, _feedback(EVENT, span, time, attributes, received_at)))
    return others, found


def _event_of(record: RawLog) -> tuple[int, dict[str, Any]] | None:
    """Return time and attributes of a log record that is an evaluation; None for any other."""
    try:
        entry = decode_log(record)
    except UndecodableError:
        return None
    return (entry.time, entry.attributes) if entry.name == EVALUATION else None


def _feedback(
    item: str, raw: RawSpan | RawLog, time: int, attributes: dict[str, Any], received_at: float
) -> Feedback | DeadItem:
    trace_id = raw.trace_id.hex()
    try:
        return _read(trace_id, time, attributes, received_at)
    except (UsageError, OverflowError, ValueError) as error:
        return DeadItem(item, "bad_feedback", str(error), trace_id, raw.raw[:KEPT_BYTES])


def _read(trace_id: str, time: int, attributes: dict[str, Any], received_at: float) -> Feedback:
    """Return the feedback of an event; its id is made of its content, so that a repeated one is known.

    Raises:
        UsageError: It is about no trace, or has neither a number nor a known label.
        OverflowError, ValueError: Its time or number is too large.
    """
    name, value, label, explanation = (
        attributes.get(f"gen_ai.evaluation.{key}") for key in ("name", "score.value", "score.label", "explanation")
    )
    if not trace_id:
        raise UsageError(f"{EVALUATION} is in no trace; emit it in the context of the span that it judges")
    content = repr((trace_id, name, value, label, explanation, time)).encode(errors="replace")
    if value is None and label is not None:
        value = _LABELS.get(str(label).lower())
    at = datetime.fromtimestamp(time / 1e9 if time else received_at, UTC).replace(tzinfo=None)
    user = attributes.get("user.id")
    asked = {
        "trace_id": trace_id, "value": value, "comment": _comment(name, label, explanation),
        "user": None if user is None else str(user), "id": hashlib.blake2b(content, digest_size=16).hexdigest(),
    }  # fmt: skip
    return Feedback.read(asked, at)


def _comment(name: Any, label: Any, explanation: Any) -> str:
    """Return the texts of an evaluation as `name (label): explanation`, as far as it has them."""
    head = " ".join(part for part in (str(name or ""), f"({label})" if label else "") if part)
    return ": ".join(part for part in (head, str(explanation or "")) if part)
