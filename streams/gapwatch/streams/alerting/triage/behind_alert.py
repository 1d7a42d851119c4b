"""Rows, texts and present rate behind an alert, read from the store when a person asks."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import Any

from gapwatch.scorers.printable import shown
from gapwatch.sinks.reading.example_rows import BehindRow, gone_texts, rows_with_text_first, texts
from gapwatch.sinks.reading.recent_values import newest_tick, rate_until
from gapwatch.sinks.reading.terminal_table import moment_text, share_text
from gapwatch.sinks.store.store_reader import StoreReader
from gapwatch.streams.alerting.incidents.stored_alerts import StoredAlert

#: Rows that a page on an alert names.
ROWS = 5
_WINDOWS = (("last 10 minutes", timedelta(minutes=10)), ("last hour", timedelta(hours=1)))
# Values of a facet beyond this are ids, not kinds.
_MOST_VALUES = 20
# A value is named where at least this share of the failing traces has it, and this much more of them than before.
_LEAST_SHARE, _LEAST_GROWTH = 0.3, 0.15
_MOST_LINES = 5
_VALUE_LIMIT = 60
_NONE = "none"

#: Facet and value, such as ("error type", "RateLimitError").
FacetValue = tuple[str, str]


def outcome_of(alert: StoredAlert) -> str | None:
    """Return the outcome of the rows behind an alert; None where the values moved, not a rate."""
    which = alert.rows_behind
    return which if isinstance(which, str) else None


def present_rate(con: StoreReader, alert: StoredAlert) -> Iterator[str]:
    """Yield the rate of the last ten minutes and of the last hour, up to the newest trace and since the change."""
    bound = alert.facts.bound
    if alert.facts.part is not None or (bound is not None and bound.of != "failure_rate"):
        return
    series, lane, began = alert.series, alert.row.lane, alert.began_at
    end = newest_tick(con, lane, series)
    if end is None:
        return
    is_unknown = alert.facts.kind == "unknown"
    word = "undecided" if is_unknown else "failing"
    for name, span in _WINDOWS:
        rate = rate_until(con, lane, series, end, span, began, is_unknown=is_unknown)
        length = round((rate.end - rate.begin).total_seconds() / 60)
        said = f"{name}" if rate.end - rate.begin == span else f"{length} minutes since the change"
        interval = "" if rate.lower is None else f" [{share_text(rate.lower)}, {share_text(rate.upper)}]"
        yield f"{said}: {share_text(rate.rate)}{interval} {word}, of {_counted(rate.units, 'trace')}"
        if rate.end - rate.begin < span:
            break
    yield f"until {moment_text(end, 'seconds')}, the newest trace"


def rows_behind(con: StoreReader, alert: StoredAlert) -> list[BehindRow]:
    """Return the first traces behind an alert, those whose text is stored before the others; empty for numbers."""
    if alert.facts.watched == "numbers":
        return []
    return rows_with_text_first(con, alert.row.lane, alert.series, alert.rows_behind, alert.rows_since, ROWS)


def lost_texts(con: StoreReader, alert: StoredAlert) -> int:
    """Return how many of the first failing traces had left the topic before their text was read."""
    return gone_texts(con, alert.row.lane, alert.series, alert.rows_behind, alert.rows_since)


def reasons_in_texts(con: StoreReader, alert: StoredAlert) -> Iterator[str]:
    """Yield the error types, tools, finish reasons and dimensions that grew among the traces behind an alert.

    A facet with one value in all texts says nothing, and is left out.
    """
    outcome, began = outcome_of(alert), alert.began_at
    if outcome is None or began is None:
        return
    lane, series = alert.row.lane, alert.series
    since, n_since = _counts(texts(con, lane, series, outcome, began, None))
    before, n_before = _counts(texts(con, lane, series, outcome, None, began))
    word = {"fail": "failing", "unknown": "undecided"}.get(outcome, "passing")
    grown = sorted(_grown(since, n_since, before, n_before))
    for _, (facet, value) in grown[:_MOST_LINES]:
        then = f", {before[facet, value]:,} of {n_before:,} before" if n_before else ""
        text = (
            f"{facet} {shown(value)}: {since[facet, value]:,} of {_counted(n_since, f'{word} trace')} with text since"
        )
        yield text + then


def _grown(
    since: Counter[FacetValue], n_since: int, before: Counter[FacetValue], n_before: int
) -> Iterator[tuple[float, FacetValue]]:
    values: dict[str, set[str]] = defaultdict(set)
    for facet, value in (*since, *before):
        values[facet].add(value)
    for facet in values:
        if n_before and all(one != facet for one, _ in before):
            values[facet].add(_NONE)
    for (facet, value), n in since.items():
        share = n / n_since
        growth = share - (before[facet, value] / n_before if n_before else 0.0)
        is_kind = 1 < len(values[facet]) <= _MOST_VALUES
        if is_kind and value != _NONE and share >= _LEAST_SHARE and growth >= _LEAST_GROWTH:
            yield -growth, (facet, value)


def _counts(records: Iterable[dict[str, Any]]) -> tuple[Counter[FacetValue], int]:
    """Return how many records have each value, and the number of records."""
    counts: Counter[FacetValue] = Counter()
    with_facet: Counter[str] = Counter()
    number = 0
    for record in records:
        found = set(_facets(record))
        counts.update(found)
        with_facet.update({facet for facet, _ in found})
        number += 1
    # A record without a facet has one more value of it.
    counts.update({(facet, _NONE): number - n for facet, n in with_facet.items() if n < number})
    return counts, number


def _facets(record: dict[str, Any]) -> Iterator[FacetValue]:
    spans = record.get("spans")
    for span in spans if isinstance(spans, list) else ():
        if not isinstance(span, dict):
            continue
        if span.get("error_type"):
            yield "error type", _text(span["error_type"])
        if span.get("kind") == "tool" and span.get("name"):
            yield "tool", _text(span["name"])
        for name, value in _attributes(span):
            if "finish_reason" in name:
                yield "finish reason", _text(value)
    for name, value in _attributes(record):
        yield f"dimension {name[:_VALUE_LIMIT]}", _text(value)


def _attributes(owner: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    attributes = owner.get("attributes")
    for name, value in attributes.items() if isinstance(attributes, dict) else ():
        if value is not None and not isinstance(value, dict):
            yield name, value


def _text(value: Any) -> str:
    return str(value)[:_VALUE_LIMIT]


def _counted(n: int, noun: str) -> str:
    return f"{n:,} {noun}{'' if n == 1 else 's'}"
