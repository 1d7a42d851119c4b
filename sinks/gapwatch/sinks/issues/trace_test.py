"""A test from a stored trace: what went in, in the words that the store may keep."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson

from gapwatch.scorers.errors import UsageError
from gapwatch.sinks.reading.query_answer import ask
from gapwatch.sinks.store.store_reader import StoreReader


@dataclass(frozen=True)
class StoredTrace:
    """Text of a trace as the store keeps it, redacted.

    Attributes:
        trace_id: Its id.
        messages: What went in, as chat messages.
        output: What came out; empty if the record has none.
        failing: Metrics that it fails.
        comments: What people said of it.
    """

    trace_id: str
    messages: tuple[dict[str, str], ...]
    output: str
    failing: tuple[str, ...]
    comments: tuple[str, ...]


def read_stored_trace(con: StoreReader, trace_id: str) -> StoredTrace:
    """Return a trace from its sample.

    Raises:
        UsageError: The store keeps no text of such a trace.
    """
    rows = ask(
        con, "SELECT decode(record) AS record FROM samples WHERE trace_id = ? ORDER BY seq DESC LIMIT 1", [trace_id]
    ).objects()
    if not rows:
        raise UsageError(
            f"the store keeps no text of a trace {trace_id!r}: texts are kept of failing and judged traces, at the "
            "rate that `volume` gives; write the test by hand with gapwatch issue add-test"
        )
    record = orjson.loads(rows[0]["record"])
    failing = ask(
        con, "SELECT DISTINCT metric FROM gaps WHERE trace_id = ? AND outcome = 'fail' ORDER BY metric", [trace_id]
    ).objects()
    said = ask(
        con, 'SELECT comment FROM feedback WHERE trace_id = ? AND comment IS NOT NULL ORDER BY "at"', [trace_id]
    ).objects()
    spans = [span for span in record.get("spans", []) if isinstance(span, dict)]
    roots = [span for span in spans if not span.get("parent_id")] or spans
    first = next((span for span in roots if span.get("input") not in (None, "")), None)
    if first is None:
        first = next((span for span in spans if span.get("input") not in (None, "")), None)
    if first is None:
        raise UsageError(f"the trace {trace_id!r} has no input; write the test by hand with gapwatch issue add-test")
    last = next((span for span in reversed(roots) if span.get("output") not in (None, "")), {})
    return StoredTrace(
        trace_id, messages_of(first["input"]), _text(last.get("output")),
        tuple(row["metric"] for row in failing), tuple(row["comment"] for row in said),
    )  # fmt: skip


def messages_of(value: Any) -> tuple[dict[str, str], ...]:
    """Return chat messages: those of a list or of `messages`, else one of the user."""
    if isinstance(value, str):
        try:
            parsed = orjson.loads(value)
        except orjson.JSONDecodeError:
            parsed = None
        value = parsed if isinstance(parsed, list | dict) else value
    if isinstance(value, dict) and isinstance(value.get("messages"), list):
        value = value["messages"]
    if isinstance(value, list) and value and all(isinstance(one, dict) and "role" in one for one in value):
        return tuple({"role": str(one["role"]), "content": _text(one.get("content"))} for one in value)
    return ({"role": "user", "content": _text(value)},)


def _text(value: Any) -> str:
    return "" if value is None else value if isinstance(value, str) else orjson.dumps(value).decode()
