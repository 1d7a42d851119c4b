"""Conclusion of a report: what got worse, when, how soon it was found, and by which release."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from rich.table import Table
from rich.text import Text

from gapwatch.scorers.printable import shown
from gapwatch.sinks.reading.release_rates import ReleaseRate
from gapwatch.sinks.reading.terminal_table import moment_text
from gapwatch.streams.alerting.incidents.alert_facts import AlertFacts
from gapwatch.streams.alerting.incidents.severity import SEVERITIES
from gapwatch.streams.alerting.incidents.stored_alerts import StoredAlert
from gapwatch.streams.alerting.incidents.wording import (
    amount_text,
    before_text,
    headline,
    limits_text,
    quantile_move,
    share_name,
    size,
    subject,
)
from gapwatch.streams.reports.outcome_table import report_table

#: Share of the excess from which a release, model or tier is named as the one that brought the change.
_MOST_OF_IT = 0.5


def by_urgency(alerts: Sequence[StoredAlert]) -> list[StoredAlert]:
    """Return open alerts: pages first; of one severity those with a dated change first; then by the time found."""
    open_ones = [alert for alert in alerts if alert.is_open]
    return sorted(open_ones, key=_urgency)


def _urgency(alert: StoredAlert) -> tuple[int, bool, datetime, float, str]:
    facts = alert.facts
    # Of two alerts that were found together, the one that more traces show comes first.
    share = 0.0 if facts.after is None or facts.after.value is None else facts.after.value
    return -SEVERITIES.index(alert.row.severity), facts.change is None, alert.row.found_at, -share, alert.row.metric


def change_lines(alerts: Sequence[StoredAlert]) -> Iterator[tuple[str, str]]:
    """Yield the conclusion from the open alerts, as pairs of a word and its sentence.

    Args:
        alerts: Open alerts, the most urgent first; at least one.
    """
    first = alerts[0]
    change = first.facts.change
    yield "What", f"{subject(first)}: {_move(first.facts)}"
    others = list(dict.fromkeys(one.row.metric for one in alerts[1:]))
    if others:
        listed = ", ".join(others[:4]) + (", ..." if len(others) > 4 else "")
        yield "", f"with it {len(alerts) - 1} more alert{'s' if len(alerts) > 2 else ''}, on {listed}"
    if change is None:
        yield "Found", f"{moment_text(first.row.found_at, 'seconds')}, by event time"
    else:
        span = f"{_clock(change.earliest, change.at)} to {_clock(change.latest, change.at)}"
        yield "When", f"{moment_text(change.at, 'seconds')} (95 %: {span})"
        # The first alert of the change may be another one, such as a bound, which dates nothing.
        together = [
            a for a in alerts if a.row.incident_id == first.row.incident_id and a.row.found_at >= change.earliest
        ]
        found = min((a.row.found_at for a in together), default=first.row.found_at)
        delay = _duration(found - change.earliest)
        yield "Found", f"at {_clock(found, change.at)}, at most {delay} after it, by event time"
    yield from _brought_by(first)


def _brought_by(alert: StoredAlert) -> Iterator[tuple[str, str]]:
    """Yield the release, or else the model or tier, that holds most of the excess: a new one, or one of several.

    Where no such part is known, yield a release or model that was first seen near the change.
    """
    cause = alert.facts.cause
    if cause is None:
        return
    for facet in ("release", "model", "tier"):
        parts = cause.shares.get(facet, ())
        part = next(iter(parts), None)
        new = next((one for one in cause.new if part and (one.facet, one.value) == (facet, part.value)), None)
        if part is None or part.share < _MOST_OF_IT:
            continue
        # The only release there has always been says nothing.
        if new is not None or not part.before_units or len(parts) > 1:
            since = "" if new is None else f", first seen at {moment_text(new.at, 'seconds')[11:]}"
            yield "By", f"{facet} {shown(part.value)}{since}: {min(part.share, 1.0):.0%} of the excess"
            return
    if cause.new:
        one = cause.new[0]
        yield "New", f"{one.facet} {shown(one.value)}, first seen at {moment_text(one.at, 'seconds')[11:]}"


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


def change_table(alerts: Sequence[StoredAlert], with_ids: bool) -> Table:
    """Return a table of the open alerts: each series before its change and since.

    Args:
        alerts: Open alerts.
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
    for alert in alerts:
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
        cells = [Text(alert.row.severity, style), name, Text(before), Text(now, "bold")]
        cells += [Text(interval, "dim"), Text(moment_text(alert.row.found_at, "seconds")[11:16] + "Z")]
        if with_ids:
            began = "" if alert.began_at is None else moment_text(alert.began_at, "seconds")[11:16] + "Z"
            cells += [Text(headline(facts)), Text(began), Text(alert.row.alert_id, "dim")]
        table.add_row(*cells)
    return table
