"""`gapwatch alerts` lists alerts and monitored series; `gapwatch explain` prints one page on an alert."""

from __future__ import annotations

from datetime import UTC, datetime

import click

from gapwatch.sinks.api.store_address import StorePlace
from gapwatch.sinks.commands.options import (
    format_option,
    lane_option,
    metric_option,
    reading,
    store_of_alerts,
    store_option,
)
from gapwatch.sinks.reading.since import parse_since


@click.command("alerts")
@store_option
@click.option("--all", "show_all", is_flag=True, help="List closed alerts and notes as well. Default: open alerts.")
@click.option(
    "--watched", "show_watched", is_flag=True,
    help="List every monitored series as well: phase, baseline, minimum detectable change in a day's "
    "and in a month's traces; and every bound with what was seen.",
)  # fmt: skip
@metric_option
@lane_option
@click.option(
    "--since", metavar="WHEN",
    help="Only changes since: 15m, 2h, 7d before now, or ISO 8601 (UTC). By event time. Default: all.",
)  # fmt: skip
@format_option
def alerts_command(
    store: StorePlace,
    show_all: bool,
    show_watched: bool,
    metric: str | None,
    lane: str | None,
    since: str | None,
    form: str,
) -> None:
    """List the incidents of a store, each with its alerts: metric, direction, size and begin of each change.

    An incident holds the alerts of series that moved together. Brackets hold a 95 % interval. `gapwatch replay
    --alerts` raises alerts on files, `gapwatch run` on a stream.
    """
    # Not above: --help must not wait for the engine.
    from gapwatch.sinks.incidents.incident_query import incident_rows
    from gapwatch.sinks.reading.alert_query import AlertFilter
    from gapwatch.streams.alerting.incidents.stored_alerts import read_alerts
    from gapwatch.streams.alerting.triage.alert_list import print_alerts, print_json
    from gapwatch.streams.alerting.triage.series_list import (
        print_bounds,
        print_monitored_series,
        print_open_sessions,
        print_phase_counts,
        print_session_openings,
        print_unmonitored,
    )

    now = datetime.now(UTC)
    begin = parse_since(since, now) if since is not None else None
    with reading(store_of_alerts(store, "alerts")) as con:
        wanted = AlertFilter(lane=lane, metric=metric, since=begin)
        alerts = read_alerts(con, wanted)
        chosen = [alert for alert in alerts if show_all or alert.is_open]
        if form == "json":
            print_json(chosen)
            return
        incidents = {row.step.incident_id: row for row in incident_rows(con, now.replace(tzinfo=None), lane)}
        print_alerts(chosen, incidents, closed=len(alerts) - len(chosen), is_part=not wanted.is_any)
        if show_watched:
            print_monitored_series(con, lane)
            print_open_sessions(con, lane)
            print_session_openings(con, lane)
            print_bounds(con, lane)
        print_phase_counts(con, lane)
        print_unmonitored(con, lane)


@click.command("explain")
@click.argument("alert", metavar="ALERT")
@store_option
@click.option("--rows", "show_rows", is_flag=True, help="List the rows behind the alert instead, the first 200.")
@format_option
def explain_command(alert: str, store: StorePlace, show_rows: bool, form: str) -> None:
    """Print one page on ALERT, an alert or an incident: size, begin, evidence, likely cause, rows, what to do.

    ALERT is an id or its first characters; the letter `a` or `i` at its begin may be left out.
    """
    # Not above: --help must not wait for the engine.
    from gapwatch.streams.alerting.incidents.stored_alerts import StoredIncident, find
    from gapwatch.streams.alerting.incidents.told import lead_of
    from gapwatch.streams.alerting.triage.alert_list import print_incident_json, print_json, print_rows
    from gapwatch.streams.alerting.triage.explain import print_explanation
    from gapwatch.streams.alerting.triage.explain_incident import print_incident

    with reading(store_of_alerts(store, "explain")) as con:
        found = find(con, alert)
        if isinstance(found, StoredIncident):
            if show_rows:
                print_rows(con, lead_of(found.alerts, found.row.step.component), form)
            elif form == "json":
                print_incident_json(found)
            else:
                print_incident(con, store, found)
        elif show_rows:
            print_rows(con, found, form)
        elif form == "json":
            print_json([found])
        else:
            print_explanation(con, store, found)
