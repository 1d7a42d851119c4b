"""`gapwatch triage`: what went wrong and waits for a decision: an issue, a further one of an issue, or nothing."""

from __future__ import annotations

import sys

import click

from gapwatch.sinks.api.store_address import StorePlace
from gapwatch.sinks.commands.issue_options import append_records, author, by_option
from gapwatch.sinks.commands.options import format_option, reading, store_option
from gapwatch.sinks.reading.terminal_table import Column, print_note, print_table


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
    new group is the issue, and the other open alerts of its incident join it.
    """
    from gapwatch.sinks.issues.triaging import make_issue

    with reading(store) as con:
        decided = make_issue(con, item, title, force, author(by))
    append_records(store, decided.rows)
    click.echo(decided.said)


@triage_command.command("join")
@click.argument("item", metavar="ITEM")
@click.argument("issue", metavar="ISSUE")
@store_option
@by_option
def triage_join_command(item: str, issue: str, store: StorePlace, by: str | None) -> None:
    """Add ITEM to ISSUE, with a test where the store has the trace's text; an alert brings those of its incident."""
    from gapwatch.sinks.issues.triaging import join_issue

    with reading(store) as con:
        decided = join_issue(con, item, issue, author(by))
    append_records(store, decided.rows)
    click.echo(decided.said)


@triage_command.command("drop")
@click.argument("item", metavar="ITEM")
@store_option
@click.option("--why", required=True, metavar="TEXT", help="Reason; it is stored with the decision.")
@by_option
def triage_drop_command(item: str, store: StorePlace, why: str, by: str | None) -> None:
    """Take ITEM from the queue, with a reason; of an alert, the other open alerts of its incident too."""
    from gapwatch.sinks.issues.triaging import drop_item

    with reading(store) as con:
        decided = drop_item(con, item, why, author(by))
    append_records(store, decided.rows)
    click.echo(decided.said)


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
