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
#: Share of the new failing traces that a set of metrics must explain. Lower: it names a part of the fault.
_EXPLAINED = 0.8
#: Share of the traces from which the texts that are most alike are a kind of their own. Lower: where each text is
#: another, such as an identifier, a group of a few.
_KIND = 0.5
#: Most texts that are compared with each other; further ones are left out where a kind of text stands out.
_MOST_TEXTS = 500

_ALERT = """SELECT lane, pipeline, environment, component, metric, coalesce(change_at, change_from, found_at) AS since
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
    """Group of failing traces that are new since a change.

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

    First the metrics that fail together in what is new: as many as still explain most of the traces beyond what the
    time before the change would give. Of the traces that fail all of these, those whose texts are alike, unless no
    kind of text stands out.

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
    after = [row for row in rows if row["is_after"]]
    if not after:
        return None
    failed = [frozenset(row["metrics"]) for row in rows if not row["is_after"]]
    names = _together(metric, [frozenset(row["metrics"]) for row in after], failed, factor)
    group = _alike([row for row in after if names <= set(row["metrics"])])
    releases = Counter(row["release"] for row in group if row["release"])
    traces = tuple(row["trace_id"] for row in group)
    return AlertGroup(tuple(sorted(names)), traces, len(after), releases, group[0]["observed"] or "")


def _together(
    metric: str, after: Sequence[frozenset[str]], before: Sequence[frozenset[str]], factor: float
) -> frozenset[str]:
    """Return the metrics that fail together in what is new: as many as still explain most of it.

    Args:
        metric: Metric of the alert; it is always one of them.
        after: Failing metrics of each trace since the change.
        before: Those of each trace before it.
        factor: Units since the change for each unit before it.
    """

    def counted(some: frozenset[str]) -> tuple[float, float]:
        """Return the traces beyond what the time before would give, and their share of all that fail so."""
        n = sum(some <= one for one in after)
        new = n - factor * sum(some <= one for one in before)
        return new, new / n if n else 0.0

    chosen = frozenset([metric])
    new, pure = counted(chosen)
    least = _EXPLAINED * new
    while others := frozenset[str]().union(*after) - chosen:
        best = max(others, key=lambda one: (counted(chosen | {one}), one))
        added, share = counted(chosen | {best})
        if added < least or share < pure:
            return chosen
        chosen, pure = chosen | {best}, share
    return chosen


def _alike(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the largest group of rows with texts that are alike; all rows where no group stands out."""
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
    largest = max(groups, key=len)
    return largest if len(largest) >= _KIND * min(len(rows), _MOST_TEXTS) else list(rows)
