"""Assembles the requests of a spool to whole traces, on a thread of its own.

    spool ──▶ assembler ──▶ log of traces: fsync ──▶ feedback: stored ──▶ journal: fsync ──▶ reader of the log

A kill between any two steps loses nothing and writes nothing twice: the last commit of the journal says how much of the
log of traces holds, and from which request on the spool is read again. Feedback that was stored
before a kill comes again, with the same id.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

from gapwatch.scorers.errors import JobError, UsageError
from gapwatch.sinks.feedback.feedback import Feedback
from gapwatch.streams.otlp.assembly.assembler import Assembler
from gapwatch.streams.otlp.assembly.closed_trace import ClosedTrace
from gapwatch.streams.otlp.live.commit_journal import AssemblyCommit, CommitJournal
from gapwatch.streams.otlp.live.spool import Spool
from gapwatch.streams.otlp.live.traces_log import TracesLog

log = logging.getLogger("gapwatch.otlp")

#: Bytes of requests between two commits, at most, and seconds, at least.
COMMIT_BYTES, COMMIT_SECONDS = 8 << 20, 0.5
#: Seconds between two looks without a wake-up: a trace is closed this much late at most.
_LOOK_SECONDS = 0.2
_PENDING = "span.pending."

#: Stores feedback; when it returns, each of it is stored once, also if it came before.
TakeFeedback = Callable[[Sequence[Feedback]], None]


class SpoolAssembly:
    """Assembly of one spool, from `start` to `stop`.

    Args:
        folder: Folder of the log of traces and the journal.
        spool: The spool.
        assembler: Assembles in memory.
        clock: Returns the time by the clock of the log up to which every request is in the spool.
        on_commit: Called after each commit, on the thread of the assembly.
        at_step: Called with the name of each step of a commit, for tests that kill the process there.

    Attributes:
        traces: The log of traces.

    Raises:
        UsageError: The files do not belong together.
        JobError: A file cannot be read or written.
    """

    def __init__(
        self,
        folder: Path,
        spool: Spool,
        assembler: Assembler,
        clock: Callable[[], float],
        on_commit: Callable[[AssemblyCommit], None],
        at_step: Callable[[str], None] = lambda step: None,
    ) -> None:
        self._spool, self._assembler, self._clock, self._on_commit = spool, assembler, clock, on_commit
        self._at_step = at_step
        self._journal = CommitJournal(folder / "commits")
        last = self._journal.last
        if last.read > spool.end or last.held < spool.first:
            self._journal.close()
            raise UsageError(
                f"{folder}: the journal continues at position {last.held} to {last.read} of the spool, which has "
                f"{spool.first} to {spool.end}; restore the folder from a backup, or delete all of it"
            )
        self.traces = TracesLog(folder / "traces", last.traces)
        self._read, self._committed = last.read, last
        self._written: list[ClosedTrace] = []
        self._news, self._stopping = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None
        self._asked: deque[Callable[[], None]] = deque()
        self._on_failure: Callable[[BaseException], None] = lambda error: None
        self._take_feedback: TakeFeedback | None = None

    @property
    def read(self) -> int:
        """Position up to which the spool is assembled."""
        return self._read

    @property
    def last(self) -> AssemblyCommit:
        """The last commit."""
        return self._committed

    @property
    def is_idle(self) -> bool:
        """True if everything in the spool is read and no span is pending."""
        last = self._committed
        return (
            last.read == self._spool.end
            and not last.counts.get(_PENDING)
            and not last.counts.get("log_record.pending.")
        )

    def start(self, on_failure: Callable[[BaseException], None], take_feedback: TakeFeedback | None = None) -> None:
        """Start the thread.

        Args:
            on_failure: Called with the error that ends the assembly, on its thread.
            take_feedback: Stores feedback, on its thread; None: evaluations are content of their span.
        """
        self._on_failure, self._take_feedback = on_failure, take_feedback
        self._assembler.has_feedback = take_feedback is not None
        self._thread = threading.Thread(target=self._run, name="assembly", daemon=True)
        self._thread.start()

    def between_commits(self, work: Callable[[], None]) -> None:
        """Have a function called on the thread of the assembly, right after a commit; may be called on any thread."""
        self._asked.append(work)
        self._news.set()

    def wake(self) -> None:
        """Read the spool now; may be called on any thread."""
        self._news.set()

    def stop(self, seconds: float) -> bool:
        """Commit and end the thread; False if that took longer than `seconds`."""
        self._stopping.set()
        self._news.set()
        if self._thread is not None:
            self._thread.join(seconds)
            if self._thread.is_alive():
                return False
        self._journal.close()
        self.traces.close()
        return True

    # --- on the thread of the assembly

    def _run(self) -> None:
        try:
            self._restore()
            while not self._stopping.is_set():
                has_read = self._step()
                now = time.time()
                if self._written or (now - self._committed.at >= COMMIT_SECONDS and self._has_changed()):
                    self._commit(now)
                if self._asked:
                    self._commit(now)
                    self._asked.popleft()()
                if not has_read:
                    self._news.wait(_LOOK_SECONDS)
                    self._news.clear()
            if self._has_changed():
                self._commit(time.time())
        except BaseException as error:
            if not isinstance(error, JobError | UsageError):
                log.exception("the assembly has failed")
            self._on_failure(error)

    def _restore(self) -> None:
        """Read again the requests of which something is pending."""
        last = self._journal.last
        self._assembler.restore(self._journal.closed_ids(), last.counts)
        position = last.held
        while position < last.read:
            for one in self._spool.read(position, COMMIT_BYTES):
                position = one.end
                if one.position >= last.read:
                    break
                self._assembler.take(one.request, one.position, one.received_at, one.clock, is_counted=True)
        if (pending := self._assembler.counts().get(_PENDING, 0)) != last.counts.get(_PENDING, 0):
            log.error(
                "after the start %d spans are pending, but the last commit had %d: the ledger of spans does not "
                "balance. This is a defect of Gapwatch", pending, last.counts.get(_PENDING, 0),
            )  # fmt: skip

    def _step(self) -> bool:
        """Read some requests, and close what is due; return whether there was a request."""
        horizon = self._clock()
        start = self._read
        for one in self._spool.read(start, COMMIT_BYTES):
            # Whether a span is late depends on the arrivals in the log alone, not on when this thread runs.
            self._assembler.advance(one.clock)
            self._assembler.take(one.request, one.position, one.received_at, one.clock, is_counted=False)
            self._read = one.end
        self._at_step("read")
        if self._read == start:
            self._assembler.advance(horizon)
        self._written += self._assembler.closed()
        return self._read > start

    def _has_changed(self) -> bool:
        return bool(self._written) or self._read != self._committed.read

    def _commit(self, now: float) -> None:
        closed, last = self._written, self._committed
        place = self.traces.append([one.envelope for one in closed if one.envelope is not None])
        self._at_step("traces written")
        if self._take_feedback is not None and (feedback := self._assembler.take_feedback()):
            self._take_feedback(feedback)
            self._at_step("feedback stored")
        held = self._assembler.held()
        commit = AssemblyCommit(
            last.number + 1, now, self._read, self._read if held is None else held, place, self._assembler.counts(),
            [one.trace_id for one in closed],
        )  # fmt: skip
        self._journal.append(commit)
        self._at_step("journal written")
        self._committed, self._written = commit, []
        self.traces.commit(place)
        self._spool.trim(commit.held)
        self._on_commit(commit)
        self._at_step("committed")
