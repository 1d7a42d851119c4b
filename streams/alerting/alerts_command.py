"""`gapwatch alerts`: what moved, which way, how much, since when; and one page on a single alert."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import duckdb

from scorers.problem_list import shown
from sinks.answer import ask
from sinks.answer_table import Column, component_text, moment_text, print_note, print_table
from sinks.command_options import format_option, lane_option, metric_option, reading, store_option
from sinks.since import parse_since
from streams.alerting.alert_reading import Alert, find_alert, read_alerts
from streams.alerting.alert_words import headline, size
from streams.alerting.explain import print_explanation, rows_sql


@click.command("alerts")
@store_option
@click.option("--explain", "explained", metavar="ALERT", help="One page on this alert: its id, or how that begins.")
@click.option("--all", "show_all", is_flag=True, help="Closed ones and notes, too. Default: what is open.")
@metric_option
@lane_option
@click.option(
    "--since", metavar="WHEN",
    help="Only what changed since: 15m, 2h, 7d before now, or ISO 8601 (UTC). By event time. Default: all.",
)  # fmt: skip
@format_option
def alerts_command(
    store: Path,
    explained: str | None,
    show_all: bool,
    metric: str | None,
    lane: str | None,
    since: str | None,
    form: str,
) -> None:
    """Show the alerts of a store: what moved, which way, how much and since when.

    Alerts that began together stand together. A share in brackets is a 95 % interval. `gapwatch replay --alerts`
    raises them on files, `gapwatch run` on a stream.
    """
    begin = parse_since(since, datetime.now(UTC)) if since is not None else None
    with reading(store) as con:
        if explained is not None:
            _explain(con, store, find_alert(con, explained), form)
            return
        conditions = {name: value for name, value in (("metric", metric), ("lane", lane)) if value is not None}
        alerts = read_alerts(con, conditions, begin)
        chosen = [alert for alert in alerts if show_all or alert.is_open]
        if form == "json":
            sys.stdout.write(json.dumps([_as_json(alert) for alert in chosen], indent=1) + "\n")
            return
        _print_alerts(chosen, closed=len(alerts) - len(chosen))
        _print_watched(con, lane)


def _explain(con: duckdb.DuckDBPyConnection, store: Path, alert: Alert, form: str) -> None:
    if form == "json":
        sys.stdout.write(json.dumps(_as_json(alert), indent=1) + "\n")
    else:
        print_explanation(con, store, alert)


def _as_json(alert: Alert) -> dict[str, Any]:
    times = {
        name: value.isoformat() + "Z" if isinstance(value, datetime) else value for name, value in alert.row.items()
    }
    return {**times, **alert.told, "rows_sql": rows_sql(alert)}


def _print_alerts(alerts: list[Alert], closed: int) -> None:
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
        Column("failing"),
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


def _print_watched(con: duckdb.DuckDBPyConnection, lane: str | None) -> None:
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
