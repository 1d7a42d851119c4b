"""Labels of `gapwatch_incident_info`: what a page of Prometheus or Alertmanager says about an open incident."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.sinks.incidents.incident_query import IncidentRow, incident_rows
from gapwatch.sinks.store.transaction import Connection
from gapwatch.sinks.store.utc_text import utc_text
from gapwatch.streams.alerting.incidents.links import AlertLinks, runbook_link, trace_link
from gapwatch.streams.alerting.incidents.stored_alerts import read_incident
from gapwatch.streams.alerting.incidents.told import Told, lead_of

#: Most open incidents with labels. Each is one series for Prometheus; the rest are on the page and in the store.
MOST_INCIDENTS = 200

#: One text for each label of the family.
Labels = tuple[str, ...]


class IncidentInfo:
    """Samples of the open incidents of a lane; they are made again when an incident has changed.

    Args:
        links: Places where a person finds more.
    """

    def __init__(self, links: AlertLinks) -> None:
        self.links = links
        self._rows: list[IncidentRow] | None = None
        self._samples: dict[Labels, float] = {}

    def samples(
        self, con: Connection, lane: str, portfolios: tuple[Portfolio, ...], environment: Callable[[str], str]
    ) -> dict[Labels, float]:
        """Return the samples of `gapwatch_incident_info`, pages first.

        Args:
            con: Connection for reading.
            lane: Lane of the incidents.
            portfolios: Portfolios in force, for the addresses of runbooks and traces.
            environment: Returns the label value of an environment.
        """
        rows = [row for row in incident_rows(con, datetime.now(UTC).replace(tzinfo=None), lane) if row.is_open]
        if rows != self._rows:
            known = {portfolio.pipeline: portfolio for portfolio in portfolios}
            self._samples = {
                self._labels(con, row, known.get(row.step.pipeline), environment): 1.0 for row in rows[:MOST_INCIDENTS]
            }
            self._rows = rows
        return self._samples

    def _labels(
        self, con: Connection, row: IncidentRow, portfolio: Portfolio | None, environment: Callable[[str], str]
    ) -> Labels:
        step, told = row.step, Told.from_json(row.step.told)
        incident = read_incident(con, step.incident_id)
        lead = None if incident is None or not incident.alerts else lead_of(incident.alerts, step.component)
        cause = None if lead is None else lead.facts.cause
        examples = cause.examples if cause is not None else ()
        return (
            step.pipeline, environment(step.environment), step.incident_id, step.kind, step.severity, step.state,
            told.name or step.name, told.what, told.share, told.before, told.after, told.ratio, told.interval,
            told.since, told.between, told.units, told.first, told.cause, told.metrics, "; ".join(told.rows),
            utc_text(row.opened_at), self.links.store, self.links.command(step.incident_id),
            self.links.page_of(step.incident_id),
            (runbook_link(portfolio, lead.row.metric) or "") if lead is not None else "",
            (trace_link(portfolio, examples[0].trace_id) or "") if examples else "",
            step.told.get("by", ""), step.told.get("decided", ""),
        )  # fmt: skip
