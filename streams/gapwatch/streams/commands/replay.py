"""`gapwatch replay`: scores files of traces and reports where the pipeline broke its portfolio."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
import orjson

from gapwatch.streams.commands.scorers_options import scorer_host, scorer_timeout_option, scorers_option

if TYPE_CHECKING:
    from gapwatch.scorers.portfolio.portfolio import Portfolio
    from gapwatch.sinks.store.store import Store
    from gapwatch.streams.pipeline.judge_result import JudgeResult


@click.command("replay")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option(
    "--portfolio", "portfolios", multiple=True, required=True, type=click.Path(path_type=Path), metavar="P",
    help="Portfolio to score by; repeat it for several pipelines. Each record is scored by the one of its pipeline.",
)  # fmt: skip
@click.option(
    "--store", required=True, type=click.Path(path_type=Path), metavar="S",
    help="DuckDB file for the results; created if it does not exist.",
)  # fmt: skip
@click.option(
    "--source", default=None, metavar="NAME",
    help="Name of the file in the store; a second run skips the lines that are stored under it. "
    "Default: the file's name. Required for -.",
)  # fmt: skip
@scorers_option
@scorer_timeout_option
@click.option(
    "--alerts", is_flag=True,
    help="Detect shifts and broken thresholds by event time, as in a live run; `gapwatch alerts` lists them.",
)  # fmt: skip
@click.option(
    "--judges", default=None, type=click.Path(path_type=Path), metavar="J",
    help="YAML settings of the LLM judges; with them all pending judge requests are answered before the report.",
)  # fmt: skip
@click.option(
    "--all", "show_all", is_flag=True,
    help="Report every metric, release and ratio; by default only what is broken or moved.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on standard output at the end.")
@click.option("--quiet", is_flag=True, help="Show no progress bar and no report.")
def replay_command(
    files: tuple[str, ...],
    portfolios: tuple[Path, ...],
    store: Path,
    source: str | None,
    scorers: str | None,
    scorer_timeout: float,
    alerts: bool,
    judges: Path | None,
    show_all: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Score the traces of FILE... (JSON lines; plain, .gz, .zst, or - for standard input) into a store.

    FILE may hold OpenTelemetry spans, too, as `gapwatch assemble` reads them: they are assembled first, by the part
    `spans` of the portfolios.

    A second run on the same file and store adds nothing. An interrupted run continues where it stopped.

    Exit status 1: not one record is a trace of the portfolio's pipeline. 2: a missing file, or a wrong portfolio or
    store.
    """
    # Imported here: --help answers without DuckDB.
    from gapwatch.scorers.loading.load import load_portfolio
    from gapwatch.streams.batch.progress import ReplayProgress
    from gapwatch.streams.batch.replay import ReplayOptions, replay
    from gapwatch.streams.otlp.files.whole_traces import whole_trace_files
    from gapwatch.streams.reports.replay_report import print_report
    from gapwatch.streams.sources.file_kind import check_files

    loaded = [load_portfolio(path) for path in portfolios]
    pipelines = {portfolio.pipeline for portfolio in loaded}
    traces = click.get_current_context().with_resource(whole_trace_files(files, loaded))
    for fault in check_files(traces, pipelines):
        click.echo(f"gapwatch: warning: {fault}", err=True)
    judge = _judge(judges, loaded) if judges is not None else None
    with scorer_host(scorers, scorer_timeout) as host, ReplayProgress(enabled=not quiet) as progress:
        options = ReplayOptions(source, host, alerts, judge, progress.update)
        result = replay(traces, loaded, store, options)
    if as_json:
        sys.stdout.buffer.write(orjson.dumps(result.as_json()) + b"\n")
        sys.stdout.flush()
    elif not quiet and result.has_any_trace:
        print_report(store, loaded, result, show_all=show_all)
    result.check_balanced(store)
    result.check_any_trace(", ".join(files), pipelines, store)


def _judge(path: Path, portfolios: Sequence[Portfolio]) -> Callable[[Store, Sequence[Portfolio]], JudgeResult]:
    """Return a function that judges a store; errors of the settings are raised now, before any trace is read."""
    from gapwatch.streams.judges.calls.terms import checked_terms
    from gapwatch.streams.judges.models.model_maker import model_access
    from gapwatch.streams.judges.settings import load_judge_settings
    from gapwatch.streams.judges.workers.judge_start import judge_store

    access = model_access(load_judge_settings(path))
    checked_terms(portfolios, access.settings)
    return lambda store, portfolios: judge_store(store, portfolios, access)
