"""`gapwatch check`: reports errors, monitored components and likely mistakes of portfolios."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from gapwatch.scorers.checking.claim_words import expected_words
from gapwatch.scorers.errors import JobError, Problem, facts_to_paste
from gapwatch.scorers.portfolio.metric import Metric
from gapwatch.scorers.portfolio.polarity import direction_in_force
from gapwatch.scorers.printable import shown

if TYPE_CHECKING:
    from gapwatch.scorers.checking.check import CheckedPortfolio
    from gapwatch.scorers.portfolio.portfolio import Portfolio

#: Columns where the output is no terminal; narrower, the claims would take a column of single words.
FILE_WIDTH = 140
BAD_PORTFOLIO = 2


@click.command("check")
@click.argument("portfolios", nargs=-1, required=True, metavar="PORTFOLIO...", type=click.Path(path_type=Path))
@click.option(
    "--facts", type=click.Path(path_type=Path), help="YAML file of further facts; of two with one id the later wins."
)
@click.option(
    "--against", multiple=True, metavar="FILE",
    help="Test the portfolios on the traces of a file (JSON lines of traces, or a file of OpenTelemetry spans; plain, "
    ".gz, .zst); repeatable. Nothing is stored.",
)  # fmt: skip
@click.option(
    "--judges", type=click.Path(path_type=Path), metavar="J",
    help="Also check the settings of the judges for these portfolios; no key is read and no model is asked.",
)  # fmt: skip
@click.option("--explain", is_flag=True, help="Print the fields that are read from a record, and the SQL query.")
@click.option(
    "--prompts", is_flag=True,
    help="Print the prompt of each judged metric, filled with a trace of --against, else with an example.",
)  # fmt: skip
@click.option(
    "--scorers", default=None, metavar="MODULE",
    help="Python module or .py file with the @scorer functions that the portfolios name; for --against.",
)  # fmt: skip
@click.pass_context
def check(
    context: click.Context,
    portfolios: tuple[Path, ...],
    facts: Path | None,
    against: tuple[str, ...],
    judges: Path | None,
    explain: bool,
    prompts: bool,
    scorers: str | None,
) -> None:
    """Check portfolios: report errors, the metrics of each component, and unmonitored components.

    Every problem of every file is shown at once, with its line and what to write instead.
    Exit status 0: all portfolios are valid. 1: no file of --against holds a trace of their pipelines. 2: at least one
    is refused, or a file is missing.
    """
    # Imported here: --help answers without DuckDB.
    from gapwatch.scorers.checking.check import check_portfolio

    checked = check_portfolio(*portfolios, facts=facts)
    print_checked(checked)
    if any(one.portfolio is None for one in checked):
        context.exit(BAD_PORTFOLIO)
    good = [one.portfolio for one in checked if one.portfolio is not None]
    if judges is not None:
        _check_judges(judges, good)
    if explain:
        _print_plan(good)
    if prompts:
        for portfolio in good:
            _print_prompts(portfolio, against)
    if against:
        _print_against(good, against, scorers)


def _check_judges(file: Path, portfolios: Sequence[Portfolio]) -> None:
    """Check settings of judges: their values, caps on metrics, a provider and, under a cap, a price for each model."""
    from gapwatch.streams.judges.calls.terms import checked_terms
    from gapwatch.streams.judges.settings import load_judge_settings

    settings = load_judge_settings(file)
    prices = {model for one in checked_terms(portfolios, settings) for model in one.prices}
    wait = f"a request waits {settings.give_up_after} in an outage"
    console().print(Text(f"{shown(str(file), 200)} is valid: {len(prices)} models; {wait}"))


def _print_plan(portfolios: Sequence[Portfolio]) -> None:
    from gapwatch.scorers.plan.plan import compile_plan
    from gapwatch.scorers.plan.record_types import SPAN_KEYS, TRACE_KEYS, USAGE_KEYS

    plan = compile_plan(portfolios)
    keys = plan.keys
    out = console()
    out.print(Text("Fields read from a record", style="bold"), Text("all others are ignored", style="dim"))
    table = Table.grid(padding=(0, 2, 0, 2))
    table.add_row("trace", ", ".join([*TRACE_KEYS, *(f"attributes.{key}" for key in keys.trace_attributes)]))
    span = [*SPAN_KEYS, *keys.texts, *(USAGE_KEYS if keys.usage else [])]
    table.add_row("span", ", ".join([*span, *(f"attributes.{key}" for key in keys.attributes)]))
    out.print(table)
    out.print(Text("Functions", style="bold"), Text("one for each component and its metrics", style="dim"))
    for block in plan.blocks:
        click.echo(f"# {block.portfolio.pipeline}: {block.component or 'traces'}: {', '.join(block.names)}")
        click.echo(block.function.source, nl=False)
        for name, value in block.function.constants.items():
            click.echo(f"# {name} = {value!r}")


def _print_prompts(portfolio: Portfolio, files: Sequence[str]) -> None:
    # Imported here: without --prompts no file is read.
    from gapwatch.streams.batch.example_prompts import example_prompts

    out = console()
    examples = example_prompts(portfolio, files)
    if not examples:
        out.print(Text(f"{shown(portfolio.portfolio)} has no judged metric, so no prompt", style="dim"))
    for example in examples:
        characters = sum(len(text) for _, text in example.call.messages)
        out.print(
            Text(f"Prompt of {shown(example.metric)}", style="bold"),
            Text(f"{shown(example.source, 200)}; {characters:,} characters", style="dim"),
        )
        for role, text in example.call.messages:
            out.print(Text(f"--- {role}", style="dim"))
            click.echo(text)  # what a terminal would obey is spelt out in it


def _print_against(portfolios: Sequence[Portfolio], files: Sequence[str], scorers: str | None) -> None:
    # Imported here: without --against no file is read and no scorer is started.
    from gapwatch.streams.batch.check_against import check_against
    from gapwatch.streams.commands.scorers_options import scorer_host
    from gapwatch.streams.otlp.files.whole_traces import whole_trace_files
    from gapwatch.streams.reports.against_report import print_against
    from gapwatch.streams.sources.file_kind import check_files

    pipelines = {portfolio.pipeline for portfolio in portfolios}
    traces = click.get_current_context().with_resource(whole_trace_files(files, portfolios))
    for fault in check_files(traces, pipelines):
        click.echo(f"gapwatch: warning: {fault}", err=True)
    with scorer_host(scorers) as host:
        found = check_against(portfolios, traces, host)
    print_against(console(), found, portfolios)
    if not any(found.traces[pipeline] for pipeline in pipelines):
        raise JobError(
            f"not one of the {found.records.total():,} records in {', '.join(files)} is a trace of the portfolio's "
            "pipeline"
        )


def print_checked(checked: Iterable[CheckedPortfolio]) -> None:
    """Print good portfolios to standard output, and problems to standard error."""
    for one in checked:
        if one.portfolio is None:
            _print_problems(console(stderr=True), one.file, one.problems)
        else:
            _print_portfolio(console(), one.file, one.portfolio)
            _print_warnings(console(), one)


def console(stderr: bool = False) -> Console:
    """Return a console as wide as the terminal, or `FILE_WIDTH` columns if the output is not a terminal."""
    terminal = Console(stderr=stderr, highlight=False)
    return terminal if terminal.is_terminal else Console(stderr=stderr, highlight=False, width=FILE_WIDTH)


def _print_problems(out: Console, file: str, problems: Sequence[Problem]) -> None:
    count = f"{len(problems)} problem{'s' if len(problems) > 1 else ''}"
    out.print(Text(f"{shown(file, 200)} is refused: {count}", style="bold red"))
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold", max_width=45)
    table.add_column(overflow="fold")
    for problem in problems:
        where = problem.file if problem.line is None else f"{problem.file}:{problem.line}"
        text = Text(shown(problem.message, 400))
        if problem.expected:
            text.append(f"; expected {shown(problem.expected, 400)}")
        if problem.suggestion:
            text.append("; write ").append(shown(problem.suggestion, 200), style="green")
        table.add_row(Text(f"  {shown(where, 200)}", style="dim"), Text(shown(problem.key, 200), style="bold"), text)
    out.print(table)
    for line in facts_to_paste(list(problems)):
        out.print(Text(line), soft_wrap=True)  # pasted as it stands, so never folded


def _print_portfolio(out: Console, file: str, portfolio: Portfolio) -> None:
    title = f"{shown(portfolio.portfolio)} {portfolio.version}, pipeline {shown(portfolio.pipeline)}"
    out.print(Text.assemble((title, "bold"), (f"  {shown(file, 200)}  sha {portfolio.sha[:12]}", "dim")))
    if not portfolio.metrics:
        return
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("component", overflow="fold")
    table.add_column("metric", no_wrap=True)
    table.add_column("claim", overflow="fold", ratio=1)
    table.add_column("better", no_wrap=True)
    table.add_column("alert", no_wrap=True)
    owner = ""
    for metric in sorted(portfolio.metrics, key=lambda metric: _order(portfolio, metric)):
        mine = "the trace" if metric.is_trace else metric.component or ""
        table.add_row(
            Text(shown(mine, 30) if mine != owner else ""),
            Text(metric.name),
            Text(expected_words(metric)),
            Text(_direction_words(portfolio, metric)),
            Text("-" if metric.alert is None else metric.alert.severity),
        )
        owner = mine
    out.print(table)
    if any(metric.direction is not None and metric.direction.verdict == "unverified" for metric in portfolio.metrics):
        out.print(Text("?: nobody has confirmed which direction is better", style="dim"))


def _order(portfolio: Portfolio, metric: Metric) -> int:
    ids = [component.id for component in portfolio.components]
    return len(ids) if metric.component is None else ids.index(metric.component)


def _direction_words(portfolio: Portfolio, metric: Metric) -> str:
    direction = direction_in_force(metric, portfolio.facts)
    if direction is None:
        return "-"
    return direction.better if direction.verdict == "verified" else f"{direction.better}?"


def _print_warnings(out: Console, one: CheckedPortfolio) -> None:
    if not one.warnings:
        out.print()
        return
    out.print(Text("worth a look", style="yellow"))
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for caution in one.warnings:
        table.add_row(Text(f"  {caution.about or 'the portfolio'}"), Text(shown(caution.text, 600)))
    out.print(table)
    out.print()
