"""`gapwatch receive`: receives OTLP and writes spans to Kafka."""

from __future__ import annotations

from typing import Any

import click

from gapwatch.streams.commands.kafka_options import kafka_options, read_kafka_options
from gapwatch.streams.commands.option_variables import with_variables
from gapwatch.streams.commands.otlp_options import needs_extra, otlp_address


@with_variables
@click.command("receive")
@kafka_options
@click.option(
    "--otlp", default="127.0.0.1:4318", show_default=True, metavar="ADDRESS:PORT",
    help="Address for OTLP over HTTP. Other machines need the token in GAPWATCH_OTLP_TOKEN.",
)  # fmt: skip
@click.option(
    "--otlp-grpc", default=None, metavar="ADDRESS:PORT",
    help="Address for OTLP over gRPC, such as 127.0.0.1:4317. Default: none.",
)  # fmt: skip
@click.option("--spans", default="spans", show_default=True, metavar="TOPIC", help="Topic that spans are written to.")
@click.option(
    "--logs", default="", metavar="TOPIC",
    help="Topic that log records are written to, which hold the content of some instrumentations. Default: dropped.",
)  # fmt: skip
@click.option(
    "--log-format", default="text", show_default=True, type=click.Choice(["text", "json"]),
    help="Form of the lines on standard error. json: one object a line, for programs.",
)  # fmt: skip
@click.option(
    "--log-level", default="info", show_default=True, type=click.Choice(["debug", "info", "warning"]),
    help="Least level of Gapwatch's lines on standard error. debug: the progress every minute as well.",
)  # fmt: skip
@click.option("--quiet", is_flag=True, help="Print only warnings and errors.")
def receive_command(
    otlp: str,
    otlp_grpc: str | None,
    spans: str,
    logs: str,
    log_format: str,
    log_level: str,
    quiet: bool,
    **kafka: Any,
) -> None:
    """Receive spans over OTLP and write them to a Kafka topic, by trace.

    An exporter is answered 200 once all replicas have its spans, and 503 while Kafka is away: it sends them again.
    `gapwatch run --spans TOPIC` assembles them to traces.
    """
    # Imported here: --help answers without aiohttp.
    from gapwatch.streams.live.log_lines import log_lines
    from gapwatch.streams.live.run_log import logs_on_stderr

    settings = read_kafka_options(**kafka)
    click.get_current_context().with_resource(logs_on_stderr(quiet, log_level))
    click.get_current_context().with_resource(log_lines(log_format))
    with needs_extra("gapwatch receive"):
        from gapwatch.streams.otlp.receiving.kafka_intake import IntakeTopics
        from gapwatch.streams.otlp.receiving.receive import ReceiveAddresses, receive

        addresses = ReceiveAddresses(
            otlp_address(otlp, "--otlp"), None if otlp_grpc is None else otlp_address(otlp_grpc, "--otlp-grpc")
        )
        if not receive(settings, IntakeTopics(spans, logs), addresses):
            raise SystemExit(1)
