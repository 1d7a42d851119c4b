"""Writes scored slices to the store, runs the detectors on each one before, and calls the observers after."""

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


def _no_relay() -> None:
    """Do nothing: there is no relay to wake."""


class SliceWriter:
    """Writes slices of traces and of verdicts; all methods run on the writer thread.

    Args:
        thread: The store and its writer thread.
        observer: Called for each stored slice and for new portfolios.
        open_watch: Opens the detectors of the live lane; None: there are none.
        wake_relay: Called when the outbox may have a new message.
        progress: Offsets of the source; read for each slice.
    """

    def __init__(
        self,
        thread: StoreThread,
        observer: PipelineObserver | None = None,
        open_watch: OpenWatch | None = None,
        wake_relay: Callable[[], None] = _no_relay,
        progress: SourceProgress | None = None,
    ) -> None:
        self.thread, self.store = thread, thread.store
        self._observer = observer or ObserverGroup()
        self._open_watch, self._wake_relay = open_watch, wake_relay
        self._progress = progress or SourceProgress()
        self._watch: LaneWatch | None = None

    def register(self, portfolios: Sequence[Portfolio]) -> None:
        """Store portfolios, and run the detectors by them from now on.

        Raises:
            UsageError: The detectors refuse the portfolios because of a stored answer; nothing has changed.
        """
        self._watch = self._open_watch(self.store, portfolios) if self._open_watch else None
        for portfolio in portfolios:
            self.store.register(portfolio, [])
        self._observer.portfolios_changed(portfolios)

    def write_slice(self, found: ScoredSlice, now: datetime, also: Steps, seconds: Mapping[str, float] = {}) -> int:
        """Write a slice in one transaction and return the number of the commit.

        Args:
            found: The scored slice.
            now: Time of writing, with a time zone.
            also: Further steps of the transaction.
            seconds: Time of the earlier stages, by stage.

        Raises:
            JobError: The store cannot be written; it has nothing of the slice.
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
        """Write the state of the detectors, so that the next start need not recompute it; after a successful run."""
        if self._watch is not None:
            self._watch.save(self.store)
