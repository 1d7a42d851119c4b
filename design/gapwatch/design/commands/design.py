"""The command `gapwatch design` and its subcommands."""

from __future__ import annotations

from pathlib import Path

import click

from gapwatch.design.commands.design_options import (
    CACHE_OPTION,
    FACTS_OPTION,
    FOLDER_OPTION,
    NO_CACHE_OPTION,
    QUIET_OPTION,
)
from gapwatch.design.commands.design_run import cache_of, designed, print_data, scan_of
from gapwatch.design.design_folder import DESIGN_FOLDER, facts_file, out_option
from gapwatch.scorers.command_line import nearest_command


class _DesignGroup(click.Group):
    """Group that takes a repository first: `gapwatch design REPO` means `gapwatch design portfolio REPO`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        wants_help = bool(args) and args[0] in ("--help", "-h")
        if args and not wants_help and args[0] not in self.commands:
            if not Path(args[0]).exists() and (hint := nearest_command(args[0], self.commands)):
                raise click.UsageError(f"No such folder or command '{args[0]}'.{hint}", ctx)
            args = ["portfolio", *args]
        return super().parse_args(ctx, args)


@click.group("design", cls=_DesignGroup)
def design() -> None:
    """Read the source code of an LLM pipeline and write a portfolio that monitors it.

    `gapwatch design REPO` writes portfolio.yaml, report.md, report.html, spans.json and design.duckdb. Gapwatch reads
    the code as data: it imports and runs none of it and sends nothing anywhere.
    """


@design.command("graph")
@click.argument("repo", type=click.Path(path_type=Path))
@click.option(
    "--format",
    "form",
    type=click.Choice(["json", "pycg"]),
    default="json",
    show_default=True,
    help="json: symbols, edges with kind and lines, externals, unresolved; pycg: caller to callees.",
)
@CACHE_OPTION
@NO_CACHE_OPTION
@QUIET_OPTION
def graph_command(repo: Path, form: str, cache: Path | None, no_cache: bool, quiet: bool) -> None:
    """Print the call graph of REPO as JSON.

    Names are relative to REPO.
    """
    from gapwatch.design.analysis import graph_of
    from gapwatch.design.progress import DesignProgress
    from gapwatch.design.reports.graph_formats import graph_json, graph_pycg

    with DesignProgress(enabled=not quiet) as progress:
        graph = graph_of(scan_of(repo), cache_of(cache, no_cache), progress.update)
    print_data(graph_json(graph) if form == "json" else graph_pycg(graph))


@design.command("patterns")
@click.argument("repo", type=click.Path(path_type=Path))
@click.option("--format", "form", type=click.Choice(["json"]), default="json", show_default=True, help="Output format.")
@click.option(
    "--catalog",
    type=click.Path(path_type=Path, dir_okay=False),
    default=None,
    metavar="TOML",
    help="Library catalogue to use instead of the shipped one.",
)
@CACHE_OPTION
@NO_CACHE_OPTION
@QUIET_OPTION
def patterns_command(
    repo: Path, form: str, catalog: Path | None, cache: Path | None, no_cache: bool, quiet: bool
) -> None:
    """Print the code patterns of REPO as JSON.

    Each place is listed with the name of its pattern, its lines, evidence and confidence.
    """
    from gapwatch.design.analysis import patterns_of
    from gapwatch.design.patterns.libraries import load_catalog
    from gapwatch.design.progress import DesignProgress
    from gapwatch.design.reports.graph_formats import patterns_json

    del form
    chosen = load_catalog(catalog) if catalog is not None else None
    with DesignProgress(enabled=not quiet) as progress:
        hits = patterns_of(scan_of(repo), cache_of(cache, no_cache), progress.update, chosen)
    print_data(patterns_json(hits))


@design.command("portfolio")
@click.argument("repo", type=click.Path(path_type=Path))
@click.option(
    "--goal",
    default="",
    metavar="TEXT",
    help="Purpose of the pipeline, in your words; raises the priority of what it mentions.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default=DESIGN_FOLDER,
    show_default=True,
    metavar="DIR",
    help="Folder for portfolio.yaml, report.md, report.html, spans.json and design.duckdb; created if missing.",
)
@click.option(
    "--facts",
    type=click.Path(path_type=Path, dir_okay=False),
    default=None,
    metavar="YAML",
    help="File with your answers. Default: facts.yaml in the folder of --out, if it exists.",
)
@click.option("--pipeline", default=None, metavar="NAME", help="Pipeline name in the records; else the folder's name.")
@click.option(
    "--version",
    "number",
    type=click.IntRange(min=0),
    default=1,
    show_default=True,
    metavar="N",
    help="Version of the portfolio, counted by you.",
)
@click.option(
    "--judge-model", default=None, metavar="VENDOR/NAME", help="Model that may judge; without it none is exported."
)
@click.option(
    "--catalog",
    type=click.Path(path_type=Path, dir_okay=False),
    default=None,
    metavar="TOML",
    help="Library catalogue to use instead of the shipped one.",
)
@click.option(
    "--all", "takes_all", is_flag=True, help="Keep every metric that passed the critic; leave none on the shelf."
)
@click.option(
    "--instrument",
    "patch_folder",
    type=click.Path(path_type=Path, file_okay=False),
    default=None,
    metavar="DIR",
    help="Folder for instrument.patch, which makes the program emit the missing spans; apply it with git apply.",
)
@click.option("--json", "as_json", is_flag=True, help="End with one JSON object on standard output.")
@QUIET_OPTION
def portfolio_command(
    repo: Path,
    goal: str,
    out: Path,
    facts: Path | None,
    pipeline: str | None,
    number: int,
    judge_model: str | None,
    catalog: Path | None,
    takes_all: bool,
    patch_folder: Path | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Design the portfolio of REPO.

    `gapwatch design REPO` does the same.
    """
    from gapwatch.design.reports.export_store import write_store
    from gapwatch.design.reports.output import write_design
    from gapwatch.design.reports.summary import summary

    made = designed(
        repo,
        goal,
        facts_file(out, facts),
        judge_model,
        catalog,
        quiet,
        must_exist=facts is not None,
        is_bounded=not takes_all,
    )
    written = write_design(made, out, pipeline, number)
    write_store(made, out / "design.duckdb")
    if patch_folder is not None:
        from gapwatch.design.emission.patch import patch_program

        told = patch_program(made.root, made.planned, [r.path for r in made.readings], patch_folder)
        if not quiet:
            click.echo(told, err=True)
    if as_json:
        print_data(
            {"version": made.version, "files": [str(p) for p in [*written, out / "design.duckdb"]], **summary(made)}
        )
    elif not quiet:
        from gapwatch.design.reports.output import print_summary

        print_summary(made, out)


