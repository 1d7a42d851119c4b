"""Queue of people's decisions: they wait here until the writer thread's next transaction stores them.

POST ──submit──▶ [waiting] ──taken──▶ a step of `Store.write_slice(also=...)` ──commit──▶ the caller gets the answer
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol

from gapwatch.scorers.errors import JobError, UsageError
from gapwatch.scorers.portfolio.author import check_author
from gapwatch.sinks.store.row_inserts import insert_row
from gapwatch.sinks.store.store import Store
from gapwatch.sinks.store.transaction import Step, StoreTransaction

#: Largest number of waiting decisions. People decide now and then; more than this is a program out of control.
WAITING_LIMIT = 1_000
#: Characters of one text of a decision.
TEXT_LIMIT = 2_000


class HumanDecision(Protocol):
    """A decision of a person that changes the store."""

    def apply(self, transaction: StoreTransaction) -> str:
        """Write the decision in the open transaction.

        Returns:
            One line that says what was done; empty if there is nothing to say.

        Raises:
            UsageError: The decision is not possible. The rest of the transaction continues without it, so this must
                be raised before anything is written.
        """


@dataclass(frozen=True)
class Annotation:
    """A note of an event outside Gapwatch, such as a deployment, shown beside the rates.

    Attributes:
        at: Time of the event, naive UTC.
        pipeline: Pipeline that the note is about; None for all.
        text: Description of the event.
        by: Author of the note.
    """

    at: datetime
    pipeline: str | None
    text: str
    by: str | None

    def __post_init__(self) -> None:
        if not self.text.strip():
            raise UsageError("an annotation needs a text, such as `deploy v12`")
        if self.by is not None:
            check_author(self.by, "annotation")
        for name in ("text", "pipeline", "by"):
            if len(getattr(self, name) or "") > TEXT_LIMIT:
                raise UsageError(f"the {name} of an annotation has at most {TEXT_LIMIT} characters")

    @classmethod
    def read(cls, text: str, pipeline: str | None, by: str | None, at: str | None) -> Annotation:
        """Return an annotation from the texts that a person wrote.

        Args:
            text: Description of the event.
            pipeline: Pipeline that the note is about; None for all.
            by: Author of the note.
            at: Time in ISO 8601, UTC unless it has an offset; None for now.

        Raises:
            UsageError: The text is empty, or `at` is not a time.
        """
        moment = datetime.now(UTC)
        if at is not None:
            try:
                moment = datetime.fromisoformat(at)
                moment = moment.astimezone(UTC) if moment.tzinfo else moment
            except (ValueError, OverflowError):
                raise UsageError(f"{at!r} is not a time; write 2026-11-21T10:00Z") from None
        return cls(moment.replace(tzinfo=None), pipeline, text, by)

    def apply(self, transaction: StoreTransaction) -> str:
        """Insert the annotation in the open transaction."""
        row = {"at": self.at, "pipeline": self.pipeline, "text": self.text, "by": self.by}
        insert_row(transaction.con, "annotations", row)
        return ""


@dataclass
class _Waiting:
    decision: HumanDecision
    applied: Future[str] = field(default_factory=Future)
    outcome: str | UsageError = ""


class Decisions:
    """Queue between the callers that decide and the writer thread.

    Args:
        wake: Called in the thread of `submit` when a decision waits, so that an idle writer thread takes it.
    """

    def __init__(self, wake: Callable[[], None] | None = None) -> None:
        self.wake = wake
        self._lock = threading.Lock()
        self._waiting: list[_Waiting] = []
        self._closed = False

    @property
    def waiting(self) -> int:
        """Number of waiting decisions."""
        return len(self._waiting)

    def submit(self, decision: HumanDecision) -> Future[str]:
        """Add a decision to the queue. Any thread may call this.

        Returns:
            A future. Its result is the text that `apply` returned, set when the decision is committed. Its exception
            says why the decision was not stored.

        Raises:
            JobError: Too many decisions wait, or the store is being closed.
        """
        entry = _Waiting(decision)
        with self._lock:
            if self._closed:
                raise JobError("the store is being closed; send the decision again when it is open")
            if len(self._waiting) >= WAITING_LIMIT:
                raise JobError(f"{WAITING_LIMIT} decisions already wait for the store; try again later")
            self._waiting.append(entry)
        if self.wake is not None:
            self.wake()
        return entry.applied

    @contextlib.contextmanager
    def taken(self) -> Iterator[list[tuple[str, Step]]]:
        """Yield the waiting decisions as steps for `Store.write_slice(also=...)`, in the writer thread.

        Leaving the block means that the transaction was committed. On an error all decisions wait again.
        """
        with self._lock:
            taken, self._waiting = self._waiting, []

        def apply(transaction: StoreTransaction) -> None:
            for entry in taken:
                try:
                    entry.outcome = entry.decision.apply(transaction)
                except UsageError as error:
                    entry.outcome = error

        try:
            yield [("decisions", apply)] if taken else []
        except BaseException:
            with self._lock:
                self._waiting = taken + self._waiting
            raise
        for entry in taken:
            with contextlib.suppress(InvalidStateError):  # the caller is gone
                if isinstance(entry.outcome, UsageError):
                    entry.applied.set_exception(entry.outcome)
                else:
                    entry.applied.set_result(entry.outcome)

    def apply(self, store: Store) -> None:
        """Store the waiting decisions in a transaction of their own, in the writer thread, between slices.

        Raises:
            JobError: The store could not be written. All decisions still wait.
        """
        with self.taken() as steps:
            if steps:
                store.apply(steps)

    def close(self) -> None:
        """Fail every waiting decision. Call this before the store is closed."""
        with self._lock:
            self._closed = True
            left, self._waiting = self._waiting, []
        for entry in left:
            with contextlib.suppress(InvalidStateError):
                entry.applied.set_exception(
                    JobError("the store was closed before the decision was written; send it again")
                )
