"""Watch of the lane `live` in a run: opens it over the store, gives it to decisions, shows it on `/metrics`."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import UTC, datetime
from typing import Protocol

from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.sinks.metrics.live_metrics import LiveMetrics
from gapwatch.sinks.reading.alert_query import alert_states
from gapwatch.sinks.store.store import Store
from gapwatch.sinks.store.transaction import Connection
from gapwatch.streams.alerting.evaluation.folding import FoldProgress
from gapwatch.streams.alerting.evaluation.gauges import AlertGauges
from gapwatch.streams.alerting.evaluation.shift_watch import LIVE, ShiftWatch

# Seconds between two updates of the gauges while slices come, and the largest share of time that updates may take.
_LOOK_SECONDS = 1.0
_LOOK_SHARE = 0.02
# Seconds between two updates without commits: the end of a silence changes the gauges.
_IDLE_SECONDS = 15.0


class AlertSamples(Protocol):
    """Source of the samples of `gapwatch_incident_info`."""

    def samples(
        self, con: Connection, lane: str, portfolios: tuple[Portfolio, ...], environment: Callable[[str], str]
    ) -> dict[tuple[str, ...], float]:
        """Return the samples of the open alerts of a lane."""


class LiveAlerts:
    """Watch of the lane `live` of one run; all methods but the constructor belong to the writer thread.

    Args:
        info: Describes open alerts on `/metrics`; None: they have no description.
        fill: Adds to a portfolio what the run was given for it, such as addresses.

    Attributes:
        folding: Progress of folding stored slices at the start; any thread may read and stop it.
        shown_seq: Last commit that the gauges show; -1 before the first.
    """

    def __init__(
        self, info: AlertSamples | None = None, fill: Callable[[Portfolio], Portfolio] = lambda one: one
    ) -> None:
        self._info, self._fill = info, fill
        self.folding = FoldProgress()
        self._watch: ShiftWatch | None = None
        self.shown_seq, self._next_look = -1, 0.0
        self._idle_look = 0.0
        self._gauges = AlertGauges()

    def open(self, store: Store, portfolios: Sequence[Portfolio]) -> ShiftWatch:
        """Open the watch over the store at the start of a run; later let the same watch take over new portfolios.

        Raises:
            UsageError: A portfolio contradicts the answer of a person.
            JobError: The store cannot be read or written.
            FoldStoppedError: `folding` was stopped.
        """
        portfolios = [self._fill(one) for one in portfolios]
        if self._watch is None:
            self._watch = ShiftWatch.open(store, portfolios, progress=self.folding)
        else:
            self._watch.change(store, portfolios)
        self._gauges, self.shown_seq = AlertGauges(), -1
        return self._watch

    def folding_text(self) -> str:
        """Return how far stored slices are folded, in words; empty while none are. Any thread may ask."""
        return self.folding.text

    def count_open(self, store: Store) -> int:
        """Return the number of open alerts of the store, silenced and acknowledged ones among them."""
        with closing(store.cursor()) as cursor:
            states = alert_states(cursor, LIVE, datetime.now(UTC).replace(tzinfo=None))
        return sum(state in ("open", "acknowledged", "silenced") for state in states.values())

    def show(self, store: Store, metrics: LiveMetrics) -> bool:
        """Update the gauges to the last commit, at most about once a second.

        Returns:
            True where the store has commits that were not shown before.
        """
        now = time.monotonic()
        is_new = store.seq != self.shown_seq and now >= self._next_look
        if self._watch is None or not (is_new or now >= self._idle_look):
            return False
        has_news = store.seq != self.shown_seq
        cursor = store.cursor()
        try:
            samples = self._gauges.samples(self._watch, cursor, metrics.environment_label)
            if self._info is not None:
                watch, label = self._watch, metrics.environment_label
                samples["gapwatch_incident_info"] = self._info.samples(cursor, LIVE, watch.portfolios, label)
        finally:
            cursor.close()
        for name, values in samples.items():
            metrics.show(name, values)
        self.shown_seq = store.seq
        took = time.monotonic() - now
        self._next_look = now + max(_LOOK_SECONDS, took / _LOOK_SHARE)
        self._idle_look = now + _IDLE_SECONDS
        return has_news

    # --- as `decision_reader.Watches`

    def of(self, lane: str) -> ShiftWatch | None:
        """Return the watch of a lane; None for all lanes but `live`."""
        return self._watch if lane == LIVE else None

    def all(self) -> Sequence[ShiftWatch]:
        """Return the watches of this run."""
        return [] if self._watch is None else [self._watch]

    def portfolios(self) -> Sequence[Portfolio]:
        """Return the portfolios in force."""
        return () if self._watch is None else self._watch.portfolios
