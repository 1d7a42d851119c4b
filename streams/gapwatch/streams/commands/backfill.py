"""`gapwatch backfill`: scores the retained records of a topic again."""

from __future__ import annotations

import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import orjson

from gapwatch.scorers.errors import UsageError
from gapwatch.sinks.reading.since import parse_since
from gapwatch.streams.commands.kafka_options import kafka_options, read_kafka_options
from gapwatch.streams.commands.scorers_options import scorer_host, scorers_option

if TYPE_CHECKING:
    from gapwatch.streams.pipeline.run_summary import RunSummary


@click.command("backfill")
@kafka_options
@click.option("--topic", default="traces", show_default=True, help="Topic to read; it must exist.")
@click.option(
    "--from", "from_text", required=True, metavar="T",
    help="First time, by the records' timestamps: 2026-11-21T10:00Z, or 2h for two hours ago.",
)  # fmt: skip
@click.option("--to", "to_text", default=None, metavar="T", help="End time, exclusive. Default: now.")
@click.option(
    "--store", required=True, type=click.Path(path_type=Path), metavar="S",
    help="Store of the live run, with its recorded portfolios; without --into, no run may use it meanwhile.",
)  # fmt: skip
@click.option(
    "--into", default=None, type=click.Path(path_type=Path), metavar="S2",
    help="Store for the results, created if it does not exist; a run may use --store meanwhile.",
)  # fmt: skip
@click.option(
    "--name", default=None, metavar="NAME",
    help="Results go to the lane backfill:NAME; give the same name to continue an interrupted backfill. "
    "Default: the two times.",
)  # fmt: skip
@click.option(
    "--portfolio", "portfolios", multiple=True, type=click.Path(path_type=Path), metavar="P",
    help="Score by this portfolio instead of the recorded ones; repeat it for several pipelines.",
)  # fmt: skip
@scorers_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on standard output at the end.")
@click.option("--quiet", is_flag=True, help="Print only warnings and errors.")
def backfill_command(
    topic: str,
    from_text: str,
    to_text: str | None,
    store: Path,
    into: Path | None,
    name: str | None,
    portfolios: tuple[Path, ...],
    scorers: str | None,
    as_json: bool,
    quiet: bool,
    **kafka: Any,
) -> None:
    """Score the retained records of a topic again, into a lane of their own.

    By default Gapwatch uses the portfolios and sampling probabilities that the live run recorded, so rows and ticks
    come out the same. A backfill raises no alerts and sends nothing to Kafka. While a run writes the store, the results
    need a store of their own: --into.
    """
    # Imported here: --help answers without aiokafka and DuckDB.
    from gapwatch.scorers.loading.load import load_portfolio
    from gapwatch.streams.batch.backfill import Backfill, BackfillOptions
    from gapwatch.streams.live.run_log import logs_on_stderr

    settings = read_kafka_options(**kafka)
    click.get_current_context().with_resource(logs_on_stderr(quiet))
    now = datetime.now(UTC)
    begin = parse_since(from_text, now, "--from")
    end = now.replace(tzinfo=None) if to_text is None else parse_since(to_text, now, "--to")
    if begin >= end:
        raise UsageError(f"--from {begin.isoformat()} is not before --to {end.isoformat()}")
    times = f"{begin:%Y%m%dT%H%M%SZ}-{end:%Y%m%dT%H%M%SZ}"
    options = BackfillOptions(topic, _seconds(begin), _seconds(end), name or times)
    if into is not None and store.exists() and into.exists() and into.samefile(store):
        raise UsageError("--into is the store of --store; leave it out, or give another one")
    loaded = [load_portfolio(path) for path in portfolios]
    with scorer_host(scorers) as host:
        started = time.perf_counter()
        result = Backfill(options, settings, store, loaded, host, _say if not quiet else _say_nothing, into).run()
        result.seconds = time.perf_counter() - started
    if as_json:
        sys.stdout.buffer.write(orjson.dumps({"lane": options.lane, **result.as_json()}) + b"\n")
        sys.stdout.flush()
    elif not quiet:
        click.echo(
            f"scored {result.read:,} traces, stored {result.rows:,} gap rows in lane {options.lane}, "
            f"{result.seconds:.1f} s" + (f"; {result.dead_letters:,} dead letters" if result.dead_letters else "")
        )
    result.check_balanced(into or store)


def _seconds(moment: datetime) -> float:
    return max(0.0, moment.replace(tzinfo=UTC).timestamp())


def _say(result: RunSummary) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\rscored {result.read:,} traces, stored {result.rows:,} gap rows ")
        sys.stderr.flush()


def _say_nothing(result: RunSummary) -> None:
    pass
