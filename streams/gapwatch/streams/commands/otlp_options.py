"""Options of commands that receive OTLP.

Nothing of the extra `otlp` is imported at the top, so that `--help` answers without it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gapwatch.scorers.errors import UsageError

if TYPE_CHECKING:
    from gapwatch.publisher.kafka_settings import KafkaSettings
    from gapwatch.scorers.portfolio.portfolio import Portfolio
    from gapwatch.streams.live.run_feed import MakeFeed, RunFeed
    from gapwatch.streams.otlp.assembly.close_rules import CloseRules
    from gapwatch.streams.otlp.receiving.http_receiver import OtlpAddress

#: Variable with the token that exporters must send.
OTLP_TOKEN = "GAPWATCH_OTLP_TOKEN"  # noqa: S105 - the name of a variable

#: What closes a trace after a time; see `CloseRules`.
_CLOSE_CAUSES = ("quiet", "orphan", "max_open")

#: Extra that brings a package, by the first part of its name.
_EXTRAS = {"opentelemetry": "otlp", "google": "otlp", "grpc": "otlp-grpc"}


@contextlib.contextmanager
def needs_extra(what: str) -> Iterator[None]:
    """Turn the lack of a package of the extras `otlp` and `otlp-grpc` into an error with the command that installs it.

    Args:
        what: Command or option that needs it.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        extra = _EXTRAS.get((error.name or "").partition(".")[0])
        if extra is None:
            raise
        raise UsageError(
            f"{error.name} is not installed, which {what} needs; run: pip install 'gapwatch[{extra}]'"
        ) from error


def otlp_address(text: str, option: str) -> OtlpAddress:
    """Return the address of a receiver, with the token of the environment.

    Args:
        text: Value of the option.
        option: Its name.

    Raises:
        UsageError: The text is no address, or other machines reach it and there is no token.
    """
    from gapwatch.sinks.api.store_address import read_token_variable
    from gapwatch.streams.otlp.receiving.http_receiver import read_otlp_address

    return read_otlp_address(text, option, read_token_variable(OTLP_TOKEN, os.environ))


close_option = click.option(
    "--close", "closes", multiple=True, metavar="CAUSE=SPAN",
    help="When a trace of spans is whole; repeatable. quiet=10s: so long after its last span, once its root has come. "
    "orphan=60s: the same without a root. max_open=10m: since its first span.",
)  # fmt: skip


def close_rules(closes: Sequence[str]) -> CloseRules:
    """Return the rules by which traces are closed.

    Args:
        closes: Values of --close; of two of one cause the last counts.

    Raises:
        click.UsageError: One is no cause and time.
    """
    from gapwatch.sinks.reading.since import parse_positive_span
    from gapwatch.streams.otlp.assembly.close_rules import CloseRules

    seconds: dict[str, float] = {}
    for text in closes:
        cause, is_given, span = text.partition("=")
        if not is_given or cause not in _CLOSE_CAUSES:
            raise click.UsageError(f"--close {text!r} must be one of {', '.join(_CLOSE_CAUSES)} and a time: quiet=20s")
        seconds[cause] = parse_positive_span(span, f"--close {cause}").total_seconds()
    return CloseRules(**seconds)  # type: ignore[arg-type]


def local_feed(otlp: str | None, otlp_grpc: str | None, topic: str, closes: Sequence[str]) -> MakeFeed:
    """Return a function that makes the feed of a run without Kafka.

    Args:
        otlp: Value of --otlp.
        otlp_grpc: Value of --otlp-grpc.
        topic: Name of the traces in the store.
        closes: Values of --close.

    Raises:
        UsageError: An address is none, needs a token, or a package is missing.
    """
    with needs_extra("--otlp"):
        from gapwatch.streams.otlp.live.spool_feed import SpoolFeed, SpoolOptions, spool_folder

        if otlp_grpc is not None:
            import_module("gapwatch.streams.otlp.receiving.grpc_receiver")
        options = SpoolOptions(
            None if otlp is None else otlp_address(otlp, "--otlp"),
            None if otlp_grpc is None else otlp_address(otlp_grpc, "--otlp-grpc"),
            close_rules(closes),
        )

    def make(store: Path, _: str, portfolios: Sequence[Portfolio]) -> RunFeed:
        return SpoolFeed(options, spool_folder(store), portfolios, topic)

    return make


def topic_feed(
    kafka: KafkaSettings, topics: tuple[str, str, str], group: str, encoding: str, has_end: bool, closes: Sequence[str]
) -> MakeFeed:
    """Return a function that makes the feed of a run that assembles a topic of spans.

    Args:
        kafka: The cluster.
        topics: Topics of the spans, of the log records (may be empty), and of the traces.
        group: Consumer group of the run.
        encoding: Value of --encoding.
        has_end: End when every record that was there is read.
        closes: Values of --close.

    Raises:
        UsageError: A package is missing, or two of the topics are one.
    """
    if len({*topics}) < len(topics):
        raise click.UsageError("--spans, --logs and --topic must be different topics; --topic gets the whole traces")
    with needs_extra("--spans"):
        from gapwatch.streams.otlp.live.span_topics import SpanTopics
        from gapwatch.streams.otlp.live.topic_feed import TopicFeed

    rules = close_rules(closes)

    def make(_: Path, store_id: str, portfolios: Sequence[Portfolio]) -> RunFeed:
        names = SpanTopics(*topics, group, encoding, store_id, has_end)
        return TopicFeed(kafka, names, rules, portfolios)

    return make


def check_without_kafka(kafka: dict[str, Any], role: str, until_caught_up: bool) -> None:
    """Check that options that need Kafka or an end of the input are not given with --otlp.

    Raises:
        click.UsageError: One is.
    """
    if kafka.get("brokers"):
        raise click.UsageError(
            "--otlp assembles traces on this machine and does without Kafka: leave --brokers (GAPWATCH_KAFKA_BROKERS) "
            "out, or receive with gapwatch receive --brokers and run with --spans"
        )
    if role != "all":
        raise click.UsageError("--role needs Kafka; with --otlp one process does everything")
    if until_caught_up:
        raise click.UsageError(
            "--until-caught-up needs an input with an end; programs may always send more over --otlp"
        )
