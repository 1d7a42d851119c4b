"""`gapwatch publish`: files of traces into a topic."""

from __future__ import annotations

import asyncio
import re
import time
from types import TracebackType
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn, TimeRemainingColumn

from gapwatch.scorers.errors import JobError, UsageError
from gapwatch.streams.commands.kafka_options import kafka_options, read_kafka_options

if TYPE_CHECKING:
    from gapwatch.streams.batch.publish_files import PublishResult
    from gapwatch.streams.sources.file_source import FileSource

#: Seconds between two updates of the bar.
_UPDATE_SECONDS = 0.1


class RateType(click.ParamType):
    """Records a second: `500/s`, `0.5/s`, or the number alone."""

    name = "rate"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Read the number; it is positive."""
        found = re.fullmatch(r"(\d+(?:\.\d+)?)(?:/s)?", str(value))
        if found is None or float(found[1]) == 0:
            self.fail(f"{value!r} is no rate; expected records a second, such as 500/s", param, ctx)
        return float(found[1])


@click.command("publish")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@kafka_options
@click.option("--topic", default="traces", show_default=True, help="To publish to; it must exist.")
@click.option("--rate", type=RateType(), metavar="N/s", help="At most so many records a second. Default: no limit.")
@click.option("--quiet", is_flag=True, help="Show no progress and no counts.")
def publish_command(files: tuple[str, ...], topic: str, rate: float | None, quiet: bool, **kafka: Any) -> None:
    """Publish the traces of FILE... (JSON lines; plain, .gz, .zst, or - for standard input) to a Kafka topic.

    Each line becomes one record whose key is its trace id. A line that is no trace is published, too: it is the
    watcher who counts it.
    """
    # Imported here: --help answers without loading a client of Kafka.
    try:
        from gapwatch.streams.batch.publish_files import PublishResult, publish_files
    except ModuleNotFoundError as error:
        raise UsageError(f"publishing needs {error.name}: pip install 'gapwatch[stream]'") from error

    settings = read_kafka_options(**kafka)
    result = PublishResult()
    try:
        with PublishProgress(enabled=not quiet) as progress:
            asyncio.run(publish_files(files, settings, topic, result, rate, progress.update))
    finally:  # also of a run that was interrupted or failed
        if result.seconds and not quiet:
            click.echo(_summary(result, topic, settings.brokers))
    if result.too_large:
        raise JobError(
            f"{result.too_large} records are larger than topic {topic!r} takes and were not published; "
            f"raise its max.message.bytes (10,500,000 takes every trace that Gapwatch reads)"
        )


def _summary(result: PublishResult, topic: str, brokers: str) -> str:
    rate = result.sent / result.seconds if result.seconds else 0.0
    size = result.sent_bytes / 1e6
    text = f"{result.sent:,} records ({size:,.1f} MB) to {topic} at {brokers} in {result.seconds:.1f} s, {rate:,.0f}/s"
    return text + (f"; {result.without_trace_id:,} without a trace id" if result.without_trace_id else "")


class PublishProgress:
    """A bar on standard error."""

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
        """Show how far the file is read and how much the broker has."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + _UPDATE_SECONDS
        at = source.progress()
        task = self._tasks.get(source.path)
        if task is None:
            task = self._tasks[source.path] = self._progress.add_task(source.name, total=at.total or None, sent="0")
        self._progress.update(task, completed=at.done, sent=f"{result.sent:,}")
