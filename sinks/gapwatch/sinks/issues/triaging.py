"""Decisions of triage as records: make an issue of an item, join it to one, or drop it."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Any

from gapwatch.scorers.errors import UsageError
from gapwatch.sinks.issues.alert_group import AlertGroup, alert_group
from gapwatch.sinks.issues.issue import Issue, IssueTest
from gapwatch.sinks.issues.issue_query import find_issue, read_issues
from gapwatch.sinks.issues.similar import similar_issues
from gapwatch.sinks.issues.trace_test import read_stored_trace
from gapwatch.sinks.issues.triage_queue import TriageItem, alerts_of_incident, waiting_item
from gapwatch.sinks.store.store_reader import StoreReader

#: Records by table.
Rows = dict[str, list[dict[str, Any]]]
#: Tests that an alert's issue begins with, and traces that are looked at for them.
_MOST_TESTS, _MOST_LOOKED = 5, 40


class SimilarIssuesError(UsageError):
    """Issues that are similar to a new one exist."""


@dataclass(frozen=True)
class TriageDecision:
    """A decision on an item of the queue, read against the store.

    Attributes:
        rows: Records to append.
        issue_id: Issue that the item belongs to now; None if it is dropped.
        said: One line that says what was done.
    """

    rows: Rows
    issue_id: str | None
    said: str

    @property
    def items(self) -> list[str]:
        """Items that no longer wait, kind:id."""
        return [f"{row['kind']}:{row['item']}" for row in self.rows.get("triage", [])]


def make_issue(con: StoreReader, wanted: str, title: str | None, force: bool, by: str) -> TriageDecision:
    """Make a draft of an item, with tests where the store has the texts of traces.

    Of an alert, the failing traces since its change are grouped, and the largest new group is the issue; the other open
    alerts of its incident join it.

    Args:
        con: Reader of the store.
        wanted: The item, kind:id.
        title: Title; None takes it from the item.
        force: Make it although a similar issue exists.
        by: Author.

    Raises:
        UsageError: No such item waits, or similar issues exist.
    """
    item = waiting_item(con, wanted)
    group = alert_group(con, item.item) if item.kind == "alert" else None
    metrics = item.metrics if group is None else group.metrics
    near = [] if force else similar_issues(item.text, metrics, read_issues(con).values(), 3)
    if near:
        listed = ", ".join(f"{issue.issue_id} ({issue.title})" for _, issue in near)
        raise SimilarIssuesError(f"similar issues exist: {listed}; gapwatch triage join {wanted} ISSUE, or add --force")
    issue = Issue(
        f"i-{secrets.token_hex(5)}", title or item.text[:100] or item.key, item.text if group is None else group.words,
        "draft", "", metrics, 3, "", item.metrics[0] if item.metrics else "", by,
    )  # fmt: skip
    rows: Rows = {"issues": [issue.row()], **_decided(con, item, "made", issue.issue_id, by)}
    return TriageDecision(_with_tests(con, rows, item, group, issue.issue_id, by), issue.issue_id, issue.issue_id)


def join_issue(con: StoreReader, wanted: str, issue: str, by: str) -> TriageDecision:
    """Add an item to an issue, with a test where the store has its text; an alert brings the others of its incident.

    Raises:
        UsageError: No such item waits, or there is no such issue.
    """
    item, owner = waiting_item(con, wanted), find_issue(con, issue)
    group = alert_group(con, item.item) if item.kind == "alert" else None
    rows: Rows = _decided(con, item, "joined", owner.issue_id, by)
    said = f"{item.key} joined {owner.issue_id}"
    return TriageDecision(_with_tests(con, rows, item, group, owner.issue_id, by), owner.issue_id, said)


def drop_item(con: StoreReader, wanted: str, why: str, by: str) -> TriageDecision:
    """Take an item from the queue, with a reason; of an alert, the other open alerts of its incident too.

    Raises:
        UsageError: No such item waits, or the reason is empty.
    """
    if not why.strip():
        raise UsageError("give a reason for dropping the item")
    item = waiting_item(con, wanted)
    return TriageDecision(_decided(con, item, "dropped", None, by, why), None, f"{item.key} dropped")


def _decided(
    con: StoreReader, item: TriageItem, decision: str, issue_id: str | None, by: str, why: str | None = None
) -> Rows:
    """Return the decision on an item and, for an alert, on the others of its incident: they tell of one change."""
    about = {"issue_id": issue_id, "by": by}
    rows = [{"kind": item.kind, "item": item.item, "decision": decision, "why": why, **about}]
    other = "dropped" if decision == "dropped" else "joined"
    for alert, incident in alerts_of_incident(con, item.item) if item.kind == "alert" else ():
        said = f"of the same incident, {incident}" + (f": {why}" if why else "")
        rows.append({"kind": "alert", "item": alert, "decision": other, "why": said, **about})
    return {"triage": rows}


def _with_tests(
    con: StoreReader, rows: Rows, item: TriageItem, group: AlertGroup | None, issue_id: str, by: str
) -> Rows:
    """Return the rows with tests of the traces behind an item whose text the store has, at most five."""
    traces = [item.trace_id] if group is None else list(group.traces)
    tests: list[dict[str, Any]] = []
    for trace in traces[:_MOST_LOOKED]:
        if trace is None or len(tests) == _MOST_TESTS:
            break
        try:
            stored = read_stored_trace(con, trace)
        except UsageError:
            continue  # an issue without a test is worth more than none
        test = IssueTest(
            f"t-{secrets.token_hex(5)}",
            issue_id,
            stored.messages,
            None,
            None,
            None,
            f"trace {stored.trace_id}",
            True,
            by,
        )
        tests.append(test.row())
    return {**rows, "issue_tests": tests} if tests else rows
