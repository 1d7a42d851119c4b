"""Page, metrics and queries of a store that no process writes."""

from __future__ import annotations

from contextlib import closing
from functools import partial
from pathlib import Path

from gapwatch.scorers.errors import UsageError
from gapwatch.scorers.loading.load import parse_stored_portfolio
from gapwatch.sinks.api.access import ApiOptions
from gapwatch.sinks.api.finished_store import FinishedStore
from gapwatch.sinks.api.server import ApiServer
from gapwatch.sinks.metrics.health import RunHealth
from gapwatch.sinks.metrics.live_metrics import LiveMetrics
from gapwatch.sinks.reading.stored_portfolios import latest_portfolio_texts
from gapwatch.sinks.store.decisions import Decisions
from gapwatch.streams.alerting.evaluation.gauges import AlertGauges
from gapwatch.streams.alerting.evaluation.shift_watch import ShiftWatch
from gapwatch.streams.alerting.triage.alert_page import alert_page


class FinishedPage:
    """Serves one lane of a store, read-only, from `start` to `stop`.

    Args:
        path: The store.
        options: Address and tokens.
        lane: Lane to show; None: `live`, else the one stored last.

    Attributes:
        lane: Lane that is shown.

    Raises:
        StoreError: The file is not a store, or a process writes it.
        UsageError: The store has no such lane.
    """

    def __init__(self, path: Path, options: ApiOptions, lane: str | None = None) -> None:
        self._store = FinishedStore.open(path)
        try:
            lanes = self._store.lanes()
            with closing(self._store.cursor()) as cursor:
                portfolios = [parse_stored_portfolio(text) for text in latest_portfolio_texts(cursor)]
            if lane is not None and lane not in lanes:
                raise UsageError(f"the store {path} has no lane {lane!r}; it has {', '.join(lanes) or 'none'}")
            self.lane = lane or (lanes[0] if lanes else "live")
            metrics, health = LiveMetrics(portfolios, self.lane), RunHealth()
            metrics.rebuild(self._store)
            metrics.source_state("finished")
            health.finish()
            self._show_alerts(metrics)
        except BaseException:
            self._store.close()
            raise
        self._server = ApiServer(
            self._store, metrics, health, Decisions(), options, alert_page=partial(alert_page, store=path),
            finished_lane=self.lane,
        )  # fmt: skip

    @property
    def url(self) -> str:
        """URL of the page."""
        return self._server.url

    def start(self) -> None:
        """Start the server.

        Raises:
            UsageError: The server cannot listen on the address.
        """
        self._server.start()

    def stop(self) -> None:
        """Stop the server and close the store."""
        self._server.stop()
        self._store.close()

    def _show_alerts(self, metrics: LiveMetrics) -> None:
        """Show the state of the detectors at the end of the lane; it is restored in memory."""
        watch = ShiftWatch.open(self._store, None, self.lane)
        with closing(self._store.cursor()) as cursor:
            for name, values in AlertGauges().samples(watch, cursor, metrics.environment_label).items():
                metrics.show(name, values)
