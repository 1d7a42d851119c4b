"""What people decide while a store is kept waits here, and goes into the store in the keeper's next transaction.

POST ──submit──▶ [waiting] ──taken──▶ a step of `Store.write_slice(also=...)` ──commit──▶ the one who asked is answered
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
from gapwatch.sinks.store.row_inserts import insert_row
from gapwatch.sinks.store.store import Store
from gapwatch.sinks.store.transaction import Step, StoreTransaction

#: Decisions that may wait. People decide now and then; more is a program gone wild.
WAITING_LIMIT = 1_000
TEXT_LIMIT = 2_000


class HumanDecision(Protocol):
    """What a person says that changes the store."""

    def apply(self, transaction: StoreTransaction) -> str:
        """Write it, in the open transaction, and say in one line what was done; empty where nothing needs saying.

        Raises:
            UsageError: It cannot be: the rest of the transaction goes on without it, so nothing may be written by then.
        """


@dataclass(frozen=True)
class Annotation:
    """A note of what happened outside, such as a deployment, to be seen beside the rates.

    Attributes:
        at: When it happened; naive, UTC.
        pipeline: Which one it is about; None for all.
        text: What happened.
        by: Who says so.
    """

    at: datetime
    pipeline: str | None
    text: str
    by: str | None

    def __post_init__(self) -> None:
        if not self.text.strip():
            raise UsageError("an annotation needs a text, such as `deploy v12`")
        for name in ("text", "pipeline", "by"):
            if len(getattr(self, name) or "") > TEXT_LIMIT:
                raise UsageError(f"the {name} of an annotation has at most {TEXT_LIMIT} characters")

    @classmethod
    def read(cls, text: str, pipeline: str | None, by: str | None, at: str | None) -> Annotation:
        """Make one of what a person wrote.

        Args:
            text: What happened.
            pipeline: Which one it is about; None for all.
            by: Who says so.
            at: ISO 8601, UTC unless it says otherwise; None for now.

        Raises:
            UsageError: It has no text, or a time that is none.
        """
        moment = datetime.now(UTC)
        if at is not None:
            try:
                moment = datetime.fromisoformat(at)
            except ValueError:
                raise UsageError(f"{at!r} is no time; write 2026-11-21T10:00Z") from None
            moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return cls(moment.astimezone(UTC).replace(tzinfo=None), pipeline, text, by)

    def apply(self, transaction: StoreTransaction) -> str:
        """Insert it, in the open transaction."""
        row = {"at": self.at, "pipeline": self.pipeline, "text": self.text, "by": self.by}
        insert_row(transaction.con, "annotations", row)
        return ""


@dataclass
class _Waiting:
    decision: HumanDecision
    applied: Future[str] = field(default_factory=Future)
    outcome: str | UsageError = ""


class Decisions:
    """The queue between those who decide and the keeper.

    Args:
        wake: Called from the thread of `submit` when something waits, so that an idle keeper looks.
    """

    def __init__(self, wake: Callable[[], None] | None = None) -> None:
        self.wake = wake
        self._lock = threading.Lock()
        self._waiting: list[_Waiting] = []
        self._closed = False

    @property
    def waiting(self) -> int:
        """How many wait."""
        return len(self._waiting)

    def submit(self, decision: HumanDecision) -> Future[str]:
        """Hand over a decision; for any thread.

        Returns:
            Done when it is in the store, for good, with what the decision says of itself; an error where it is not.

        Raises:
            JobError: Too many wait, or nobody will keep it any more.
        """
        entry = _Waiting(decision)
        with self._lock:
            if self._closed:
                raise JobError("the store is being closed; say it again when it is open")
            if len(self._waiting) >= WAITING_LIMIT:
                raise JobError(f"{WAITING_LIMIT} decisions wait for the store already; try again later")
            self._waiting.append(entry)
        if self.wake is not None:
            self.wake()
        return entry.applied

    @contextlib.contextmanager
    def taken(self) -> Iterator[list[tuple[str, Step]]]:
        """Give what waits as steps for `Store.write_slice(also=...)`; for the keeper's thread.

        Leaving the block says that the transaction was committed; an error gives everything back, to be taken again.
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
            with contextlib.suppress(InvalidStateError):  # whoever asked is gone
                if isinstance(entry.outcome, UsageError):
                    entry.applied.set_exception(entry.outcome)
                else:
                    entry.applied.set_result(entry.outcome)

    def apply(self, store: Store) -> None:
        """Put what waits into a store in a transaction of its own; for the keeper's thread, between slices.

        Raises:
            JobError: The store could not be written; everything waits still.
        """
        with self.taken() as steps:
            if steps:
                store.apply(steps)

    def close(self) -> None:
        """Tell those who still wait that it was not kept; call it before the store is closed."""
        with self._lock:
            self._closed = True
            left, self._waiting = self._waiting, []
        for entry in left:
            with contextlib.suppress(InvalidStateError):
                entry.applied.set_exception(JobError("the store was closed before it was written; say it again"))
