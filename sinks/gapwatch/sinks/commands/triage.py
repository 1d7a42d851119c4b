"""`gapwatch triage`: what went wrong and waits for a decision: an issue, a further one of an issue, or nothing."""

from __future__ import annotations

import secrets
import sys
from typing import TYPE_CHECKING, Any

import click

from gapwatch.scorers.errors import UsageError
from gapwatch.sinks.api.store_address import StorePlace
from gapwatch.sinks.commands.issue_options import append_records, author, by_option
from gapwatch.sinks.commands.options import format_option, reading, store_option
from gapwatch.sinks.reading.terminal_table import Column, print_note, print_table

if TYPE_CHECKING:
    from gapwatch.sinks.issues.alert_group import AlertGroup
    from gapwatch.sinks.issues.triage_queue import TriageItem
    from gapwatch.sinks.store.store_reader import StoreReader

#: Tests that an alert's issue begins with, and traces that are looked at for them.
_MOST_TESTS, _MOST_LOOKED = 5, 40


@click.group("triage")
def triage_command() -> None:
    """Decide on feedback, failing traces and open alerts: make an issue, join one, or drop them."""


@triage_command.command("list")
@store_option
@click.option("--kind", default=None, type=click.Choice(["alert", "feedback", "row"]), help="Only these items.")
@click.option("--limit", default=20, show_default=True, type=click.IntRange(1, 1000), help="Largest number of items.")
@format_option
def triage_queue_command(store: StorePlace, kind: str | None, limit: int, form: str) -> None:
    """List what nobody has decided on, with the most similar issue: alerts, bad feedback, failing traces."""
    from gapwatch.sinks.issues.issue_query import read_issues
    from gapwatch.sinks.issues.similar import similar_issues
    from gapwatch.sinks.issues.triage_queue import triage_items

    with reading(store) as con:
        items, issues = triage_items(con, kind, limit), read_issues(con).values()
    found = []
    for item in items:
        near = similar_issues(item.text, item.metrics, issues, 1) if issues else []
        found.append((item, near[0][1] if near else None))
    if form == "json":
        import orjson

        rows = [
            {**vars(item), "key": item.key, "similar": None if near is None else near.issue_id} for item, near in found
        ]
        sys.stdout.write(orjson.dumps(rows, option=orjson.OPT_INDENT_2, default=str).decode() + "\n")
        return
    if not found:
        print_note("nothing waits for a decision")
        return
    columns = [Column("item", whole=True), Column("at"), Column("metrics"), Column("what"), Column("similar issue")]
    print_table(
        columns,
        [
            [
                item.key, item.at, ", ".join(item.metrics), item.text[:160],
                "" if near is None else f"{near.issue_id} {near.title}",
            ]
            for item, near in found
        ],
    )  # fmt: skip


@triage_command.command("make")
@click.argument("item", metavar="ITEM")
@store_option
@click.option("--title", default=None, metavar="TEXT", help="Title. Default: from the item.")
@click.option("--force", is_flag=True, help="Make it although a similar issue exists.")
@by_option
def triage_make_command(item: str, store: StorePlace, title: str | None, force: bool, by: str | None) -> None:
    """Make a draft issue of ITEM (kind:id), with tests where the store has the texts of traces, and print its id.

    Of an alert, the failing traces since its change are grouped by which metrics fail together and by text; the largest
    new group is the issue.
    """
    from gapwatch.sinks.issues.alert_group import alert_group
    from gapwatch.sinks.issues.issue import Issue
    from gapwatch.sinks.issues.issue_query import read_issues
    from gapwatch.sinks.issues.similar import similar_issues

    with reading(store) as con:
        one = _waiting(con, item)
        group = alert_group(con, one.item) if one.kind == "alert" else None
        metrics = one.metrics if group is None else group.metrics
        near = [] if force else similar_issues(one.text, metrics, read_issues(con).values(), 3)
        if near:
            listed = ", ".join(f"{issue.issue_id} ({issue.title})" for _, issue in near)
            raise UsageError(f"similar issues exist: {listed}; gapwatch triage join {item} ISSUE, or add --force")
        tests = _tests_of(con, one, group)
    name = author(by)
    issue = Issue(
        f"i-{secrets.token_hex(5)}", title or one.text[:100] or one.key, one.text if group is None else group.words,
        "draft", "", metrics, 3, "", one.metrics[0] if one.metrics else "", name,
    )  # fmt: skip
    rows: dict[str, Any] = {"issues": [issue.row()], "triage": [_decision(one, "made", issue.issue_id, name, None)]}
    append_records(store, {**rows, **_tests(tests, issue.issue_id, name)})
    click.echo(issue.issue_id)


