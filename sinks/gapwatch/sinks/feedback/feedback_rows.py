"""Steps of a transaction that write feedback, what became of it, its counts and the position in its topic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gapwatch.sinks.feedback.feedback import Feedback
from gapwatch.sinks.feedback.feedback_slice import JoinedFeedback
from gapwatch.sinks.store.row_inserts import insert_row, insert_rows
from gapwatch.sinks.store.transaction import Step, StoreTransaction

#: Item and source of `span_ledger` under which feedback is counted.
FEEDBACK = "feedback"
_ROW = ("seq", "feedback_id", "pipeline", "trace_id", "value", "number", "comment", "by", "at", "came_by", "kept_at")
_JOIN = (
    "seq", "feedback_id", "state", "lane", "source_topic", "source_partition", "source_offset", "pipeline",
    "environment", "release", "kept_at",
)  # fmt: skip
_COUNT = ("source", "item", "state", "cause", "n", "recorded_at")

#: Next offset to read by topic and partition.
Marks = Mapping[tuple[str, int], int]


def feedback_step(feedback: Sequence[Feedback], came_by: str) -> Step:
    """Return a step that inserts feedback as it came: by topic, api, otlp or file."""

    def insert(transaction: StoreTransaction) -> None:
        rows = [
            (
                transaction.seq, one.id, one.pipeline, one.trace_id, one.value, one.number, one.comment, one.user,
                one.at, came_by, transaction.kept_at,
            )
            for one in feedback
        ]  # fmt: skip
        insert_rows(transaction.con, "feedback", _ROW, rows)

    return insert


def joins_step(joined: Sequence[JoinedFeedback]) -> Step:
    """Return a step that records the traces of feedback."""

    def insert(transaction: StoreTransaction) -> None:
        rows = [
            (
                transaction.seq, one.feedback.id, "joined", one.trace.lane, one.trace.topic, one.trace.partition,
                one.trace.offset, one.trace.pipeline, one.trace.environment, one.trace.release, transaction.kept_at,
            )
            for one in joined
        ]  # fmt: skip
        insert_rows(transaction.con, "feedback_joins", _JOIN, rows)

    return insert


def orphans_step(orphans: Sequence[Feedback]) -> Step:
    """Return a step that records feedback whose trace is not waited for any more."""

    def insert(transaction: StoreTransaction) -> None:
        place = (None,) * 4
        rows = [
            (transaction.seq, one.id, "orphan", *place, one.pipeline, None, None, transaction.kept_at)
            for one in orphans
        ]
        insert_rows(transaction.con, "feedback_joins", _JOIN, rows)

    return insert


def count_step(moved: Mapping[str, int]) -> Step:
    """Return a step that adds changes of the number of feedback by state to the ledger."""

    def insert(transaction: StoreTransaction) -> None:
        rows = [(FEEDBACK, FEEDBACK, state, "", n, transaction.kept_at) for state, n in moved.items() if n]
        insert_rows(transaction.con, "span_ledger", _COUNT, rows)

    return insert


def marks_step(read: Marks) -> Step:
    """Return a step that records the position in the topic."""

    def insert(transaction: StoreTransaction) -> None:
        for (topic, partition), to_offset in read.items():
            row = {"seq": transaction.seq, "topic": topic, "partition": partition, "to_offset": to_offset}
            insert_row(transaction.con, "judge_offsets", row)

    return insert
