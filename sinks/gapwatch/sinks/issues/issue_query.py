"""Queries of issues and tests: the latest version of each, and the history of one."""

from __future__ import annotations

from typing import Any

import orjson

from gapwatch.scorers.errors import UsageError
from gapwatch.sinks.issues.issue import Choice, Issue, IssueTest
from gapwatch.sinks.reading.query_answer import ask
from gapwatch.sinks.store.store_reader import StoreReader

_LAST = "QUALIFY row_number() OVER (PARTITION BY {key} ORDER BY seq DESC) = 1"


def read_issues(con: StoreReader) -> dict[str, Issue]:
    """Return all issues by id, the earliest first.

    Raises:
        JobError: The store cannot be read.
    """
    sql = f"""SELECT issue_id, title, description, status, domain, tags, template, guideline, metric, "by", "at", why
        FROM (SELECT *, min(seq) OVER (PARTITION BY issue_id) AS first_seq, row_number() OVER () AS place FROM issues
            {_LAST.format(key="issue_id")}) ORDER BY first_seq, place"""
    rows = ask(con, sql, []).objects()
    return {row["issue_id"]: Issue(**{**row, "tags": tuple(_loaded(row["tags"]) or ())}) for row in rows}


def read_tests(con: StoreReader) -> dict[str, IssueTest]:
    """Return all tests by id, the earliest first.

    Raises:
        JobError: The store cannot be read.
    """
    sql = f"""SELECT test_id, issue_id, inputs, reference, template, guideline, origin, is_active, "by", why
        FROM (SELECT *, min(seq) OVER (PARTITION BY test_id) AS first_seq, row_number() OVER () AS place
            FROM issue_tests {_LAST.format(key="test_id")}) ORDER BY first_seq, place"""
    rows = ask(con, sql, []).objects()
    return {
        row["test_id"]: IssueTest(
            messages=tuple(_loaded(row["inputs"])), **{k: v for k, v in row.items() if k != "inputs"}
        )
        for row in rows
    }


def chosen_tests(con: StoreReader, choice: Choice) -> list[tuple[Issue, IssueTest]]:
    """Return the active tests of a choice with their issues; tests of closed issues are left out.

    Raises:
        UsageError: A name of the choice is unknown.
    """
    issues, tests = read_issues(con), read_tests(con)
    for kind, names, known in (("issue", choice.issues, issues), ("test", choice.tests, tests)):
        for name in names:
            if name not in known:
                raise UsageError(f"there is no {kind} {name!r}; gapwatch issue list shows them")
    found = [(issues[test.issue_id], test) for test in tests.values() if test.issue_id in issues]
    return [
        (issue, test)
        for issue, test in found
        if choice.takes(issue, test) and test.is_active and (issue.status != "closed" or choice.issues)
    ]


def find_issue(con: StoreReader, wanted: str) -> Issue:
    """Return the issue whose id is, or alone begins with, a text.

    Raises:
        UsageError: There is no such issue, or several.
    """
    issues = read_issues(con)
    found = [issues[wanted]] if wanted in issues else [one for id_, one in issues.items() if id_.startswith(wanted)]
    if len(found) != 1:
        what = "several issues begin" if found else "no issue begins"
        raise UsageError(f"{what} with {wanted!r}; gapwatch issue list shows their ids")
    return found[0]


def issue_history(con: StoreReader, issue_id: str) -> list[dict[str, Any]]:
    """Return the versions of an issue, the earliest first.

    Raises:
        JobError: The store cannot be read.
    """
    sql = 'SELECT status, title, "by", "at", why FROM issues WHERE issue_id = ? ORDER BY seq'
    return ask(con, sql, [issue_id]).objects()


def issue_items(con: StoreReader, issue_id: str) -> list[dict[str, Any]]:
    """Return what an issue was made of: feedback, traces, rows and alerts.

    Raises:
        JobError: The store cannot be read.
    """
    sql = 'SELECT kind, item, decision, "by", "at", why FROM triage WHERE issue_id = ? ORDER BY seq'
    return ask(con, sql, [issue_id]).objects()


def _loaded(value: Any) -> Any:
    return orjson.loads(value) if isinstance(value, str) else value
