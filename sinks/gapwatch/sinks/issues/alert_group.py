"""Failing traces behind an alert, grouped by which metrics failed together and by text: the draft of an issue."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rapidfuzz import fuzz

from gapwatch.sinks.reading.query_answer import ask
from gapwatch.sinks.store.store_reader import StoreReader

#: Similarity of two texts, 0 to 100, from which they are of one group. Lower: unlike failures in one issue.
_ALIKE = 55.0
#: Most texts that are compared with each other; further ones join by their metrics alone.
_MOST_TEXTS = 500

_ALERT = """SELECT lane, pipeline, environment, component, metric, coalesce(change_from, change_at, found_at) AS since
    FROM alerts_open WHERE alert_id = ?"""
_TRACES = """WITH mine AS (
        SELECT trace_id, min(event_at) AS first_at, any_value("release") AS "release",
            arg_min(coalesce(observed, reason, ''), (event_at, span_index)) AS observed
        FROM gaps WHERE lane = ? AND pipeline = ? AND environment = ? AND metric = ? AND outcome = 'fail'
        GROUP BY trace_id
    ), together AS (
        SELECT trace_id, list(DISTINCT metric ORDER BY metric) AS metrics FROM gaps
        WHERE lane = ? AND pipeline = ? AND outcome = 'fail' GROUP BY trace_id
    )
    SELECT m.trace_id, m.first_at >= ? AS is_after, m."release", m.observed, t.metrics
    FROM mine m JOIN together t USING (trace_id) ORDER BY m.first_at, m.trace_id"""
_UNITS = """SELECT coalesce(sum(n) FILTER (bucket >= ?), 0)::BIGINT AS "after",
        coalesce(sum(n) FILTER (bucket < ?), 0)::BIGINT AS "before"
    FROM ticks WHERE lane = ? AND pipeline = ? AND metric = ? AND level = 'unit' AND facet = 'all'"""


@dataclass(frozen=True)
class AlertGroup:
    """Largest group of failing traces that are new since a change.

    Attributes:
        metrics: Metrics that fail together.
        traces: Ids of its traces, the earliest first.
        failing: Number of all traces that fail the alert's metric since the change.
        releases: Number of its traces by release.
        text: What was observed on its first trace.
    """

    metrics: tuple[str, ...]
    traces: tuple[str, ...]
    failing: int
    releases: Mapping[str, int]
    text: str

    @property
    def words(self) -> str:
        """The group in words, for the description of an issue."""
        named = ", ".join(f"{name} ({n})" for name, n in Counter(self.releases).most_common(3))
        of = f"{len(self.traces)} of {self.failing} failing traces since the change"
        seen = f"; seen: {self.text}" if self.text else ""
        return f"{of} fail {', '.join(self.metrics)}{f'; releases: {named}' if named else ''}{seen}"


def alert_group(con: StoreReader, alert_id: str) -> AlertGroup | None:
    """Return the group behind an open alert; None if no stored row fails since its change.

    Groups are first the sets of metrics that fail together: the one with the most traces beyond what the time before
    the change would give. Inside it, traces whose texts are alike.

    Raises:
        JobError: The store cannot be read.
    """
    found = ask(con, _ALERT, [alert_id]).objects()
    if not found:
        return None
    alert = found[0]
    lane, pipeline, since, metric = (alert[name] for name in ("lane", "pipeline", "since", "metric"))
    rows = ask(con, _TRACES, [lane, pipeline, alert["environment"], metric, lane, pipeline, since]).objects()
    units = ask(con, _UNITS, [since, since, lane, pipeline, metric]).objects()[0]
    factor = units["after"] / units["before"] if units["before"] else 0.0
    after: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    before: Counter[tuple[str, ...]] = Counter()
    for row in rows:
        names = tuple(row["metrics"])
        if row["is_after"]:
            after.setdefault(names, []).append(row)
        else:
            before[names] += 1
    if not after:
        return None
    names = max(after, key=lambda one: (len(after[one]) - factor * before[one], len(after[one]), one))
    group = _alike(after[names])
    releases = Counter(row["release"] for row in group if row["release"])
    failing = sum(map(len, after.values()))
    return AlertGroup(names, tuple(row["trace_id"] for row in group), failing, releases, group[0]["observed"] or "")


def _alike(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the largest group of rows with texts that are alike."""
    groups: list[list[dict[str, Any]]] = []
    for row in rows[:_MOST_TEXTS]:
        text = row["observed"] or ""
        near = next((one for one in groups if fuzz.token_set_ratio(text, one[0]["observed"] or "") >= _ALIKE), None)
        if near is None and not text:
            near = next((one for one in groups if not one[0]["observed"]), None)
        if near is None:
            groups.append([row])
        else:
            near.append(row)
    return max(groups, key=len)
