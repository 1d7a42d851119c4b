"""`gapwatch replay`: score files of traces and say where the pipeline diverged from what was promised."""

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
    help="Portfolio to score by; repeat it for several pipelines, a record goes to the one of its pipeline.",
)  # fmt: skip
@click.option(
    "--store", required=True, type=click.Path(path_type=Path), metavar="S",
    help="DuckDB file in which results rest; made where there is none.",
)  # fmt: skip
@click.option(
    "--source", default=None, metavar="NAME",
    help="Name of the source, by which a second run knows what is kept already. Default: the file's name.",
)  # fmt: skip
@scorers_option
@scorer_timeout_option
@click.option(
    "--alerts", is_flag=True,
    help="Watch for shifts and broken bounds as a stream is watched, by event time; `gapwatch alerts` tells them.",
)  # fmt: skip
@click.option(
    "--judges", default=None, type=click.Path(path_type=Path), metavar="J",
    help="YAML settings of the judges; with them what waits for a judge is judged before the end.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="End with one JSON object on standard output.")
@click.option("--quiet", is_flag=True, help="Show no progress and no report.")
def replay_command(
    files: tuple[str, ...],
    portfolios: tuple[Path, ...],
    store: Path,
    source: str | None,
    scorers: str | None,
    scorer_timeout: float,
    alerts: bool,
    judges: Path | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Score the traces of FILE... (JSON lines; plain, .gz, .zst, or - for standard input) into a store.

    A second run on the same file and store adds nothing; an interrupted run goes on where it was.
    """
    # Imported here: --help answers without loading the engine.
    from gapwatch.scorers.loading.load import load_portfolio
    from gapwatch.streams.batch.progress import ReplayProgress
    from gapwatch.streams.batch.replay import ReplayOptions, replay
    from gapwatch.streams.reports.replay_report import print_report

    loaded = [load_portfolio(path) for path in portfolios]
    judge = _judge(judges, loaded) if judges is not None else None
    with scorer_host(scorers, scorer_timeout) as host, ReplayProgress(enabled=not quiet) as progress:
        options = ReplayOptions(source, host, alerts, judge, progress.update)
        result = replay(files, loaded, store, options)
    if as_json:
        sys.stdout.buffer.write(orjson.dumps(result.as_json()) + b"\n")
        sys.stdout.flush()
    elif not quiet:
        print_report(store, loaded, result)
    result.check_balanced(store)


def _judge(path: Path, portfolios: Sequence[Portfolio]) -> Callable[[Store, Sequence[Portfolio]], JudgeResult]:
    """Return what judges a store by the settings of a file; what is wrong with them is said before anything is read."""
    from gapwatch.streams.judges.calls.prices import caps_of, check_caps, known_prices
    from gapwatch.streams.judges.models.model_maker import model_access
    from gapwatch.streams.judges.settings import load_judge_settings
    from gapwatch.streams.judges.workers.store_run import judge_store

    access = model_access(load_judge_settings(path))
    check_caps(portfolios, access.settings)
    known_prices(portfolios, caps_of(portfolios, access.settings), access.price_of)
    return lambda store, portfolios: judge_store(store, portfolios, access)
