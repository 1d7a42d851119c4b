"""Writes scored slices to the store, several in one transaction; detectors see each before, observers after."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any

from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.scorers.slices.slices import ScoredSlice
from gapwatch.sinks.store.outbox import OutboxRow, outbox_step
from gapwatch.sinks.store.registration import insert_policies
from gapwatch.sinks.store.topics import DEAD_LETTERS_TOPIC
from gapwatch.sinks.store.transaction import Step, StoreTransaction
from gapwatch.streams.pipeline.observer import ObserverGroup, PipelineObserver
from gapwatch.streams.pipeline.store_thread import StoreThread
from gapwatch.streams.pipeline.watch_protocol import LaneWatch, OpenWatch, Steps, unread_after
from gapwatch.streams.sources.source_progress import SourceProgress
from gapwatch.streams.sources.trace_source import OffsetProgress

#: A row of the table `policies`, by column.
PolicyRow = Mapping[str, Any]


@dataclass(frozen=True)
class ScoredPiece:
    """A scored slice that waits to be written: tables and rows only, which could come from another process.

    Attributes:
        scored: The slice.
        seconds: Time of the earlier stages, by stage.
        policies: Rows that record the selection from an offset on, if it is new.
        dead_letters: Messages of the outbox.
    """

    scored: ScoredSlice
    seconds: Mapping[str, float] = field(default_factory=dict)
    policies: Sequence[PolicyRow] = ()
    dead_letters: Sequence[OutboxRow] = ()

    def steps(self) -> Steps:
        """Return the further steps of its transaction."""
        found: list[tuple[str, Step]] = []
        if self.policies:
            found.append(("policies", partial(_record_policies, self.policies)))
        if self.dead_letters:
            found.append(outbox_step(DEAD_LETTERS_TOPIC, self.dead_letters))
        return found


def _record_policies(rows: Sequence[PolicyRow], transaction: StoreTransaction) -> None:
    insert_policies(transaction.con, rows, transaction.kept_at)


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
        progress: OffsetProgress | None = None,
    ) -> None:
        self.thread, self.store = thread, thread.store
        self._observer = observer or ObserverGroup()
        self._open_watch, self._wake_relay = open_watch, wake_relay
        self._progress: OffsetProgress = progress or SourceProgress()
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

    def write_slice(self, found: ScoredSlice, now: datetime, also: Steps) -> int:
        """Write a slice in one transaction and return the number of the commit.

        Args:
            found: The scored slice.
            now: Time of writing, with a time zone.
            also: Further steps of the transaction.

        Raises:
            JobError: The store cannot be written; it has nothing of the slice.
        """
        return self._write([(ScoredPiece(found), also)], now)

    def write_slices(self, pieces: Sequence[ScoredPiece], now: datetime) -> int:
        """Write slices of one lane in one transaction and return the number of the last commit.

        Args:
            pieces: The slices, at least one.
            now: Time of writing, with a time zone.

        Raises:
            JobError: The store cannot be written; it has nothing of the slices.
        """
        return self._write([(piece, piece.steps()) for piece in pieces], now)

    def _write(self, pieces: Sequence[tuple[ScoredPiece, Steps]], now: datetime) -> int:
        started = time.perf_counter()
        slices = self._taken(pieces, now)
        seq = self.store.write_slices(slices, now)
        seconds = (time.perf_counter() - started) / len(slices)
        for (found, _), (piece, _) in zip(slices, pieces, strict=True):
            self._observer.slice_stored(found, {**piece.seconds, "keep": seconds})
        if any(also or found.tables["judge_requests"].num_rows for found, also in slices):
            self._wake_relay()
        return seq

    def _taken(self, pieces: Sequence[tuple[ScoredPiece, Steps]], now: datetime) -> list[tuple[ScoredSlice, Steps]]:
        """Run the detectors on each slice; return the slices with all further steps."""
        if self._watch is None:
            return [(piece.scored, steps) for piece, steps in pieces]
        ends = self._progress.known_ends()
        slices: list[tuple[ScoredSlice, Steps]] = []
        for number, (piece, steps) in enumerate(pieces, start=1):
            unread = unread_after([one.scored for one, _ in pieces[:number]], self.store, ends)
            taken = self._watch.take(piece.scored, now, unread, is_last=number == len(pieces))
            slices.append((taken.scored, (*steps, *taken.steps)))
        return slices

    def save(self) -> None:
        """Write the state of the detectors, so that the next start need not recompute it; after a successful run."""
        if self._watch is not None:
            self._watch.save(self.store)
