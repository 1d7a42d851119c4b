"""The list of alerts for people, with what stands behind the silence; and both as JSON for programs."""

from __future__ import annotations

import json
import sys
from datetime import datetime
from typing import Any

from scorers.portfolio import parse_portfolio
from scorers.problem_list import shown
from sinks.answer import ask
from sinks.answer_table import Column, component_text, moment_text, print_note, print_table, share_text
from sinks.keeping import Connection
from streams.alerting.alert_reading import Alert
from streams.alerting.alert_words import headline, size
from streams.alerting.explain import rows_sql


def print_json(alerts: list[Alert]) -> None:
    """Print alerts as an array of objects."""
    sys.stdout.write(json.dumps([_as_json(alert) for alert in alerts], indent=1) + "\n")


def _as_json(alert: Alert) -> dict[str, Any]:
    times = {
        name: value.isoformat() + "Z" if isinstance(value, datetime) else value for name, value in alert.row.items()
    }
    return {**times, **alert.told, "rows_sql": rows_sql(alert)}


def print_alerts(alerts: list[Alert], closed: int) -> None:
    """Print alerts as a table, those that began together one below the other.

    Args:
        alerts: To be shown.
        closed: How many there are that are not.
    """
    others = f"; {closed} closed or noted, --all shows them" if closed else ""
    if not alerts:
        print_note(f"no alert is open{others}")
        return
    columns = [
        Column("alert", whole=True),
        Column("severity", whole=True),
        Column("state", whole=True),
        Column("component"),
        Column("metric", whole=True),
        Column("what"),
        Column("failing, or how it moved"),
        Column("since", whole=True),
        Column("found", whole=True),
    ]
    print_table(columns, [_cells(alert) for alert in alerts], upright=True)
    groups = len({alert.row["group_id"] for alert in alerts})
    sys.stdout.write(
        f"\n{len(alerts)} {'alert' if len(alerts) == 1 else 'alerts'} in {groups} "
        f"{'group' if groups == 1 else 'groups'} (what began together){others}\n"
    )


def _cells(alert: Alert) -> list[str]:
    row, began = alert.row, alert.began_at
    return [
        row["alert_id"],
        row["severity"],
        row["state"],
        component_text(row["component"]),
        row["metric"],
        headline(alert),
        size(alert.told),
        "-" if began is None else moment_text(began, "seconds"),
        moment_text(row["found_at"], "seconds"),
    ]


def print_watched(con: Connection, lane: str | None) -> None:
    """Say what stands behind the silence: which series are watched, and which only seem to be."""
    where, values = ("WHERE lane = ?", [lane]) if lane is not None else ("", [])
    rows = ask(
        con,
        f"""SELECT phase, count(*) AS n, sum(expected_false_alarms) AS expected FROM watched {where}
        GROUP BY ALL ORDER BY 1""",
        values,
    ).objects()
    if not rows:
        print_note("no series is watched: nothing was kept by gapwatch run or gapwatch replay --alerts")
        return
    phases = ", ".join(f"{row['n']} {shown(row['phase'])}" for row in rows)
    expected = sum(row["expected"] or 0.0 for row in rows)
    sys.stdout.write(
        f"{sum(row['n'] for row in rows)} series watched: {phases}; "
        f"false alarms to expect so far: {expected:.2g} at most\n"
    )


def print_unwatched(con: Connection, lane: str | None) -> None:
    """Name what nobody sees: metrics that decided no trace of their pipeline, and components without a span."""
    portfolios = [parse_portfolio(row["yaml"]) for row in ask(con, _PORTFOLIOS).objects()]
    where, values = ("AND lane = ?", [lane]) if lane is not None else ("", [])
    seen = ask(
        con,
        f"""SELECT pipeline, component, metric, bool_or(level = 'unit' AND outcome IN ('good', 'bad')) AS is_decided
        FROM ticks WHERE facet = 'all' {where} GROUP BY ALL""",
        values,
    ).objects()
    pipelines = {row["pipeline"] for row in seen}
    decided = {(row["pipeline"], row["metric"]) for row in seen if row["is_decided"]}
    components = {(row["pipeline"], row["component"]) for row in seen}
    missing = [
        f"{metric.name} of {component_text(metric.component)} (no trace was decided)"
        for one in portfolios
        if one.pipeline in pipelines
        for metric in one.metrics
        if metric.claim.form != "ratio" and (one.pipeline, metric.name) not in decided
    ]
    missing += [
        f"component {component.id} (no span was looked at)"
        for one in portfolios
        if one.pipeline in pipelines
        for component in one.components
        if (one.pipeline, component.id) not in components
    ]
    if missing:
        sys.stdout.write(f"unwatched: {shown(', '.join(missing), 1000)}\n")


def print_rows(con: Connection, lane: str | None) -> None:
    """Print each watched row: what it is held against, and what it could not have seen."""
    where, values = ("WHERE lane = ?", [lane]) if lane is not None else ("", [])
    rows = ask(
        con,
        f"""SELECT component, metric, kind, phase, direction, rate, units, smallest_ratio, is_blind, evidence_log10,
            least(coalesce(ticket_log10, 999), coalesce(page_log10, 999)) AS limit_log10
        FROM watched {where} ORDER BY pipeline, environment, rowid""",
        values,
    ).objects()
    columns = [
        Column("component"), Column("metric", whole=True), Column("watched", whole=True), Column("phase", whole=True),
        Column("bad way"), Column("held against", whole=True), Column("units", whole=True),
        Column("would see in a day", whole=True), Column("evidence", whole=True),
    ]  # fmt: skip
    if rows:
        print_table(columns, [_watched_cells(row) for row in rows], upright=True)


def _watched_cells(row: dict[str, Any]) -> list[str]:
    ratio, evidence = row["smallest_ratio"], row["evidence_log10"]
    return [
        component_text(row["component"]),
        row["metric"],
        row["kind"],
        row["phase"],
        row["direction"],
        share_text(row["rate"]),
        f"{row['units']:,}",
        "nothing yet" if ratio is None else f"x{ratio:.3g}" + (" (blind)" if row["is_blind"] else ""),
        _progress(max(evidence or 0.0, 0.0) / row["limit_log10"]),
    ]


def _progress(share: float) -> str:
    return f"{share:.0%}" if share < 1 else "reached"


_PORTFOLIOS = "SELECT arg_max(yaml, first_seen_at) AS yaml FROM portfolios GROUP BY pipeline ORDER BY pipeline"
