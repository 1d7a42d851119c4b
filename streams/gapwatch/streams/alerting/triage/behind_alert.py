"""Rows, texts and present rate behind an alert, read from the store when a person asks."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Any

from gapwatch.scorers.portfolio.metric import Metric
from gapwatch.scorers.printable import shown
from gapwatch.sinks.reading.cause_query import ChangeSpan, counted_cells, label_counts
from gapwatch.sinks.reading.example_rows import BehindRow, gone_texts, rows_with_text_first, texts
from gapwatch.sinks.reading.recent_values import newest_tick, rate_until
from gapwatch.sinks.reading.terminal_table import moment_text, share_text
from gapwatch.sinks.store.store_reader import StoreReader
from gapwatch.streams.alerting.incidents.restatement import DIMENSION, restates
from gapwatch.streams.alerting.incidents.stored_alerts import StoredAlert
from gapwatch.streams.alerting.incidents.wording import quantile_name, quantile_text, shown_quantile
from gapwatch.streams.detectors.grid import quantiles_of_cells

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
    """Yield the rate, or the value, of the last ten minutes and of the last hour, at most since the change."""
    bound = alert.facts.bound
    if bound is not None and bound.of != "failure_rate":
        return
    end = newest_tick(con, alert.row.lane, alert.series)
    if end is None:
        return
    found = list((_present_rates if alert.facts.part is None else _present_values)(con, alert, end))
    yield from found
    if found:
        yield f"until {moment_text(end, 'seconds')}, the newest trace"


def _windows(alert: StoredAlert, end: datetime) -> Iterator[tuple[str, timedelta]]:
    """Yield the name and length of each window that ends at `end`; a window with the change in it is the last one."""
    began = alert.began_at
    for name, span in _WINDOWS:
        if began is not None and began > end - span:
            length = max((end - began).total_seconds() / 60, 0.0)
            yield f"{length:g} minutes since the change", span
            return
        yield name, span


def _present_values(con: StoreReader, alert: StoredAlert, end: datetime) -> Iterator[str]:
    """Yield the quantile of the numbers that the alert names, or the share of each label that moved."""
    began = alert.began_at
    for name, span in _windows(alert, end):
        begin = end - span if began is None else max(end - span, began)
        ticks = ChangeSpan(alert.row.lane, alert.series, begin, begin, end)
        if alert.facts.watched == "numbers":
            yield from (f"{name}: {text}" for text in _quantile_now(con, alert, ticks))
        else:
            yield from (f"{name}: {text}" for text in _labels_now(con, alert, ticks))


def _quantile_now(con: StoreReader, alert: StoredAlert, ticks: ChangeSpan) -> Iterator[str]:
    q = shown_quantile(alert.facts)
    if q is None:
        return
    _, cells = counted_cells(con, ticks)
    (value,) = quantiles_of_cells(cells, (q,))
    unit = f" {shown(alert.facts.number_unit)}" if alert.facts.number_unit else ""
    said = "no number" if value is None else f"{quantile_name(q)} {quantile_text(value)}{unit}"
    yield f"{said}, of {_counted(sum(cells.values()), 'trace')}"


def _labels_now(con: StoreReader, alert: StoredAlert, ticks: ChangeSpan) -> Iterator[str]:
    counts = {one.label: one.since for one in label_counts(con, ticks)}
    total = sum(counts.values())
    for label in alert.facts.part.labels if alert.facts.part is not None else ():
        share = share_text(counts.get(label, 0.0) / total if total else None)
        yield f"label {shown(label)} on {share} of {_counted(round(total), 'labelled span')}"


def _present_rates(con: StoreReader, alert: StoredAlert, end: datetime) -> Iterator[str]:
    series, lane, began = alert.series, alert.row.lane, alert.began_at
    is_unknown = alert.facts.kind == "unknown"
    word = "undecided" if is_unknown else "failing"
    for name, span in _windows(alert, end):
        rate = rate_until(con, lane, series, end, span, began, is_unknown=is_unknown)
        interval = "" if rate.lower is None else f" [{share_text(rate.lower)}, {share_text(rate.upper)}]"
        yield f"{name}: {share_text(rate.rate)}{interval} {word}, of {_counted(rate.units, 'trace')}"


def rows_behind(con: StoreReader, alert: StoredAlert) -> list[BehindRow]:
    """Return the first traces behind an alert, those whose text is stored before the others; empty for numbers."""
    if alert.facts.watched == "numbers":
        return []
    return rows_with_text_first(con, alert.row.lane, alert.series, alert.rows_behind, alert.rows_since, ROWS)


def lost_texts(con: StoreReader, alert: StoredAlert) -> int:
    """Return how many of the first failing traces had left the topic before their text was read."""
    return gone_texts(con, alert.row.lane, alert.series, alert.rows_behind, alert.rows_since)


def reasons_in_texts(con: StoreReader, alert: StoredAlert, metric: Metric | None) -> Iterator[str]:
    """Yield the error types, tools, finish reasons and dimensions that grew among the traces behind an alert.

    A facet with one value in all texts says nothing, and is left out; so is one that the claim of the metric reads.
    """
    outcome, began = outcome_of(alert), alert.began_at
    if outcome is None or began is None:
        return
    lane, series = alert.row.lane, alert.series
    since, n_since = _counts(texts(con, lane, series, outcome, began, None))
    before, n_before = _counts(texts(con, lane, series, outcome, None, began))
    word = {"fail": "failing", "unknown": "undecided"}.get(outcome, "passing")
    grown = sorted(one for one in _grown(since, n_since, before, n_before) if not restates(metric, one[1][0]))
    for _, (facet, value) in grown[:_MOST_LINES]:
        then = f", {before[facet, value]:,} of {n_before:,} before" if n_before else ", none before to compare with"
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
        yield f"{DIMENSION}{name[:_VALUE_LIMIT]}", _text(value)


def _attributes(owner: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    attributes = owner.get("attributes")
    for name, value in attributes.items() if isinstance(attributes, dict) else ():
        if value is not None and not isinstance(value, dict):
            yield name, value


def _text(value: Any) -> str:
    return str(value)[:_VALUE_LIMIT]


def _counted(n: int, noun: str) -> str:
    return f"{n:,} {noun}{'' if n == 1 else 's'}"