@triage_command.command("join")
@click.argument("item", metavar="ITEM")
@click.argument("issue", metavar="ISSUE")
@store_option
@by_option
def triage_join_command(item: str, issue: str, store: StorePlace, by: str | None) -> None:
    """Add ITEM to ISSUE, with a test where the store has the trace's text."""
    from gapwatch.sinks.issues.alert_group import alert_group
    from gapwatch.sinks.issues.issue_query import find_issue

    with reading(store) as con:
        one, owner = _waiting(con, item), find_issue(con, issue)
        tests = _tests_of(con, one, alert_group(con, one.item) if one.kind == "alert" else None)
    name = author(by)
    rows: dict[str, Any] = {"triage": [_decision(one, "joined", owner.issue_id, name, None)]}
    append_records(store, {**rows, **_tests(tests, owner.issue_id, name)})
    click.echo(f"{one.key} joined {owner.issue_id}")


@triage_command.command("drop")
@click.argument("item", metavar="ITEM")
@store_option
@click.option("--why", required=True, metavar="TEXT", help="Reason; it is stored with the decision.")
@by_option
def triage_drop_command(item: str, store: StorePlace, why: str, by: str | None) -> None:
    """Take ITEM from the queue, with a reason."""
    with reading(store) as con:
        one = _waiting(con, item)
    append_records(store, {"triage": [_decision(one, "dropped", None, author(by), why)]})
    click.echo(f"{one.key} dropped")


@triage_command.command("check")
@store_option
def triage_check_command(store: StorePlace) -> None:
    """Set fixed issues to regressed whose metric alerts again; a run does this by itself."""
    from gapwatch.sinks.issues.regressions import regressed_issues

    with reading(store) as con:
        records = regressed_issues(con)
    if records is None:
        print_note("no fixed issue has returned")
        return
    append_records(store, records.rows)
    for row in records.rows["issues"]:
        click.echo(f"{row['issue_id']} has regressed: {row['why']}")


def _waiting(con: StoreReader, wanted: str) -> TriageItem:
    from gapwatch.sinks.issues.triage_queue import triage_items

    kind, _, id_ = wanted.partition(":")
    found = [one for one in triage_items(con, kind, 1_000_000) if one.item == id_] if id_ else []
    if not found:
        raise UsageError(f"no item {wanted!r} waits for a decision; gapwatch triage list shows them as kind:id")
    return found[0]


def _tests_of(con: StoreReader, item: TriageItem, group: AlertGroup | None) -> list[dict[str, Any]]:
    """Return tests of the traces behind an item whose text the store has, at most five."""
    from gapwatch.sinks.issues.issue import IssueTest
    from gapwatch.sinks.issues.trace_test import read_stored_trace

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
            f"t-{secrets.token_hex(5)}", "", stored.messages, None, None, None, f"trace {stored.trace_id}", True, ""
        )
        tests.append(test.row())
    return tests


def _tests(tests: list[dict[str, Any]], issue_id: str, by: str) -> dict[str, Any]:
    return {"issue_tests": [{**test, "issue_id": issue_id, "by": by} for test in tests]} if tests else {}


def _decision(item: TriageItem, decision: str, issue_id: str | None, by: str, why: str | None) -> dict[str, Any]:
    return {
        "kind": item.kind, "item": item.item, "decision": decision, "issue_id": issue_id, "by": by, "why": why,
    }  # fmt: skip