@design.command("questions")
@click.argument("repo", type=click.Path(path_type=Path))
@click.option("--goal", default="", metavar="TEXT", help="Goal of the design, as for `gapwatch design REPO`.")
@FACTS_OPTION
@FOLDER_OPTION
@click.option(
    "--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Output format."
)
@QUIET_OPTION
def questions_command(repo: Path, goal: str, facts: Path | None, out: Path, form: str, quiet: bool) -> None:
    """List the questions that only you can answer.

    Each question comes with its reason, its answers, the assumption until you answer, and the affected metrics.
    """
    facts = facts_file(out, facts)
    made = designed(repo, goal, facts, None, None, quiet, must_exist=False)
    if form == "json":
        print_data([q.as_yaml() for q in made.open_questions])
        return
    for question in made.open_questions:
        click.echo(f"{question.id}\n  {question.text}\n  why: {question.why}")
        options = ", ".join(question.options) if question.options else question.answer_type
        click.echo(f"  answer: {options}; assumed until you answer: {question.default}")
        click.echo(f"  affects: {', '.join(question.decides) or 'which metrics exist'}\n")
    for fact in made.stale_facts:
        click.echo(f"{fact.id} answers {fact.question}, a question that the code no longer raises", err=True)


@design.command("answer")
@click.argument("repo", type=click.Path(path_type=Path))
@click.argument("question")
@click.argument("value")
@FACTS_OPTION
@FOLDER_OPTION
@click.option("--by", required=True, metavar="NAME", help="Name of the person who answers.")
@click.option("--at", default=None, metavar="DATE", help="Date or time of the answer, ISO 8601. Default: today.")
@click.option("--goal", default="", metavar="TEXT", help="Goal of the design, as for `gapwatch design REPO`.")
@QUIET_OPTION
def record_answer_command(
    repo: Path,
    question: str,
    value: str,
    facts: Path | None,
    out: Path,
    by: str,
    at: str | None,
    goal: str,
    quiet: bool,
) -> None:
    """Record your answer to a question about REPO.

    VALUE is written to the facts file and replaces an earlier answer to QUESTION.
    """
    import datetime

    from gapwatch.design.metrics.questions import fact_of
    from gapwatch.design.reports.output import add_fact
    from gapwatch.scorers.errors import UsageError

    facts = facts_file(out, facts)
    made = designed(repo, goal, facts, None, None, quiet, must_exist=False)
    asked = next((q for q in made.questions if q.id == question), None)
    if asked is None:
        known = "\n  ".join(q.id for q in made.questions)
        raise UsageError(f"{repo} has no question {question!r}; its questions are\n  {known or 'none'}")
    try:
        fact = fact_of(asked, value, by, at or datetime.datetime.now(datetime.UTC).date().isoformat())
    except ValueError as error:
        raise UsageError(str(error)) from error
    add_fact(facts, fact)
    if not quiet:
        click.echo(f"{facts}: {fact.id} = {value}")


