"""Pages of the issues: all with their status and failure rate, and one with its tests and its history."""

from __future__ import annotations

from gapwatch.sinks.issues.issue import STATUSES, TEMPLATES, Issue
from gapwatch.sinks.issues.issue_query import find_issue, issue_history, issue_items, read_issues, read_tests
from gapwatch.sinks.issues.issue_rates import IssueRate, issue_rates
from gapwatch.sinks.pages.layout import Html, badge, bar, cell, facts, named, page, page_link, section, table
from gapwatch.sinks.pages.triage_page import author_form
from gapwatch.sinks.store.store_reader import StoreReader

_ORDER = {status: place for place, status in enumerate(("regressed", "open", "draft", "fixed", "closed"))}


def issues_page(con: StoreReader) -> str:
    """Return the page of all issues, the most urgent status first."""
    issues, tests, rates = read_issues(con), read_tests(con), issue_rates(con)
    counts: dict[str, int] = {}
    for test in tests.values():
        counts[test.issue_id] = counts.get(test.issue_id, 0) + test.is_active
    rows = [
        [
            badge(one.status), named(page_link(f"issues/{one.issue_id}", one.title), _about(one)),
            str(counts.get(one.issue_id, 0)), *_rate_cells(rates.get(one.issue_id)), one.by,
        ]
        for one in sorted(issues.values(), key=lambda one: _ORDER[one.status])
    ]  # fmt: skip
    titles = ("status", "issue", "#tests", "#failing", "0 to 100 %", "run", "last change by")
    hint = (
        "Failing: share of the issue's decided tests that fail in the latest run that has them, with its 95 % interval."
    )
    return page("issues", [section("Issues", table(titles, rows, "no issues yet"), hint=hint)])


def issue_page(con: StoreReader, wanted: str, may_write: bool) -> str:
    """Return the page of one issue.

    Raises:
        UsageError: There is no such issue, or several begin so.
    """
    one = find_issue(con, wanted)
    tests = [test for test in read_tests(con).values() if test.issue_id == one.issue_id]
    rate = issue_rates(con).get(one.issue_id)
    failing, drawn, run = _rate_cells(rate, "../")
    told = facts(
        (
            ("status", badge(one.status)), ("description", one.description), ("guideline", one.guideline),
            ("domain", one.domain), ("tags", ", ".join(one.tags)), ("metric that watches", one.metric),
            ("failing", Html(f"{cell(failing)}{drawn}{cell(run)}") if rate else "no run has its tests"),
        )
    )  # fmt: skip
    parts = [section(one.title, told)]
    if may_write:
        parts += [author_form("Without a token this page only shows the issue."), _status_form(one)]
    parts.append(
        section(
            "Tests",
            table(
                ("test", "input", "reference", "judge sees", "from"),
                [
                    [
                        test.test_id, _text(test.input_text()), _text(test.reference or ""),
                        ", ".join(TEMPLATES[test.setup(one)[0]]),
                        test.origin if test.is_active else f"{test.origin} (not active)",
                    ]
                    for test in tests
                ],
                "no tests: gapwatch issue from-trace, or add-test",
            ),
        )
    )  # fmt: skip
    came = [
        [page_link(f"../alerts/{row['item']}", row["item"]) if row["kind"] == "alert" else row["item"], row["kind"],
         row["decision"], row["by"], row["at"], row["why"]]
        for row in issue_items(con, one.issue_id)
    ]  # fmt: skip
    parts.append(section("Came from", table(("item", "kind", "decision", "by", "at", "why"), came, "made by hand")))
    changes = [[row["at"], badge(row["status"]), row["by"], row["why"]] for row in issue_history(con, one.issue_id)]
    parts.append(section("Changes", table(("at", "status", "by", "why"), changes, "none")))
    return page(f"issue {one.issue_id}", parts, "../", may_write)


def _about(one: Issue) -> str:
    return " · ".join(part for part in (one.domain, ", ".join(one.tags), one.issue_id) if part)


def _rate_cells(rate: IssueRate | None, root: str = "") -> tuple[object, object, object]:
    if rate is None or not rate.failing.n:
        return "-", "", ""
    failing = rate.failing
    text = named(f"{failing.value:.1%}", f"{round(failing.value * failing.n)} of {failing.n}")
    return text, bar(failing), named(page_link(f"{root}runs/{rate.run_id}", rate.run_id), rate.model)


def _text(value: str) -> Html:
    return Html(f'<div class="text">{cell(value if len(value) <= 600 else value[:600] + "…")}</div>')


def _status_form(one: Issue) -> Html:
    choices = "".join(f"<option{' selected' if status == one.status else ''}>{status}</option>" for status in STATUSES)
    return section(
        "Change the status",
        f'<div data-issue="{cell(one.issue_id)}"><form class="decision">'
        f'<select name="status" aria-label="status">{choices}</select> '
        '<input name="why" required placeholder="reason" aria-label="reason"> <button>set</button></form></div>',
    )
