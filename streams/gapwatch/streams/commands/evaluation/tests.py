"""`gapwatch test`: runs the tests of issues against a model or a function, reports, and stands in CI."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gapwatch.sinks.api.store_address import StorePlace
from gapwatch.sinks.commands.issue_options import append_records, author, by_option, make_store
from gapwatch.sinks.commands.options import format_option, reading, store_option
from gapwatch.sinks.reading.terminal_table import Column, print_note, print_table

if TYPE_CHECKING:
    from gapwatch.sinks.issues.run_outcomes import TestRun
    from gapwatch.streams.evaluation.testing.run_config import TestRunConfig


@click.group("test")
def test_command() -> None:
    """Run the tests of issues against a model or a function, and report."""


@test_command.command("run")
@click.argument("config", metavar="CONFIG", type=click.Path(path_type=Path))
@store_option
@click.option("--name", default=None, metavar="RUN", help="Id of the run; that of an interrupted one goes on.")
@click.option("--quiet", is_flag=True, help="Show no progress bar and no report.")
@by_option
def run_tests_command(config: Path, store: StorePlace, name: str | None, quiet: bool, by: str | None) -> None:
    """Ask what CONFIG names for an answer to each test, and its judges for a verdict; print the report.

    Each test is stored with all its verdicts, so an interrupted run goes on under its --name. Exit status 1: the pass
    rate is below the gate of CONFIG. 2: CONFIG is refused, or no test is chosen.
    """
    # Imported here: --help answers without loading DuckDB.
    from gapwatch.scorers.errors import JobError
    from gapwatch.sinks.issues.records import now_text
    from gapwatch.sinks.issues.run_report import run_markdown, runs_markdown
    from gapwatch.streams.evaluation.testing.run_config import load_test_config

    written = load_test_config(config)
    began = name or f"run-{now_text()}"
    make_store(store)
    runs = [_run(f"{began}{end}", one, config, store, quiet, author(by)) for end, one in written.each()]
    if not quiet:
        sys.stdout.write(run_markdown(runs[0]) if len(runs) == 1 else runs_markdown(runs))
    for run in runs:
        rate = run.rate()
        if written.gate is not None and not rate.value >= written.gate:
            sys.stdout.flush()
            raise JobError(
                f"the gate is missed: pass rate {rate.value:.1%} of {rate.n} tests of {run.model}, {written.gate:.1%} "
                "needed"
            )


def _run(run_id: str, written: TestRunConfig, config: Path, store: StorePlace, quiet: bool, by: str) -> TestRun:
    """Begin a run, or go on with it, and return it."""
    import asyncio

    from gapwatch.scorers.errors import UsageError
    from gapwatch.sinks.issues.issue_query import chosen_tests
    from gapwatch.sinks.issues.records import as_json
    from gapwatch.sinks.issues.run_outcomes import list_runs, read_run
    from gapwatch.streams.evaluation.reports.progress import ExampleProgress
    from gapwatch.streams.evaluation.running.llm_client import judge_name
    from gapwatch.streams.evaluation.testing.tests_run import run_tests

    target = written.target()
    with reading(store) as con:
        tests = chosen_tests(con, written.choice)
        begun = next((run for run in list_runs(con) if run.run_id == run_id), None)
        done = read_run(con, run_id).outcomes if begun is not None else {}
    if begun is not None and begun.model != target:
        raise UsageError(f"the run {run_id} tests {begun.model}, not {target}; give another --name")
    if begun is not None:
        tests = [(issue, test) for issue, test in tests if test.test_id in begun.planned]
    if not tests:
        raise UsageError("no active test is chosen; gapwatch issue list shows issues with their tests")
    if begun is None:
        row = {
            "run_id": run_id, "model": target, "judges": as_json([judge_name(j.client()) for j in written.judges]),
            "tests": as_json([test.test_id for _, test in tests]), "settings": as_json({"params": written.params}),
            "by": by,
        }  # fmt: skip
        append_records(store, {"test_runs": [row]})
    left = [(issue, test) for issue, test in tests if test.test_id not in done]
    with ExampleProgress(len(left), enabled=not quiet) as progress:
        asyncio.run(run_tests(run_id, written, config, left, partial(append_records, store), progress.update))
    with reading(store) as con:
        return read_run(con, run_id)


@test_command.command("report")
@click.argument("names", metavar="RUN...", nargs=-1)
@store_option
@click.option(
    "--html", default=None, type=click.Path(path_type=Path), metavar="FILE", help="Write one HTML file instead."
)
def report_command(names: tuple[str, ...], store: StorePlace, html: Path | None) -> None:
    """Print the report of RUN: pass rates by domain, issue and tag, and each test with its justification.

    Of several runs it shows the pass rate of each domain by model, side by side. Without RUN: the last one.
    """
    from gapwatch.scorers.errors import UsageError
    from gapwatch.sinks.issues.run_html import runs_html
    from gapwatch.sinks.issues.run_outcomes import read_run
    from gapwatch.sinks.issues.run_report import run_markdown, runs_markdown

    with reading(store) as con:
        found = [read_run(con, name) for name in names or ("last",)]
    if html is None:
        sys.stdout.write(run_markdown(found[0]) if len(found) == 1 else runs_markdown(found))
        return
    try:
        html.write_text(runs_html(found), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{html} cannot be written: {error.strerror}") from error
    click.echo(f"wrote {html}")


@test_command.command("trend")
@store_option
@click.option("--model", default=None, metavar="NAME", help="Only runs of this model or function.")
@click.option("--by-domain", is_flag=True, help="Show the pass rate of each domain, a column for each run.")
@format_option
def trend_command(store: StorePlace, model: str | None, by_domain: bool, form: str) -> None:
    """Show the pass rate of each run, the earliest first."""
    import orjson

    from gapwatch.sinks.issues.run_outcomes import domain_names, list_runs, read_run
    from gapwatch.sinks.issues.side_by_side import domain_table

    with reading(store) as con:
        runs = [read_run(con, one.run_id) for one in list_runs(con) if model in (None, one.model)]
    if form == "json":
        said = []
        for run in runs:
            rate = run.rate()
            domains = {name: _counted(run, some) for name, some in run.by(domain_names).items()}
            row = {"run": run.run_id, "model": run.model, "at": str(run.at), "decided": rate.n, "domains": domains}
            said.append({**row, "rate": rate.value, "lower": rate.lower, "upper": rate.upper} if rate.n else row)
        sys.stdout.write(orjson.dumps(said, option=orjson.OPT_INDENT_2).decode() + "\n")
        return
    if not runs:
        print_note("no runs")
        return
    if by_domain:
        titles, cells = domain_table(runs)
        print_table([Column(titles[0], whole=True), *(Column(one, right=True) for one in titles[1:])], cells)
        return
    rows = []
    for run in runs:
        rate = run.rate()
        interval = f"{rate.lower:.1%} to {rate.upper:.1%}" if rate.n else ""
        rows.append([run.run_id, run.model, run.at, _counted(run, list(run.outcomes.values())), interval])
    print_table([*map(Column, ("run", "model", "at")), Column("pass rate", right=True), Column("95 % interval")], rows)


@test_command.command("override")
@click.argument("run", metavar="RUN")
@click.argument("test", metavar="TEST")
@store_option
@click.option("--outcome", required=True, type=click.Choice(["pass", "fail"]), help="Your outcome for the test.")
@click.option("--why", required=True, metavar="TEXT", help="Reason for your outcome; it is stored with it.")
@by_option
def override_test_command(run: str, test: str, store: StorePlace, outcome: str, why: str, by: str | None) -> None:
    """Give TEST of RUN your outcome instead of the judges', which stays in the store."""
    from gapwatch.scorers.errors import UsageError
    from gapwatch.sinks.issues.run_outcomes import read_run

    with reading(store) as con:
        found = read_run(con, run)
    if test not in found.outcomes:
        raise UsageError(f"the run {found.run_id} has no result of a test {test!r}")
    row = {"run_id": found.run_id, "test_id": test, "outcome": outcome, "why": why, "by": author(by)}
    append_records(store, {"test_overrides": [row]})
    click.echo(f"{found.run_id} {test}: {outcome}")


def _counted(run: object, some: object) -> str:
    from gapwatch.sinks.issues.run_outcomes import TestRun

    assert isinstance(run, TestRun) and isinstance(some, list)
    rate = run.rate(some)
    return f"{rate.value:.1%} ({round(rate.value * rate.n)}/{rate.n})" if rate.n else "-"
