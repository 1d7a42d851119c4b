"""Labels of `gapwatch_alert_info`: what a page of Prometheus or Alertmanager says about an open alert."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.sinks.reading.alert_query import AlertFilter, alert_life, alert_states
from gapwatch.sinks.reading.terminal_table import moment_text, share_text
from gapwatch.sinks.store.transaction import Connection
from gapwatch.sinks.store.utc_text import utc_text
from gapwatch.streams.alerting.incidents.links import AlertLinks, runbook_link, trace_link
from gapwatch.streams.alerting.incidents.stored_alerts import StoredAlert, read_alerts
from gapwatch.streams.alerting.triage.wording import before_text, share_name, size

#: Most open alerts with labels. Each is one series for Prometheus; the rest are on the page and in the store.
MOST_ALERTS = 200

#: One text for each label of the family.
Labels = tuple[str, ...]


class AlertInfo:
    """Samples of the open alerts of a lane; they are read from the store again when an alert has changed its state.

    Args:
        links: Places where a person finds more.
    """

    def __init__(self, links: AlertLinks) -> None:
        self.links = links
        self._states: dict[str, str] | None = None
        self._samples: dict[Labels, float] = {}

    def samples(
        self, con: Connection, lane: str, portfolios: tuple[Portfolio, ...], environment: Callable[[str], str]
    ) -> dict[Labels, float]:
        """Return the samples of `gapwatch_alert_info`, pages first.

        Args:
            con: Connection for reading.
            lane: Lane of the alerts.
            portfolios: Portfolios in force, for the addresses of runbooks and traces.
            environment: Returns the label value of an environment.
        """
        states = alert_states(con, lane, datetime.now(UTC).replace(tzinfo=None))
        if states != self._states:
            known = {portfolio.pipeline: portfolio for portfolio in portfolios}
            open_now = [alert for alert in read_alerts(con, AlertFilter(lane=lane)) if alert.is_open]
            open_now.sort(key=lambda alert: alert.row.severity != "page")
            self._samples = {
                self._labels(con, alert, known.get(alert.row.pipeline), environment): 1.0
                for alert in open_now[:MOST_ALERTS]
            }
            self._states = states
        return self._samples

    def _labels(
        self, con: Connection, alert: StoredAlert, portfolio: Portfolio | None, environment: Callable[[str], str]
    ) -> Labels:
        row, facts = alert.row, alert.facts
        after, cause = facts.after, facts.cause
        last = alert_life(con, row.alert_id)[-1] if row.state != "open" else None
        examples = cause.examples if cause is not None else ()
        began = alert.began_at
        return (
            row.pipeline, environment(row.environment), row.component or "", row.metric, row.judge or "",
            row.alert_id, facts.kind, row.severity, row.state, share_name(facts), size(facts),
            before_text(facts),
            share_text(after.value) if after is not None else "",
            f"{share_text(after.lower)} to {share_text(after.upper)}" if after is not None else "",
            utc_text(began) if began is not None else "", utc_text(row.found_at),
            self.links.store, self.links.command(row.alert_id), self.links.page_of(row.alert_id),
            runbook_link(portfolio, row.metric) or "",
            (trace_link(portfolio, examples[0].trace_id) or "") if examples else "",
            last.by if last is not None else "", moment_text(last.at, "seconds") if last is not None else "",
        )  # fmt: skip
