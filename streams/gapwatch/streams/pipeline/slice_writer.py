"""Stores scored slices, those of the pipeline and those of verdicts: watched before, told of after."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.scorers.slices.slices import ScoredSlice
from gapwatch.streams.pipeline.observer import ObserverGroup, PipelineObserver
from gapwatch.streams.pipeline.store_thread import StoreThread
from gapwatch.streams.pipeline.watch_protocol import LaneWatch, OpenWatch, Steps, unread_after
from gapwatch.streams.sources.source_progress import SourceProgress


def _nobody() -> None:
    """Wake no relay: there is none."""


class SliceWriter:
    """Writes slices into a store; but for the constructor, all is for the store's thread.

    Args:
        thread: The store, and the thread on which it is written.
        observer: Told of each stored slice and of new portfolios.
        open_watch: Opens what watches the live lane; None: nothing does.
        wake_relay: Called when there may be something to relay.
        progress: What there is to read; asked for each slice.
    """

    def __init__(
        self,
        thread: StoreThread,
        observer: PipelineObserver | None = None,
        open_watch: OpenWatch | None = None,
        wake_relay: Callable[[], None] = _nobody,
        progress: SourceProgress | None = None,
    ) -> None:
        self.thread, self.store = thread, thread.store
        self._observer = observer or ObserverGroup()
        self._open_watch, self._wake_relay = open_watch, wake_relay
        self._progress = progress or SourceProgress()
        self._watch: LaneWatch | None = None

    def register(self, portfolios: Sequence[Portfolio]) -> None:
        """Record what portfolios say, and watch by them from now on.

        Raises:
            UsageError: The watch refuses them, for a stored answer; nothing has changed then.
        """
        self._watch = self._open_watch(self.store, portfolios) if self._open_watch else None
        for portfolio in portfolios:
            self.store.register(portfolio, [])
        self._observer.portfolios_changed(portfolios)

    def write_slice(self, found: ScoredSlice, now: datetime, also: Steps, seconds: Mapping[str, float] = {}) -> int:
        """Store a slice in one transaction and return its commit.

        Args:
            found: The slice.
            now: When.
            also: What else belongs to the transaction.
            seconds: How long earlier stages took.

        Raises:
            JobError: The store could not be written; nothing of the slice is stored.
        """
        started = time.perf_counter()
        if self._watch is not None:
            taken = self._watch.take(found, now, unread_after(found, self.store, self._progress.known_ends()))
            found, also = taken.scored, (*also, *taken.steps)
        seq = self.store.write_slice(found, now, also)
        self._observer.slice_stored(found, {**seconds, "keep": time.perf_counter() - started})
        if also or found.tables["judge_requests"].num_rows:
            self._wake_relay()
        return seq

    def save(self) -> None:
        """Write what would have to be found anew; at the end of a run that went well."""
        if self._watch is not None:
            self._watch.save(self.store)