@design.command("add")
@click.argument("repo", type=click.Path(path_type=Path))
@click.argument("name")
@FACTS_OPTION
@FOLDER_OPTION
@click.option("--by", required=True, metavar="NAME", help="Name of the person who adds it.")
@click.option("--goal", default="", metavar="TEXT", help="Goal of the design, as for `gapwatch design REPO`.")
@QUIET_OPTION
def add_metric_command(repo: Path, name: str, facts: Path | None, out: Path, by: str, goal: str, quiet: bool) -> None:
    """Take a metric of REPO from the shelf into the portfolio.

    NAME is one of the report's sections "Shelf" and "Code that no request runs". `gapwatch design REPO` then writes it.
    """
    import datetime
    import difflib

    from gapwatch.design.metrics.selection import added_fact
    from gapwatch.design.reports.output import add_fact
    from gapwatch.scorers.errors import UsageError

    facts = facts_file(out, facts)
    made = designed(repo, goal, facts, None, None, quiet, must_exist=False)
    if any(m.name == name for m in made.metrics):
        raise UsageError(f"{name} is in the portfolio of {repo} already")
    names = [*(s.metric.name for s in made.selection.shelf), *(n for left in made.left_out for n in left.metrics)]
    if name not in names:
        near = " or ".join(difflib.get_close_matches(name, names))
        raise UsageError(f"the shelf of {repo} has no metric {name!r}; did you mean {near or 'a name of the report'}?")
    try:
        fact = added_fact(name, by, datetime.datetime.now(datetime.UTC).date().isoformat())
    except ValueError as error:
        raise UsageError(str(error)) from error
    add_fact(facts, fact)
    gone = set[str]()
    if not any(s.metric.name == name for s in made.selection.shelf):
        # Code that is measured now may tell what others told.
        after = designed(repo, goal, facts, None, None, quiet, must_exist=True)
        gone = {m.name for m in made.metrics} - {m.name for m in after.metrics}
    for other in sorted(gone):
        click.echo(f"{other} went to the shelf for it; gapwatch design add {repo} {other} keeps it")
    if not quiet:
        click.echo(f"{facts}: {name} is added; run gapwatch design {repo}{out_option(out)} again")


@design.command("diff")
@click.argument("old", type=click.Path(path_type=Path))
@click.argument("new", type=click.Path(path_type=Path))
@click.option(
    "--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Output format."
)
@QUIET_OPTION
def diff_command(old: Path, new: Path, form: str, quiet: bool) -> None:
    """Compare the designs of two versions of the code.

    Both are folders of source code. The output lists the metrics of OLD that are stale in NEW, those of the shelf too
    and each by its component, and new code that OLD does not monitor.
    """
    from gapwatch.design.progress import DesignProgress
    from gapwatch.design.reports.code_texts import CodeTexts
    from gapwatch.design.reports.diff import compare
    from gapwatch.design.reports.output import diff_text
    from gapwatch.design.stage import run_design

    with DesignProgress(enabled=not quiet) as progress:
        scans = scan_of(old), scan_of(new)
        designs = [run_design(scan, progress=progress.update, is_bounded=False) for scan in scans]
    texts = [CodeTexts(scan, made) for scan, made in zip(scans, designs, strict=True)]
    found = compare(designs[0], designs[1], texts[0], texts[1])
    if form == "json":
        print_data(found.as_json())
    else:
        click.echo(diff_text(found), nl=False)
