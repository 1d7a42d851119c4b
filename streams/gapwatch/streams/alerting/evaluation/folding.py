"""Folds stored slices into the detectors at a start; `/readyz` and the log show the progress."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime
from typing import Protocol

from gapwatch.sinks.reading.alert_query import written_steps
from gapwatch.sinks.store.store import Store
from gapwatch.sinks.store.transaction import Connection
from gapwatch.streams.alerting.evaluation.stored_history import StoredCommit, stored_commits, stored_count
from gapwatch.streams.alerting.incidents.alert_rows import StepRows, write_steps
from gapwatch.streams.detectors.contexts import tick_start

log = logging.getLogger("gapwatch.detectors")

#: Seconds of folding between two saves of the state: a process that is killed in between loses at most these.
SAVE_SECONDS = 300.0
#: Slices after which the state is saved, in a run and at the end of folding: folding as many takes about a second.
SAVE_COMMITS = 500
# Folding that takes less than this many seconds is not logged.
_QUIET_SECONDS = 2.0


class FoldStoppedError(Exception):
    """Folding was stopped before its end; what is folded is saved, and the next start continues there."""


class FoldProgress:
    """Progress of one folding after the other: written by the writer thread, read and stopped by any thread.

    Attributes:
        done, total: Slices that are folded, and all slices to fold; 0 while nothing is folded.
    """

    def __init__(self) -> None:
        self.done, self.total = 0, 0
        self._began, self._is_logged = 0.0, False
        self._stopped = threading.Event()

    @property
    def text(self) -> str:
        """State of folding in words; empty while nothing is folded."""
        done, total = self.done, self.total
        return f"folding stored slices into the detectors: {done:,} of {total:,}" if total else ""

    def stop(self) -> None:
        """Stop the present folding, and every later one, at the next slice."""
        self._stopped.set()

    @property
    def is_stopped(self) -> bool:
        """True after `stop`."""
        return self._stopped.is_set()

    def begin(self, total: int) -> None:
        """Begin a folding of so many slices."""
        self.done, self.total = 0, total
        self._began, self._is_logged = time.monotonic(), False

    def step(self) -> None:
        """Count one folded slice."""
        self.done += 1
        if not self._is_logged and time.monotonic() - self._began > _QUIET_SECONDS:
            self._is_logged = True
            log.info("%s; reading continues after that", self.text)

    def end(self) -> None:
        """End the folding, also after an error."""
        if self._is_logged and self.done == self.total:
            log.info("%s slices are folded, in %.0f s", f"{self.done:,}", time.monotonic() - self._began)
        self.done, self.total = 0, 0


class FoldedLane(Protocol):
    """Detectors of a lane, as folding uses them; `ShiftWatch` implements it."""

    @property
    def lane(self) -> str:
        """Name of the lane."""

    def fold(self, commit: StoredCommit) -> list[StepRows]:
        """Fold a slice, and return the steps of alerts that follow."""

    def write_state(self, con: Connection, seq: int, now: datetime) -> None:
        """Write the state after a commit, in an open transaction."""


def refold(watch: FoldedLane, store: Store, after: int, progress: FoldProgress) -> int:
    """Fold the slices stored after a commit again, and write those of their alerts that the store lacks.

    After a crash the store lacks none; a store that was written without alerts lacks all of them.

    Returns:
        Number of folded slices.

    Raises:
        FoldStoppedError: `progress` was stopped; the state so far is saved.
    """
    with closing(store.cursor()) as cursor:
        written = written_steps(cursor, watch.lane)
    total = stored_count(store, watch.lane, after)
    missing: list[StepRows] = []
    folded, saved_at = after, time.monotonic()
    progress.begin(total)
    try:
        for commit in stored_commits(store, watch.lane, after):
            if progress.is_stopped or time.monotonic() - saved_at > SAVE_SECONDS:
                _save(watch, store, folded, missing)
                missing, saved_at = [], time.monotonic()
                if progress.is_stopped:
                    raise FoldStoppedError
            missing += [rows for rows in watch.fold(commit) if _identity(rows) not in written]
            folded = commit.seq
            progress.step()
    finally:
        progress.end()
    if missing:
        store.record("writing alerts", lambda con, seq: write_steps(con, watch.lane, seq, missing))
    return total


def _save(watch: FoldedLane, store: Store, folded: int, missing: Sequence[StepRows]) -> None:
    """Save the state after the commit `folded`, with the alerts that the store lacked up to there."""

    def save(con: Connection, seq: int) -> None:
        if missing:
            write_steps(con, watch.lane, seq, list(missing))
        watch.write_state(con, folded, utc_now())

    store.record("writing the state of the detectors", save)


def utc_now() -> datetime:
    """Return the current time, naive UTC."""
    return datetime.now(UTC).replace(tzinfo=None)


def _identity(rows: StepRows) -> tuple[str, str, str, datetime]:
    step = rows.step
    return step.alert.alert_id, step.state, step.alert.severity, tick_start(step.finding.tick + 1)
