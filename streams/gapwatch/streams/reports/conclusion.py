"""Conclusion of a report: what got worse, when, how soon it was found, and by which release."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta

from rich.table import Table
from rich.text import Text

from gapwatch.scorers.printable import shown
from gapwatch.sinks.catalog.phases import PHASES
from gapwatch.sinks.incidents.incident_query import incident_rows
from gapwatch.sinks.reading.release_rates import ReleaseRate
from gapwatch.sinks.reading.terminal_table import moment_text
from gapwatch.sinks.reading.watched_series import WatchedStanding
from gapwatch.sinks.store.store_reader import StoreReader
from gapwatch.streams.alerting.incidents.alert_facts import AlertFacts
from gapwatch.streams.alerting.incidents.severity import SEVERITIES
from gapwatch.streams.alerting.incidents.stored_alerts import StoredAlert, StoredIncident, read_incident
from gapwatch.streams.alerting.incidents.told import Told, lead_of
from gapwatch.streams.alerting.incidents.wording import (
    amount_text,
    before_text,
    headline,
    limits_text,
    metric_text,
    quantile_move,
    share_name,
    size,
    subject,
)
from gapwatch.streams.reports.outcome_table import report_table


def by_urgency(alerts: Sequence[StoredAlert]) -> list[StoredAlert]:
    """Return open alerts: pages first; of one severity those with a dated change first; then by the time found."""
    open_ones = [alert for alert in alerts if alert.is_open]
    return sorted(open_ones, key=_urgency)


def _urgency(alert: StoredAlert) -> tuple[int, bool, datetime, float, str]:
    facts = alert.facts
    # Of two alerts that were found together, the one that more traces show comes first.
    share = 0.0 if facts.after is None or facts.after.value is None else facts.after.value
    return -SEVERITIES.index(alert.row.severity), facts.change is None, alert.row.found_at, -share, alert.row.metric


def incidents_by_urgency(con: StoreReader, pipeline: str) -> list[StoredIncident]:
    """Return the open incidents of a pipeline in the order of their most urgent alerts, blind ones last."""
    now = datetime.now(UTC).replace(tzinfo=None)
    rows = [one.step for one in incident_rows(con, now) if one.is_open and one.step.pipeline == pipeline]
    found = [one for one in (read_incident(con, row.incident_id) for row in rows) if one is not None]
    return sorted(found, key=lambda one: (is_blind(one), _urgency(_lead(one))))


def is_blind(incident: StoredIncident) -> bool:
    """Return whether all that an incident says is that traces cannot be decided: nothing is known to have broken."""
    return all(alert.facts.kind == "unknown" for alert in incident.alerts if alert.is_open)


def _lead(incident: StoredIncident) -> StoredAlert:
    return lead_of(incident.alerts, incident.row.step.component)


def counts_text(incidents: Sequence[StoredIncident]) -> str:
    """Return how many incidents are open, by severity, and their number of open alerts."""
    severities = [one.row.step.severity for one in incidents]
    counts = [
        f"{severities.count(one)} {one}{'' if severities.count(one) == 1 else 's'}"
        for one in reversed(SEVERITIES)
        if one in severities
    ]
    alerts = sum(alert.is_open for one in incidents for alert in one.alerts)
    noun = "an incident" if len(incidents) == 1 else f"{len(incidents)} incidents"
    return f"{' and '.join(counts)} open at the end of the traces: {noun} of {alerts} alert{'s' if alerts > 1 else ''}"


def change_lines(incidents: Sequence[StoredIncident]) -> Iterator[tuple[str, str]]:
    """Yield the conclusion from the open incidents, as pairs of a word and its sentence.

    Args:
        incidents: Open incidents, the most urgent first; at least one.
    """
    incident = incidents[0]
    lead, told = _lead(incident), Told.from_json(incident.row.step.told)
    change = lead.facts.change
    yield "What", f"{subject(lead)}: {_move(lead.facts)}"
    others = [one for one in incident.alerts if one.is_open and one is not lead]
    if others:
        yield "", f"with it {len(others)} more alert{'s' if len(others) > 1 else ''}, on {_listed(others)}"
    if change is None:
        yield "Found", f"{moment_text(lead.row.found_at, 'seconds')}, by event time"
    else:
        span = f"{_clock(change.earliest, change.at)} to {_clock(change.latest, change.at)}"
        yield "When", f"{moment_text(change.at, 'seconds')} (95 %: {span})"
        # The first alert of the change may be another one, such as a bound, which dates nothing.
        later = (one.row.found_at for one in incident.alerts if one.row.found_at >= change.earliest)
        found = min(later, default=lead.row.found_at)
        delay = _duration(found - change.earliest)
        yield "Found", f"at {_clock(found, change.at)}, at most {delay} after it, by event time"
    if told.first and len({one.row.component for one in incident.alerts}) > 1:
        yield "First", told.first
    if told.cause:
        yield "Why", told.cause
    for other in incidents[1:]:
        step = other.row.step
        since = "" if step.since is None else f", since {moment_text(step.since, 'seconds')}"
        word = "Blind" if is_blind(other) and not is_blind(incident) else "Also"
        yield word, f"{step.severity} {step.incident_id}: {shown(step.name, 120)}{since}"


def _listed(alerts: Sequence[StoredAlert]) -> str:
    names = list(dict.fromkeys(map(metric_text, alerts)))
    return ", ".join(names[:4]) + (", ..." if len(names) > 4 else "")


def _move(facts: AlertFacts) -> str:
    if facts.bound is not None and facts.bound.of != "failure_rate":
        return f"{share_name(facts)} {size(facts)}"
    if quantile_move(facts) or facts.part is not None:
        return size(facts)
    move, _, bound = size(facts).partition(", bound ")
    state = "are undecided" if facts.kind == "unknown" else "fail"
    return f"{move} of the {facts.unit}s {state}" + (f"; promised: {bound}" if bound else "")


def _clock(moment: datetime, beside: datetime) -> str:
    """Return a time; without its date where that is the date of another time."""
    text = moment_text(moment, "seconds")
    return text[11:] if moment.date() == beside.date() else text


def _duration(time: timedelta) -> str:
    minutes = time.total_seconds() / 60
    if minutes < 2:
        return f"{time.total_seconds():.0f} seconds"
    return f"{minutes:.0f} minutes" if minutes < 120 else f"{minutes / 60:.1f} hours"


def quiet_text(has_rules: bool, looked: bool) -> str:
    """Return the conclusion where no alert is open.

    Args:
        has_rules: A metric of the portfolio asks for an alert.
        looked: Shifts were looked for.
    """
    if not has_rules:
        return "No metric asks for an alert, so nobody would have been told of anything."
    if not looked:
        return "Shifts were not looked for: --alerts does that, by event time."
    return "No alert is open at the end of the traces."


def watch_text(rows: Sequence[WatchedStanding]) -> str:
    """Return how many series are monitored by phase, and the changes that a month of their traces would show.

    Args:
        rows: State of the series; empty where shifts were not looked for.
    """
    watched = [row for row in rows if row.phase != "unwatched"]
    if not watched:
        return ""
    phases = [row.phase for row in watched]
    counts = ", ".join(f"{phases.count(phase)} {phase}" for phase in PHASES if phase in phases)
    seen = sorted((row.month_ratio, _quantity(row)) for row in watched if row.month_ratio is not None)
    ends = [f"x{ratio:.3g} ({shown(name)})" for ratio, name in dict.fromkeys((seen[0], seen[-1]))] if seen else []
    month = f"; a month of these traces shows a change of {' to '.join(ends)} or more" if ends else ""
    return f"{len(watched)} series monitored: {counts}{month}."


def _quantity(row: WatchedStanding) -> str:
    return f"undecided traces of {row.metric}" if row.kind == "unknown" else row.metric


def releases_text(rows: Sequence[ReleaseRate], worse: Sequence[ReleaseRate]) -> str:
    """Return a sentence on the release that differs most for the worse; empty without one.

    Args:
        rows: Releases that differ.
        worse: Those of `rows` that are worse.
    """
    if not worse:
        return ""
    name = worse[0].release
    mine = [row for row in worse if row.release == name]
    metrics = ", ".join(row.metric for row in mine[:4]) + (", ..." if len(mine) > 4 else "")
    several = "" if len(mine) == 1 else "s"
    return f"Release {shown(name)} is worse than all other releases together in {len(mine)} metric{several}: {metrics}."


def by_metric(alerts: Sequence[StoredAlert]) -> list[list[StoredAlert]]:
    """Return the alerts of each metric of a component and environment, in the order of their first ones.

    Of one metric that what it claims comes before the share of undecided traces, which is why it cannot be seen.
    """
    groups: dict[tuple[str | None, str, str], list[StoredAlert]] = {}
    for alert in alerts:
        groups.setdefault((alert.row.component, alert.row.metric, alert.row.environment), []).append(alert)
    return [sorted(mine, key=lambda alert: alert.facts.kind == "unknown") for mine in groups.values()]


def change_table(alerts: Sequence[StoredAlert], with_ids: bool) -> Table:
    """Return a table of the open alerts, a line for each metric: before its change and since.

    Args:
        alerts: Open alerts, the most urgent first.
        with_ids: Add the columns `kind`, `began` and `alert`.
    """
    more = ("kind", "began", "alert") if with_ids else ()
    table = report_table(
        "",
        "metric",
        ">before",
        ">since",
        "95 % CI",
        "found",
        *more,
        names=(0, 1, 4, 5, *range(6, 6 + len(more))),
    )
    for alert, *others in by_metric(alerts):
        facts = alert.facts
        style = "bold red" if alert.row.severity == "page" else "yellow"
        before = before_text(facts)
        now, interval = "", ""
        if facts.after is not None:
            now = amount_text(facts, facts.after.value)
            interval = f"[{limits_text(facts)}]"
        if facts.bound is not None:
            before = f"{facts.bound.operator} {amount_text(facts, facts.bound.value)}"
        name = Text(alert.row.metric)
        if share_name(facts) != f"failing {facts.unit}s":  # not the share of failing traces
            name.append(f"\n  {share_name(facts)}", "dim")
        for other in others:
            name.append(f"\n  also {share_name(other.facts)}", "dim")
        cells = [Text(alert.row.severity, style), name, Text(before), Text(now, "bold")]
        cells += [Text(interval, "dim"), Text(moment_text(alert.row.found_at, "seconds")[11:16] + "Z")]
        if with_ids:
            began = "" if alert.began_at is None else moment_text(alert.began_at, "seconds")[11:16] + "Z"
            cells += [Text(headline(facts)), Text(began), Text(alert.row.alert_id, "dim")]
        table.add_row(*cells)
    return table
