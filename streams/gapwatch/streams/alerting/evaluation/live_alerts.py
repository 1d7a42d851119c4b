"""The watch of a run: opened over its store, told of decisions, and shown on `/metrics`."""

from __future__ import annotations

import time
from collections.abc import Sequence

from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.sinks.metrics.live_metrics import LiveMetrics
from gapwatch.sinks.store.store import Store
from gapwatch.streams.alerting.evaluation.gauges import AlertGauges
from gapwatch.streams.alerting.evaluation.shift_watch import LIVE, ShiftWatch

# Seconds between two looks while slices come; a look that takes long is taken as much more seldom.
_LOOK_SECONDS = 1.0
_LOOK_SHARE = 0.02
# A silence may have ended.
_IDLE_SECONDS = 15.0


class LiveAlerts:
    """The lane `live` of one run; all but the constructor is for the keeper's thread."""

    def __init__(self) -> None:
        self._watch: ShiftWatch | None = None
        self._shown_seq, self._next_look = -1, 0.0
        self._idle_look = 0.0
        self._gauges = AlertGauges()

    def open(self, store: Store, portfolios: Sequence[Portfolio]) -> ShiftWatch:
        """Open the watch over what the store holds; what `Pipeline` calls at its start and for new portfolios.

        Raises:
            UsageError: A portfolio contradicts what somebody answered.
            JobError: The store cannot be read or written.
        """
        self._watch, self._gauges = ShiftWatch.open(store, portfolios), AlertGauges()
        self._shown_seq = -1
        return self._watch

    def show(self, store: Store, metrics: LiveMetrics) -> bool:
        """Bring the gauges up to the last commit; about once a second, cheap where nothing has changed.

        Returns:
            Whether something was committed since.
        """
        now = time.monotonic()
        is_new = store.seq != self._shown_seq and now >= self._next_look
        if self._watch is None or not (is_new or now >= self._idle_look):
            return False
        has_news = store.seq != self._shown_seq
        cursor = store.cursor()
        try:
            samples = self._gauges.samples(self._watch, cursor, metrics.environment_label)
        finally:
            cursor.close()
        for name, values in samples.items():
            metrics.show(name, values)
        self._shown_seq = store.seq
        took = time.monotonic() - now
        self._next_look = now + max(_LOOK_SECONDS, took / _LOOK_SHARE)
        self._idle_look = now + _IDLE_SECONDS
        return has_news

    # --- as `decision_reading.Watches`

    def of(self, lane: str) -> ShiftWatch | None:
        """Return the watch of a lane, which this run has for `live` only."""
        return self._watch if lane == LIVE else None

    def all(self) -> Sequence[ShiftWatch]:
        """Return the watches of this run."""
        return [] if self._watch is None else [self._watch]

    def portfolios(self) -> Sequence[Portfolio]:
        """Return the portfolios in force."""
        return () if self._watch is None else self._watch.portfolios
