"""Texts of the tables of feedback, issues and test runs, in the form of `table_texts`."""

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
        came_by: topic, api, otlp or file.
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
    "issues": (
        "Versions of issues (wrong behaviour of a model), each a whole row; the latest holds.",
        """seq
        issue_id: Id of the issue.
        title: One line.
        description: What is wrong.
        status: draft, open, fixed, regressed or closed.
        domain: Field of use; empty if none.
        tags: JSON list of words.
        template: Judge set-up of its tests: 1 input, output and reference; 2 output and reference; 3 input and output.
        guideline: Guideline of its tests, for the judge.
        metric: Metric of the portfolio that watches for its return; empty if none.
        by: Who wrote this version.
        at: When, UTC.
        why: Reason for this version; null if none was given.""",
    ),
    "issue_tests": (
        "Versions of the tests of issues, each a whole row; the latest holds.",
        """seq
        test_id: Id of the test.
        issue_id: Its issue.
        inputs: JSON list of chat messages.
        reference: Right answer; null if there is none.
        template: Judge set-up; null inherits that of the issue.
        guideline: Guideline; null inherits that of the issue.
        origin: What it was made from; empty if by hand.
        is_active: False takes it out of runs.
        by: Who wrote this version.
        at: When, UTC.
        why: Reason for this version; null if none was given.""",
    ),
    "triage": (
        "Decisions on feedback, failing traces and alerts.",
        """seq
        kind: alert, feedback or row (a trace with failing rows).
        item: Id of the alert, of the feedback or of the trace.
        decision: made, joined or dropped.
        issue_id: Issue that was made or joined; null if dropped.
        by: Who decided.
        at: When, UTC.
        why: Reason; null if none was given.""",
    ),
    "test_runs": (
        "Runs of tests. A run that is continued has further rows.",
        """seq
        run_id: Id of the run.
        model: Model or function that was tested.
        judges: JSON list of the names of its judges.
        tests: JSON list of the ids of its tests.
        settings: JSON of further settings.
        by: Who started it.
        at: When, UTC.""",
    ),
    "test_results": (
        "Answers of the tested model, one for each test of a run.",
        """seq
        run_id: Id of the run.
        test_id: Id of the test.
        issue_id: Its issue.
        test_sha: Digest of what was asked and how it is judged; null if not known.
        output: The answer; null if there is none.
        error: Why there is none; null if there is one.
        seconds: Time that it took.
        at: When it was stored, UTC.""",
    ),
    "test_verdicts": (
        "Verdicts of judges on answers. A failed call is an error and no 0.",
        """seq
        run_id: Id of the run.
        test_id: Id of the test.
        judge: Name of the judge.
        outcome: pass, fail or error.
        score: 1 or 0; null for an error.
        justification: The judge's words; null for an error.
        reason: Why the call failed; null if it did not.
        at: When it was stored, UTC.""",
    ),
    "test_overrides": (
        "Outcomes that people gave to tests of a run, instead of the judges'; the latest holds.",
        """seq
        run_id: Id of the run.
        test_id: Id of the test.
        outcome: pass or fail.
        by: Who decided.
        at: When, UTC.
        why: Reason.""",
    ),
}
