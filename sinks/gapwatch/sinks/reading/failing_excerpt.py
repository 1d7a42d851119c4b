"""Excerpt of one failing trace: the texts of its first failing spans, from the stored sample."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from gapwatch.scorers.slices.sample_record import unpack_record
from gapwatch.sinks.store.store_reader import StoreReader


@dataclass(frozen=True)
class ExcerptSpan:
    """One span of an excerpt.

    Attributes:
        component: Id of its component.
        text: Its output, or its input if it has no output; redacted.
        failing: Metrics that fail on it, with what was expected, sorted; empty for the span before a failing one.
    """

    component: str
    text: str
    failing: tuple[tuple[str, str], ...]


def failing_excerpt(
    con: StoreReader, pipeline: str, trace_id: str, metrics: Sequence[str], limit: int
) -> list[ExcerptSpan]:
    """Return failing spans of a trace that have a text, after the span before the first of them.

    Each metric counts once, at the first span on which it fails. The list is empty if no sample of the trace is stored.

    Args:
        con: Connection to a store.
        pipeline: Pipeline of the trace.
        trace_id: Id of the trace.
        metrics: Names of the metrics that count, the most important first.
        limit: Largest number of failing spans; those of the most important metrics are chosen.
    """
    spans = _sampled_spans(con, trace_id)
    rows = con.execute(
        """SELECT metric, min(span_index), any_value(expected) FROM verdicts
        WHERE pipeline = ? AND trace_id = ? AND outcome = 'fail' AND span_index >= 0 GROUP BY metric""",
        [pipeline, trace_id],
    ).fetchall()
    failing: dict[int, list[tuple[str, str]]] = {}
    for metric, index, expected in sorted(
        (row for row in rows if row[0] in metrics), key=lambda r: metrics.index(r[0])
    ):
        if index < len(spans) and _text(spans[index]) and (index in failing or len(failing) < limit):
            failing.setdefault(index, []).append((metric, expected or ""))
    if not failing:
        return []
    order = sorted(failing)
    before = next((index for index in range(order[0] - 1, -1, -1) if _text(spans[index])), None)
    return [
        ExcerptSpan(str(spans[index].get("component", "")), _text(spans[index]), tuple(failing.get(index, ())))
        for index in (order if before is None else [before, *order])
    ]


def first_words(con: StoreReader, trace_id: str, component: str | None, limit: int) -> str:
    """Return the first words of a stored trace, redacted as stored: of its first span of a component with a text.

    Args:
        con: Connection to a store.
        trace_id: Id of the trace.
        component: Id of the component; None for any span.
        limit: Largest number of characters.

    Returns:
        The words; empty where the text of the trace is not stored, or these spans have no text.
    """
    spans = _sampled_spans(con, trace_id)
    mine = [span for span in spans if component is None or span.get("component") == component]
    words = next((text for span in mine if (text := _text(span))), "")
    return words if len(words) <= limit else words[: limit - 1] + "…"


def _sampled_spans(con: StoreReader, trace_id: str) -> list[Mapping[str, Any]]:
    rows = con.execute(
        "SELECT record FROM samples WHERE trace_id = ? AND record IS NOT NULL ORDER BY kept_at LIMIT 1", [trace_id]
    ).fetchall()
    if not rows:
        return []
    try:
        spans = orjson.loads(unpack_record(rows[0][0])).get("spans", [])
    except (orjson.JSONDecodeError, AttributeError):  # a text that is cut or redacted is no JSON any more
        return []
    return [span if isinstance(span, dict) else {} for span in spans] if isinstance(spans, list) else []


def _text(span: Mapping[str, Any]) -> str:
    for name in ("output", "input"):
        value = span.get(name)
        if value not in (None, ""):
            text = value if isinstance(value, str) else orjson.dumps(value).decode()
            if text.strip():
                return " ".join(text.split())
    return ""
