"""Texts of the tables of feedback, in the form of `table_texts`."""

from __future__ import annotations

#: Text of each table, and of its columns.
ISSUE_TABLE_TEXTS: dict[str, tuple[str, str]] = {
    "feedback": (
        "What people said of traces, as it came. `feedback_joins` says what became of it.",
        """seq
        feedback_id: Id that the sender gave it, by which a repeated one is known.
        pipeline: Pipeline that the sender named; null if none.
        trace_id
        value: up, down, or the number as text.
        number: The number; 1 for up, -1 for down.
        comment: What the person wrote, redacted; null if nothing.
        by: Who gave it, as the sender names them; null if not said.
        at: Time at which it was given, UTC.
        came_by: topic, api or file.
        kept_at""",
    ),
    "feedback_joins": (
        "What became of each feedback: joined to a trace, or an orphan. No row: its trace is waited for.",
        """seq
        feedback_id: Id of the feedback.
        state: joined or orphan.
        lane source_topic source_partition source_offset
        pipeline environment release kept_at""",
    ),
}
