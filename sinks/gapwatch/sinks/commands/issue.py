"""`gapwatch issue`: issues and their tests, append-only with who and when."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gapwatch.scorers.errors import UsageError
from gapwatch.sinks.api.store_address import StorePlace
from gapwatch.sinks.commands.issue_options import append_records, author, by_option, make_store
from gapwatch.sinks.commands.options import format_option, reading, store_option
from gapwatch.sinks.reading.terminal_table import Column, print_note, print_table

if TYPE_CHECKING:
    from gapwatch.sinks.issues.issue import Issue, IssueTest

_STATUSES = click.Choice(["draft", "open", "fixed", "regressed", "closed"])
_TEMPLATE = click.Choice(["1", "2", "3"])


@click.group("issue")
def issue_command() -> None:
    """Keep issues (wrong behaviour of a model) and the tests that watch them."""


@issue_command.command("new")
@click.argument("title", metavar="TITLE")
@store_option
@click.option("--description", default="", metavar="TEXT", help="What is wrong.")
@click.option("--domain", default="", metavar="NAME", help="Field of use, such as math.")
@click.option("--tag", "tags", multiple=True, metavar="WORD", help="Further word; repeatable.")
@click.option("--guideline", default="", metavar="TEXT", help="Guideline for the judge.")
@click.option("--template", default="3", type=_TEMPLATE, show_default=True,
              help="What the judge sees: 1 input, output, reference; 2 no input; 3 no reference.")  # fmt: skip
@click.option("--metric", default="", metavar="NAME", help="Metric of the portfolio that watches for its return.")
@click.option("--status", default="draft", type=_STATUSES, show_default=True, help="State to begin with.")
@by_option
def new_issue_command(
    title: str, store: StorePlace, description: str, domain: str, tags: tuple[str, ...], guideline: str, template: str,
    metric: str, status: str, by: str | None,
) -> None:  # fmt: skip
    """Make an issue, and print its id."""
    from gapwatch.sinks.issues.issue import Issue

    issue = Issue(_new_id("i"), title, description, status, domain, tags, int(template), guideline, metric, author(by))
    make_store(store)
    append_records(store, {"issues": [issue.row()]})
    click.echo(issue.issue_id)


@issue_command.command("set")
@click.argument("issue", metavar="ISSUE")
@store_option
@click.option("--title", default=None, metavar="TEXT", help="New title.")
@click.option("--description", default=None, metavar="TEXT", help="New description.")
@click.option("--status", default=None, type=_STATUSES, help="New state.")
@click.option("--domain", default=None, metavar="NAME", help="New domain.")
@click.option("--tag", "tags", multiple=True, metavar="WORD", help="New tags instead of the old ones; repeatable.")
@click.option("--guideline", default=None, metavar="TEXT", help="New guideline of its tests.")
@click.option("--template", default=None, type=_TEMPLATE, help="New judge set-up of its tests.")
@click.option("--metric", default=None, metavar="NAME", help="Metric that watches for its return.")
@click.option("--why", default=None, metavar="TEXT", help="Reason for the change.")
@by_option
def set_issue_command(
    issue: str, store: StorePlace, title: str | None, description: str | None, status: str | None, domain: str | None,
    tags: tuple[str, ...], guideline: str | None, template: str | None, metric: str | None, why: str | None,
    by: str | None,
) -> None:  # fmt: skip
    """Change an issue: a new version, beside the old ones."""
    from gapwatch.sinks.issues.issue_query import find_issue

    given = {
        "title": title, "description": description, "status": status, "domain": domain, "tags": tags or None,
        "guideline": guideline, "template": int(template) if template else None, "metric": metric,
    }  # fmt: skip
    changed: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if not changed:
        raise UsageError("nothing to change; give an option such as --status open")
    with reading(store) as con:
        old = find_issue(con, issue)
    append_records(store, {"issues": [replace(old, **changed, by=author(by), why=why).row()]})
    click.echo(f"{old.issue_id}: {', '.join(changed)} changed")


@issue_command.command("list")
@store_option
@click.option("--status", default=None, type=_STATUSES, help="Only issues in this state.")
@click.option("--tag", default=None, metavar="WORD", help="Only issues with this tag.")
@format_option
def list_issues_command(store: StorePlace, status: str | None, tag: str | None, form: str) -> None:
    """List the issues with the number of their tests."""
    from gapwatch.sinks.issues.issue_query import read_issues, read_tests

    with reading(store) as con:
        issues, tests = read_issues(con), read_tests(con)
    chosen = [one for one in issues.values() if status in (None, one.status) and (tag is None or tag in one.tags)]
    counts = {one.issue_id: sum(t.issue_id == one.issue_id and t.is_active for t in tests.values()) for one in chosen}
    if form == "json":
        _write_json([{**_shown(one), "tests": counts[one.issue_id]} for one in chosen])
        return
    if not chosen:
        print_note("no issues")
        return
    columns = (
        Column("issue", whole=True), Column("status"), Column("title"), Column("domain"), Column("tags"),
        Column("tests", right=True), Column("by"),
    )  # fmt: skip
    print_table(
        columns,
        [
            [one.issue_id, one.status, one.title, one.domain, ", ".join(one.tags), counts[one.issue_id], one.by]
            for one in chosen
        ],
    )


@issue_command.command("show")
@click.argument("issue", metavar="ISSUE")
@store_option
@format_option
def show_issue_command(issue: str, store: StorePlace, form: str) -> None:
    """Show an issue: what is wrong, what it came from, its tests, and every change."""
    from gapwatch.sinks.issues.issue_query import find_issue, issue_history, issue_items, read_tests

    with reading(store) as con:
        one = find_issue(con, issue)
        tests = [test for test in read_tests(con).values() if test.issue_id == one.issue_id]
        items, changes = issue_items(con, one.issue_id), issue_history(con, one.issue_id)
    if form == "json":
        _write_json({**_shown(one), "tests": [test.row() for test in tests], "from": items, "changes": changes})
        return
    sys.stdout.write(f"{one.issue_id}  {one.status}  {one.title}\n")
    for name, text in (
        ("description", one.description), ("domain", one.domain), ("tags", ", ".join(one.tags)),
        ("guideline", one.guideline), ("metric", one.metric),
    ):  # fmt: skip
        if text:
            sys.stdout.write(f"{name}: {text}\n")
    sys.stdout.write("\n")
    if items:
        rows = [[f"{row['kind']}:{row['item']}", row["decision"], row["by"], row["at"], row["why"]] for row in items]
        print_table(
            [Column("from", whole=True), *map(Column, ("decision", "by", "at", "why"))], rows, title="Came from"
        )
    if tests:
        columns = [
            Column("test", whole=True),
            Column("template"),
            Column("input"),
            Column("reference"),
            Column("origin"),
        ]
        shown = [[t.test_id, t.setup(one)[0], t.input_text()[:200], (t.reference or "")[:80], t.origin] for t in tests]
        print_table(columns, shown, title="Tests")
    rows = [[row["at"], row["by"], row["status"], row["why"]] for row in changes]
    print_table([Column(name) for name in ("at", "by", "status", "why")], rows, title="Changes")


@issue_command.command("add-test")
@click.argument("issue", metavar="ISSUE")
@store_option
@click.option(
    "--input", "text", required=True, metavar="TEXT", help="Input of the model: a text, or a JSON list of messages."
)
@click.option("--reference", default=None, metavar="TEXT", help="Right answer.")
@click.option("--guideline", default=None, metavar="TEXT", help="Guideline instead of that of the issue.")
@click.option("--template", default=None, type=_TEMPLATE, help="Judge set-up instead of that of the issue.")
@by_option
def add_test_command(
    issue: str, store: StorePlace, text: str, reference: str | None, guideline: str | None, template: str | None,
    by: str | None,
) -> None:  # fmt: skip
    """Add a test to an issue, and print its id."""
    from gapwatch.sinks.issues.issue import IssueTest
    from gapwatch.sinks.issues.issue_query import find_issue
    from gapwatch.sinks.issues.trace_test import messages_of

    with reading(store) as con:
        owner = find_issue(con, issue)
    test = IssueTest(
        _new_id("t"), owner.issue_id, messages_of(text), reference, int(template) if template else None, guideline, "",
        True, author(by),
    )  # fmt: skip
    append_records(store, {"issue_tests": [test.row()]})
    click.echo(test.test_id)


@issue_command.command("from-trace")
@click.argument("trace", metavar="TRACE")
@store_option
@click.option(
    "--issue", "joined", default=None, metavar="ISSUE", help="Add the test to this issue. Default: a new draft."
)
@click.option("--title", default=None, metavar="TEXT", help="Title of the new issue. Default: the metrics that fail.")
@click.option("--reference", default=None, metavar="TEXT", help="Right answer.")
@by_option
def from_trace_command(
    trace: str, store: StorePlace, joined: str | None, title: str | None, reference: str | None, by: str | None
) -> None:
    """Make a test from a stored trace, redacted as the portfolio says, in a new issue or an existing one."""
    from gapwatch.sinks.issues.issue_query import find_issue
    from gapwatch.sinks.issues.trace_test import read_stored_trace

    with reading(store) as con:
        stored = read_stored_trace(con, trace)
        owner = None if joined is None else find_issue(con, joined)
    rows, issue, test = trace_records(stored, owner, title, reference, author(by))
    append_records(store, rows)
    click.echo(f"{issue.issue_id}: test {test.test_id}")


@issue_command.command("metric")
@click.argument("issue", metavar="ISSUE")
@store_option
@click.option("--component", required=True, metavar="ID", help="Component of the portfolio whose spans are judged.")
@click.option("--judge", "judges", multiple=True, required=True, metavar="MODEL", help="vendor/name; repeatable.")
@by_option
def issue_metric_command(
    issue: str, store: StorePlace, component: str, judges: tuple[str, ...], by: str | None
) -> None:
    """Print a metric for the portfolio that watches for the return of ISSUE, and note its name in the issue."""
    from gapwatch.sinks.issues.issue_metric import issue_metric, issue_metric_name
    from gapwatch.sinks.issues.issue_query import find_issue

    with reading(store) as con:
        old = find_issue(con, issue)
    name = issue_metric_name(old)
    if old.metric != name:
        new = replace(old, metric=name, by=author(by), why="watched by a metric of the portfolio")
        append_records(store, {"issues": [new.row()]})
    sys.stdout.write(issue_metric(old, component, judges))


@issue_command.command("import")
@click.argument("folder", metavar="FOLDER", type=click.Path(path_type=Path))
@store_option
@by_option
def import_issues_command(folder: Path, store: StorePlace, by: str | None) -> None:
    """Import a folder of GRAFITE (issue.json, test.json, run.json and its results), or a file.

    A file is what `gapwatch issue export` writes, promptfoo's test cases (YAML), or a data set of JSON lines as
    Langfuse and Phoenix write them: with `input` and `expected_output` or `output`.
    """
    from gapwatch.sinks.issues.grafite import read_grafite
    from gapwatch.sinks.issues.issue_file import read_issue_file
    from gapwatch.sinks.issues.issue_query import read_issues, read_tests

    rows = read_grafite(folder, author(by)) if folder.is_dir() else read_issue_file(folder, author(by))
    make_store(store)
    with reading(store) as con:
        known = {"issues": set(read_issues(con)), "issue_tests": set(read_tests(con))}
    keys = {"issues": "issue_id", "issue_tests": "test_id"}
    for table, key in keys.items():
        if there := [row[key] for row in rows.get(table, []) if row[key] in known[table]]:
            raise UsageError(
                f"{len(there)} of these {table} are in the store already, such as {there[0]}; nothing is imported"
            )
    append_records(store, rows)
    names = {"issues": "issues", "issue_tests": "tests", "test_runs": "runs", "test_results": "results",
             "test_verdicts": "verdicts"}  # fmt: skip
    errors = sum(row["outcome"] == "error" for row in rows.get("test_verdicts", []))
    counted = ", ".join(f"{len(rows[table]):,} {name}" for table, name in names.items() if rows.get(table))
    click.echo(f"imported {counted}{f', {errors} of them failed calls' if errors else ''}")


@issue_command.command("export")
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@store_option
def export_issues_command(file: Path, store: StorePlace) -> None:
    """Write issues and tests to FILE, one JSON object a line, which `gapwatch issue import` reads."""
    import orjson

    from gapwatch.sinks.issues.issue_query import read_issues, read_tests

    with reading(store) as con:
        issues, tests = read_issues(con), read_tests(con)
    lines = [{"issue": one.row()} for one in issues.values()] + [{"test": one.row()} for one in tests.values()]
    try:
        file.write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error.strerror}") from error
    click.echo(f"wrote {len(issues):,} issues and {len(tests):,} tests to {file}")


def trace_records(
    stored: Any, owner: Issue | None, title: str | None, reference: str | None, by: str
) -> tuple[dict[str, list[dict[str, Any]]], Issue, IssueTest]:
    """Return the records of a test from a trace, with its issue and the test.

    Args:
        stored: The trace.
        owner: Issue that the test joins; None for a new draft.
        title: Title of the draft; None for the failing metrics.
        reference: Right answer.
        by: Author.
    """
    from gapwatch.sinks.issues.issue import Issue, IssueTest

    rows: dict[str, list[dict[str, Any]]] = {}
    issue = owner
    if issue is None:
        words = ", ".join(stored.failing) or "reported"
        said = "\n".join(stored.comments)
        issue = Issue(
            _new_id("i"), title or f"{words}: {stored.messages[-1]['content'][:80]}", said or f"fails {words}", "draft",
            "", stored.failing, 1 if reference else 3, "", stored.failing[0] if stored.failing else "", by,
        )  # fmt: skip
        rows["issues"] = [issue.row()]
    test = IssueTest(
        _new_id("t"), issue.issue_id, stored.messages, reference, None, None, f"trace {stored.trace_id}", True, by
    )
    decision = "made" if owner is None else "joined"
    item = {"kind": "row", "item": stored.trace_id, "decision": decision, "issue_id": issue.issue_id, "by": by}
    return {**rows, "issue_tests": [test.row()], "triage": [item]}, issue, test


def _new_id(prefix: str) -> str:
    import secrets

    return f"{prefix}-{secrets.token_hex(5)}"


def _shown(one: Issue) -> dict[str, Any]:
    return {**one.row(), "tags": list(one.tags), "at": None if one.at is None else str(one.at)}


def _write_json(value: Any) -> None:
    import orjson

    sys.stdout.write(orjson.dumps(value, option=orjson.OPT_INDENT_2, default=str).decode() + "\n")
