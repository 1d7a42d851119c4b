"""`gapwatch publish`: sends files of traces to a Kafka topic."""

from __future__ import annotations

import asyncio
import re
import time
from types import TracebackType
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn, TimeRemainingColumn

from gapwatch.scorers.errors import JobError
from gapwatch.streams.commands.kafka_options import kafka_options, read_kafka_options

if TYPE_CHECKING:
    from gapwatch.streams.batch.publish_files import PublishResult
    from gapwatch.streams.sources.file_source import FileSource

#: Seconds between two updates of the bar.
_UPDATE_SECONDS = 0.1


class RateType(click.ParamType):
    """Records per second: `500/s`, `0.5/s`, or the number alone."""

    name = "rate"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number of records per second, greater than 0."""
        found = re.fullmatch(r"(\d+(?:\.\d+)?)(?:/s)?", str(value))
        if found is None or float(found[1]) == 0:
            self.fail(f"{value!r} is not a rate; write records per second, such as 500/s", param, ctx)
        return float(found[1])


@click.command("publish")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@kafka_options
@click.option("--topic", default="traces", show_default=True, help="Topic to publish to; it must exist.")
@click.option("--rate", type=RateType(), metavar="N/s", help="Most records per second. Default: no limit.")
@click.option("--quiet", is_flag=True, help="Show no progress bar and no counts.")
def publish_command(files: tuple[str, ...], topic: str, rate: float | None, quiet: bool, **kafka: Any) -> None:
    """Publish the traces of FILE... (JSON lines; plain, .gz, .zst, or - for standard input) to a Kafka topic.

    Each line becomes one record; its key is the trace id. A line that is not a trace is published without a key, and
    `gapwatch run` counts it as a dead letter. Where no file holds a trace, nothing is published.

    Exit status 1: no file holds a trace, or the broker does not answer or did not take every record. 2: a missing
    file or topic, a refused login, or wrong options.
    """
    # Imported here: --help answers without a Kafka client.
    from gapwatch.streams.batch.publish_files import PublishResult, publish_files
    from gapwatch.streams.live.run_log import logs_on_stderr
    from gapwatch.streams.otlp.files.whole_traces import whole_trace_files
    from gapwatch.streams.sources.file_kind import check_files

    settings = read_kafka_options(**kafka)
    click.get_current_context().with_resource(logs_on_stderr(quiet=True))
    traces = click.get_current_context().with_resource(whole_trace_files(files, []))
    for fault in check_files(traces):
        click.echo(f"gapwatch: warning: {fault}; its lines are published all the same", err=True)
    result = PublishResult()
    try:
        with PublishProgress(enabled=not quiet) as progress:
            asyncio.run(publish_files(traces, settings, topic, result, rate, progress.update))
    finally:  # also of a run that was interrupted or failed
        if result.seconds and not quiet:
            click.echo(_summary(result, topic, settings.brokers))
    if result.too_large:
        raise JobError(
            f"{result.too_large} records were not published: they are larger than topic {topic!r} takes; "
            f"set its max.message.bytes to 10500000, which takes every trace that Gapwatch reads"
        )


def _summary(result: PublishResult, topic: str, brokers: str) -> str:
    rate = result.sent / result.seconds if result.seconds else 0.0
    size = result.sent_bytes / 1e6
    text = (
        f"published {result.sent:,} records ({size:,.1f} MB) to topic {topic} at {brokers} in {result.seconds:.1f} s, "
        f"{rate:,.0f}/s"
    )
    return text + (f"; {result.without_trace_id:,} of them without a trace id" if result.without_trace_id else "")


class PublishProgress:
    """Progress bar on standard error.

    Args:
        enabled: False shows nothing.
    """

    def __init__(self, enabled: bool) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("{task.fields[sent]} sent"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            disable=not enabled,
        )
        self._tasks: dict[str, TaskID] = {}
        self._next = 0.0

    def __enter__(self) -> PublishProgress:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def update(self, source: FileSource, result: PublishResult) -> None:
        """Show how much of a file is read and how many records the broker has acknowledged."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + _UPDATE_SECONDS
        at = source.progress()
        task = self._tasks.get(source.path)
        if task is None:
            task = self._tasks[source.path] = self._progress.add_task(source.name, total=at.total or None, sent="0")
        self._progress.update(task, completed=at.done, sent=f"{result.sent:,}")
