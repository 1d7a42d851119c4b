"""Facts that people are told of an incident: the only builder of them, for store, messages, Prometheus and explain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any

from gapwatch.scorers.portfolio.metric import Metric
from gapwatch.scorers.printable import shown
from gapwatch.sinks.incidents.worst_rows import WORDS, WorstRow, worst_rows
from gapwatch.sinks.reading.terminal_table import component_text
from gapwatch.sinks.store.store_reader import StoreReader
from gapwatch.sinks.store.utc_text import utc_text
from gapwatch.streams.alerting.incidents.alert_facts import AlertFacts
from gapwatch.streams.alerting.incidents.component_graph import ComponentGraph
from gapwatch.streams.alerting.incidents.first_component import moved_from
from gapwatch.streams.alerting.incidents.likely_cause import likeliest_cause
from gapwatch.streams.alerting.incidents.severity import SEVERITIES
from gapwatch.streams.alerting.incidents.stored_alerts import StoredAlert
from gapwatch.streams.alerting.incidents.wording import (
    amount_text,
    before_text,
    counted_text,
    kind_text,
    limits_text,
    metric_text,
    quantile_ends,
    share_name,
)

#: Rows that a message names.
_ROWS = 3
# Metrics that a message names; the list of alerts has all of them.
_METRICS = 5
# Most components that may have moved first.
_FIRST = 3


@dataclass(frozen=True)
class Told:
    """Texts that people are told of an incident; empty where a text does not apply.

    Attributes:
        name: Metric that began to move first, its component, and the number of further metrics.
        what: Kind and direction: `SHIFT worse`, `BOUND broken`, `CASCADE polarity unknown`.
        share: The units whose share moved, such as `failing traces`.
        before: Share or number before; for a bound the limit.
        after: Share or number since.
        ratio: `after` over `before` with its interval; empty for numbers and bounds.
        interval: 95 % interval of `after`, as a share of the units.
        since: Most likely begin, UTC.
        between: 95 % set of the begin, UTC.
        units: Number of units since, and of those that moved.
        first: Component that moved first; several where neither their times nor the graph order them.
        cause: Likeliest cause: a release, model or tier with most of the excess, or what was new near the begin.
        metrics: The metrics that moved.
        rows: The worst rows: trace id, time, and the first words of the trace, redacted.
    """

    name: str
    what: str
    share: str
    before: str
    after: str
    ratio: str
    interval: str
    since: str
    between: str
    units: str
    first: str
    cause: str
    metrics: str
    rows: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the texts as JSON values."""
        return {**asdict(self), "rows": list(self.rows)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Told:
        """Return the texts from `to_json`; empty ones for an incident of an earlier version."""
        texts = {name: value.get(name, "") for name in cls.__dataclass_fields__ if name != "rows"}
        return cls(**texts, rows=tuple(value.get("rows", ())))


def told_move(told: Told) -> str:
    """Return what moved in one line: size, interval, begin and first component; empty without facts."""
    move = " -> ".join(one for one in (told.before, told.after) if one)
    if not move:
        return ""
    interval = f" [{told.interval}]" if told.interval else ""
    since = f", since {told.since}" if told.since else ""
    return f"{told.share} {move}{interval}{since}, first in {told.first}"


def told_lines(told: Told) -> dict[str, list[str]]:
    """Return the texts as lines of a page, by the title of their section."""
    move = " -> ".join(one for one in (told.before, told.after) if one)
    size = [
        f"{told.share}: {move}" if move else told.share,
        *([f"{told.ratio} as often as before"] if told.ratio else []),
        *([f"since the change {told.units}"] if told.units else []),
        *([f"95 % interval: {told.interval}"] if told.interval else []),
    ]
    between = f" (95 %: {told.between})" if told.between else ""
    return {
        "What": [one for one in size if one],
        "Since": [f"{told.since}{between}"] if told.since else ["a bound does not tell when it began"],
        "First": [f"{told.first} moved first, or lies upstream of what may have moved at the same time"],
        "Why": [one for one in (told.cause, f"moved: {told.metrics}" if told.metrics else "") if one],
        "Rows": list(told.rows),
    }


def lead_of(members: Sequence[StoredAlert], first: str | None) -> StoredAlert:
    """Return the alert whose facts stand for its incident: open, of the first component, loudest, found first."""
    return min(
        members,
        key=lambda one: (
            not one.is_open,
            one.row.component != first,
            -SEVERITIES.index(one.row.severity),
            one.facts.change is None,
            one.row.found_at,
            one.row.alert_id,
        ),
    )


def incident_kind(members: Sequence[StoredAlert], graph: ComponentGraph) -> str:
    """Return the kind of an incident.

    It is a cascade where a step went from one way to another, or where the change moved along edges of the graph; else
    a shift where a share or numbers differ from their baseline; else a bound; else unknown.
    """
    kinds = {one.facts.kind for one in members}
    moved = {one.component for one in moved_from(members)}
    if "cascade" in kinds or graph.moved_along(moved):
        return "cascade"
    return next((kind for kind in ("shift", "bound", "unknown") if kind in kinds), "shift")


def polarity_of_all(members: Sequence[StoredAlert]) -> str | None:
    """Return worse where one of the alerts is worse, else unknown where one is, else better; None without any."""
    found = {one.facts.polarity for one in members}
    return next((one for one in ("worse", "unknown", "better") if one in found), None)


def build_told(
    members: Sequence[StoredAlert],
    lead: StoredAlert,
    first: Sequence[str],
    graph: ComponentGraph,
    metric: Metric | None = None,
) -> Told:
    """Return what people are told of an incident, without its worst rows: `with_worst_rows` reads those.

    Args:
        members: Alerts of the incident, at least one; those that are over among them.
        lead: Alert whose facts stand for the incident.
        first: Components that may have moved first.
        graph: Graph of the pipeline.
        metric: Metric of `lead`; None where its portfolio is not known.
    """
    named: Sequence[str | None] = first[:_FIRST] or [lead.row.component]
    facts, change = lead.facts, lead.facts.change
    metrics = list(dict.fromkeys(_subject(one) for one in members))
    more = len(metrics) - 1
    before, after = _ends(facts)
    return Told(
        name=_subject(lead) + (f" and {more} more" if more else ""),
        what=kind_text(incident_kind(members, graph), polarity_of_all(members)),
        share=share_name(facts),
        before=before,
        after=after,
        ratio=_ratio(facts),
        interval=limits_text(facts, " to "),
        since="" if change is None else utc_text(change.at),
        between="" if change is None else f"{utc_text(change.earliest)} to {utc_text(change.latest)}",
        units=_units(facts),
        first=" or ".join(shown(component_text(one)) for one in named),
        cause=likeliest_cause(lead, metric),
        metrics=", ".join(metrics[:_METRICS])
        + (f" and {len(metrics) - _METRICS} more" if len(metrics) > _METRICS else ""),
        rows=(),
    )


def with_worst_rows(told: Told, con: StoreReader, lead: StoredAlert, end: datetime) -> Told:
    """Return the texts with the worst rows behind an alert.

    Args:
        told: Texts of the incident.
        con: Connection that reads the store, in the transaction that holds the rows.
        lead: Alert whose facts stand for the incident.
        end: End of event time of the rows, naive UTC, exclusive.
    """
    row = lead.row
    worst = worst_rows(
        con, row.lane, lead.series, lead.rows_behind, lead.rows_since, end, _ROWS, is_high=lead.facts.went_up
    )
    return replace(told, rows=tuple(_row_text(one) for one in worst))


def _subject(alert: StoredAlert) -> str:
    return f"{shown(metric_text(alert))} of {shown(component_text(alert.row.component))}"


def _ends(facts: AlertFacts) -> tuple[str, str]:
    """Return the share or number before and since; for a bound its limit and the rate."""
    after = "" if facts.after is None else amount_text(facts, facts.after.value)
    if facts.bound is not None:
        return f"promised {facts.bound.operator} {amount_text(facts, facts.bound.value)}", after
    return quantile_ends(facts) or (before_text(facts), after)


def _ratio(facts: AlertFacts) -> str:
    ratio = facts.ratio
    if ratio is None or facts.part is not None:
        return ""
    if ratio.value is None:
        return f"at least {ratio.lower:.3g} times" if ratio.lower is not None and ratio.lower > 1 else ""
    ends = ["?" if end is None else f"{end:.3g}" for end in (ratio.lower, ratio.upper)]
    return f"{ratio.value:.3g} times [{ends[0]}, {ends[1]}]"


def _units(facts: AlertFacts) -> str:
    if facts.counts is None:
        return ""
    return counted_text(facts)


def _row_text(row: WorstRow) -> str:
    return f"{shown(row.trace_id)} of {row.at:%H:%M:%SZ}: {shown(row.words, WORDS) or 'no text'}"
