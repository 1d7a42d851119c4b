"""`gapwatch consume`: prints the records of a Kafka topic as lines of JSON."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import Any

import click

from gapwatch.scorers.errors import JobError
from gapwatch.sinks.reading.since import parse_since
from gapwatch.streams.commands.kafka_options import kafka_options, read_kafka_options

#: Most records that are named one by one because they are no JSON.
_NAMED_FAULTS = 20


@click.command("consume")
@kafka_options
@click.option("--topic", default="traces", show_default=True, help="Topic to read; it must exist.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="End after N lines. Default: no limit.")
@click.option(
    "--partition", "partitions", multiple=True, type=click.IntRange(min=0), metavar="P",
    help="Read only this partition; may be repeated. Default: all.",
)  # fmt: skip
@click.option(
    "--from", "start", default="earliest", show_default=True, metavar="WHERE",
    help="Where to begin: earliest, latest, or a time of the records: 2026-11-21T10:00Z, or 2h for two hours ago.",
)  # fmt: skip
@click.option(
    "--encode", "encode", is_flag=True,
    help="Write any value, in base64 beside its place, such as spans of a Collector for `gapwatch spans`.",
)  # fmt: skip
@click.option("--follow", is_flag=True, help="Wait for new records, until Ctrl-C. Default: end at the topic's end.")
def consume_command(
    topic: str,
    limit: int | None,
    partitions: tuple[int, ...],
    start: str,
    encode: bool,
    follow: bool,
    **kafka: Any,
) -> None:
    """Print the records of a Kafka topic, one line of JSON each, such as for a file of traces.

    It joins no consumer group and commits nothing, so that it disturbs no other reader. A record that is not JSON in
    UTF-8 is skipped and named on standard error.

    Exit status 1: a record was skipped, or the broker does not answer. 2: a missing topic, a refused login, or wrong
    options.
    """
    # Imported here: --help answers without a Kafka client.
    from gapwatch.streams.batch.consume_topic import ConsumeOptions, TopicLines, run_consume
    from gapwatch.streams.live.run_log import logs_on_stderr

    settings = read_kafka_options(**kafka)
    click.get_current_context().with_resource(logs_on_stderr(quiet=True))
    options = ConsumeOptions(topic, partitions, _start(start), limit, follow, encode)
    lines = TopicLines(settings, options, _Faults().name)
    run_consume(lines, _write)
    if lines.skipped:
        raise JobError(f"{lines.skipped:,} records of topic {topic} are no JSON in UTF-8 and were skipped")


def _start(text: str) -> str | float:
    if text in ("earliest", "latest"):
        return text
    # No record of Kafka is from before the epoch, and the client refuses such a time.
    return max(parse_since(text, datetime.now(UTC), "--from").replace(tzinfo=UTC).timestamp(), 0.0)


def _write(lines: bytes) -> None:
    sys.stdout.buffer.write(lines)
    sys.stdout.flush()


class _Faults:
    """Prints skipped records on standard error, the first `_NAMED_FAULTS` of them."""

    def __init__(self) -> None:
        self._named = 0

    def name(self, fault: str) -> None:
        """Print one."""
        self._named += 1
        if self._named <= _NAMED_FAULTS:
            click.echo(f"skipped {fault}", err=True)
        elif self._named == _NAMED_FAULTS + 1:
            click.echo("further ones are counted only", err=True)
