"""`gapwatch run`: monitors a Kafka topic."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import orjson

from gapwatch.scorers.errors import StoreError, UsageError
from gapwatch.sinks.api.address import DEFAULT_LISTEN
from gapwatch.streams.commands.kafka_options import kafka_options, read_kafka_options
from gapwatch.streams.commands.option_variables import with_variables
from gapwatch.streams.commands.otlp_options import check_without_kafka, close_option, local_feed, topic_feed
from gapwatch.streams.commands.scorers_options import scorer_host, scorer_timeout_option, scorers_option
from gapwatch.streams.pipeline.thinning_options import ThinningOptions

if TYPE_CHECKING:
    from gapwatch.streams.live.run_feed import MakeFeed
    from gapwatch.streams.pipeline.run_summary import RunSummary


@with_variables
@click.command("run")
@kafka_options
@click.option(
    "--otlp", default=None, metavar="ADDRESS:PORT",
    help="Receive spans over OTLP/HTTP there, such as 127.0.0.1:4318, and assemble them to traces: no Kafka is needed. "
    "Other machines need the token in GAPWATCH_OTLP_TOKEN.",
)  # fmt: skip
@click.option(
    "--otlp-grpc", default=None, metavar="ADDRESS:PORT", help="The same over OTLP/gRPC, such as 127.0.0.1:4317.",
)  # fmt: skip
@click.option(
    "--spans", default=None, metavar="TOPIC",
    help="Assemble the spans of this topic, as a Collector or gapwatch receive writes them, to the traces of --topic.",
)  # fmt: skip
@click.option(
    "--logs", default="", metavar="TOPIC",
    help="With --spans: topic of log records, which hold the content of some instrumentations.",
)  # fmt: skip
@click.option(
    "--encoding", default="auto", show_default=True, type=click.Choice(["auto", "otlp_proto", "otlp_json"]),
    help="With --spans: encoding of both topics.",
)  # fmt: skip
@close_option
@click.option("--topic", default="traces", show_default=True, help="Topic to read; it must exist.")
@click.option(
    "--portfolio", "portfolios", multiple=True, type=click.Path(path_type=Path), metavar="P",
    help="Portfolio to score by; repeat it for several pipelines. A changed file takes effect while the run lasts.",
)  # fmt: skip
@click.option(
    "--store", default=None, type=click.Path(path_type=Path), metavar="S",
    help="DuckDB file for the results; created if it does not exist.",
)  # fmt: skip
@click.option(
    "--group", default="gapwatch", show_default=True, help="Kafka consumer group; each store needs a group of its own."
)
@click.option(
    "--instance", default="", metavar="NAME",
    help="Name of this process in the group (static membership): after a restart it gets its partitions back at once.",
)  # fmt: skip
@click.option(
    "--linger", default=1.0, show_default=True, type=click.FloatRange(0.1, 10.0), metavar="SECONDS",
    help="Most seconds that few records wait for others to be scored with them, which takes less CPU; records that are "
    "many wait less.",
)  # fmt: skip
@click.option(
    "--listen", default=None, metavar="ADDRESS:PORT",
    help=f"Address of /metrics, /healthz and the API; none: do not listen. Default: {DEFAULT_LISTEN}, and none with "
    "--until-caught-up or --role judge.",
)  # fmt: skip
@click.option("--until-caught-up", is_flag=True, help="Stop with a report when every record of the topic is stored.")
@scorers_option
@scorer_timeout_option
@click.option(
    "--alerts/--no-alerts", default=True, show_default=True, help="Detect shifts and broken thresholds.",
)  # fmt: skip
@click.option(
    "--webhook", envvar="GAPWATCH_WEBHOOK", default="", metavar="URL",
    help="Post each page and ticket to this URL, as JSON with a field `text`. Prefer the variable GAPWATCH_WEBHOOK if "
    "the URL is a secret.",
)  # fmt: skip
@click.option(
    "--public-url", default="", metavar="URL",
    help="Address under which people reach the page of this process; alerts link to it. Default: where it listens.",
)  # fmt: skip
@click.option(
    "--runbook-url", default="", metavar="TEMPLATE",
    help="Address of runbooks, such as https://wiki/{metric}, for portfolios without runbook_url.",
)  # fmt: skip
@click.option(
    "--trace-url", default="", metavar="TEMPLATE",
    help="Address of traces, such as https://traces/{trace_id}, for portfolios without trace_url.",
)  # fmt: skip
@click.option(
    "--thin-rows", default=ThinningOptions.rows, show_default=True, type=click.IntRange(min=0), metavar="N",
    help="Most rows of one metric that are stored with warn, fail, unknown or error, each, in one window; 0: all. "
    "Counts and rates are not affected.",
)  # fmt: skip
@click.option(
    "--thin-window", default=ThinningOptions.window, show_default=True, type=click.IntRange(min=1), metavar="N",
    help="Size of that window: offsets of one partition.",
)  # fmt: skip
@click.option(
    "--keep", default=None, metavar="SPAN",
    help="Retention: delete rows, samples and rates that were stored longer ago, such as 30d; their sums stay. "
    "Default: delete nothing.",
)  # fmt: skip
@click.option(
    "--export", "export_place", default=None, metavar="DIR",
    help="Export the store to Delta tables in this folder, or s3://BUCKET/PREFIX, while the run lasts, as `gapwatch "
    "export` does.",
)  # fmt: skip
@click.option(
    "--export-every", default="1h", show_default=True, metavar="SPAN", help="Time between two exports, with --export.",
)  # fmt: skip
@click.option(
    "--role",
    default="all",
    show_default=True,
    type=click.Choice(["all", "score,keep", "judge"]),
    help="What this process does. all: score, store and judge. score,keep: score and store; judges run elsewhere. "
    "judge: only ask judge models, for a process that stores; any number of them.",
)
@click.option(
    "--judges", default=None, type=click.Path(path_type=Path), metavar="J",
    help="YAML settings of the LLM judges. Without them, judge requests wait for a process with --role judge.",
)  # fmt: skip
@click.option(
    "--keeper", "store_url", default=None, metavar="URL",
    help="With --role judge: address of the process that stores; GAPWATCH_WRITE_TOKEN holds its write token. "
    "Default: found through --store on this machine.",
)  # fmt: skip
@click.option(
    "--shed-after", default="10m", show_default=True, metavar="SPAN",
    help="Skip judging while records wait longer than this to be stored; never: always judge, as with "
    "--until-caught-up.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="With --until-caught-up: print one JSON object at the end.")
@click.option(
    "--log-format", default="text", show_default=True, type=click.Choice(["text", "json"]),
    help="Form of the lines on standard error. json: one object a line, for programs.",
)  # fmt: skip
@click.option(
    "--read-token-file", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
    help="File whose first line is the read token of the API; the variable GAPWATCH_READ_TOKEN may hold it instead.",
)  # fmt: skip
@click.option(
    "--write-token-file", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
    help="File whose first line is the write token of the API, or with --role judge that of --keeper; the variable "
    "GAPWATCH_WRITE_TOKEN may hold it instead.",
)  # fmt: skip
@click.option(
    "--log-level", default="info", show_default=True, type=click.Choice(["debug", "info", "warning"]),
    help="Least level of Gapwatch's lines on standard error. debug: the progress every 10 seconds as well.",
)  # fmt: skip
@click.option("--quiet", is_flag=True, help="Print only warnings and errors.")
def run_command(
    otlp: str | None,
    otlp_grpc: str | None,
    spans: str | None,
    logs: str,
    encoding: str,
    closes: tuple[str, ...],
    topic: str,
    portfolios: tuple[Path, ...],
    store: Path | None,
    group: str,
    instance: str,
    linger: float,
    listen: str | None,
    until_caught_up: bool,
    scorers: str | None,
    scorer_timeout: float,
    alerts: bool,
    webhook: str,
    public_url: str,
    runbook_url: str,
    trace_url: str,
    thin_rows: int,
    thin_window: int,
    keep: str | None,
    export_place: str | None,
    export_every: str,
    role: str,
    judges: Path | None,
    store_url: str | None,
    shed_after: str,
    as_json: bool,
    log_format: str,
    read_token_file: Path | None,
    write_token_file: Path | None,
    log_level: str,
    quiet: bool,
    **kafka: Any,
) -> None:
    """Monitor a Kafka topic, or what programs send over OTLP: score traces as they arrive and store the gaps.

    SIGTERM or Ctrl-C finishes the slices in work and ends within 10 seconds; the next start continues there. SIGHUP
    reads the portfolios again.
    """
    # Imported here: --help answers without Faust and DuckDB.
    from gapwatch.scorers.loading.load import load_portfolio
    from gapwatch.sinks.api.service import api_options, token_variables
    from gapwatch.sinks.export.delta_place import read_delta_place
    from gapwatch.sinks.reading.since import parse_positive_span
    from gapwatch.streams.alerting.delivery.webhook import check_address
    from gapwatch.streams.alerting.incidents.links import check_template
    from gapwatch.streams.judges.workers.judge_start import judge_options, run_judge_process
    from gapwatch.streams.live.export_loop import ExportOptions, check_export
    from gapwatch.streams.live.log_lines import log_lines
    from gapwatch.streams.live.run import Run
    from gapwatch.streams.live.run_log import logs_on_stderr
    from gapwatch.streams.live.run_parts import RunInput, RunOptions, RunOutput
    from gapwatch.streams.reports.replay_report import print_report
    from gapwatch.streams.sources.faust_slices import SliceAppOptions

    is_local = otlp is not None or otlp_grpc is not None
    settings = None if is_local else read_kafka_options(**kafka)
    click.get_current_context().with_resource(logs_on_stderr(quiet, log_level))
    click.get_current_context().with_resource(log_lines(log_format))
    if is_local:
        check_without_kafka(kafka, role, until_caught_up)
    if closes and not is_local and spans is None:
        raise click.UsageError("--close is for spans: it needs --otlp, --otlp-grpc or --spans")
    if spans is None and logs:
        raise click.UsageError("--logs is only for --spans")
    if is_local and spans is not None:
        raise click.UsageError("--spans needs Kafka; spans that come over --otlp are assembled on this machine")
    if role == "judge":
        assert settings is not None
        run_judge_process(settings, judges, store_url, store, listen, write_token_file)
        return
    if store is None or not portfolios:
        raise click.UsageError("--store and --portfolio are required, except with --role judge")
    if store_url is not None:
        raise click.UsageError("--keeper is only for --role judge")
    make_feed: MakeFeed | None = None
    if is_local:
        make_feed = local_feed(otlp, otlp_grpc, topic, closes)
    elif spans is not None:
        assert settings is not None
        make_feed = topic_feed(settings, (spans, logs, topic), group, encoding, until_caught_up, closes)
    judging = judge_options(judges, role == "all")
    tokens = token_variables(read_token_file, write_token_file)
    api = api_options(listen or ("none" if until_caught_up else DEFAULT_LISTEN), tokens)
    source = SliceAppOptions(topic, group, instance=instance, linger_seconds=linger)
    thinning = ThinningOptions(thin_window, thin_rows)
    keeping = parse_positive_span(keep, "--keep") if keep is not None else None
    export = None
    if export_place is not None:
        export = ExportOptions(read_delta_place(export_place), parse_positive_span(export_every, "--export-every"))
        check_export(export, api, keeping)
    output = RunOutput(
        store, api, check_address(webhook) if webhook else "", keeping,
        check_template(public_url, "--public-url"), check_template(runbook_url, "--runbook-url", "metric"),
        check_template(trace_url, "--trace-url", "trace_id"), export,
    )  # fmt: skip
    options = RunOptions(
        until_caught_up, thinning,
        None if until_caught_up or shed_after == "never"
        else parse_positive_span(shed_after, "--shed-after").total_seconds(),
        alerts, judging,
    )  # fmt: skip

    def report(result: RunSummary) -> None:
        if as_json:
            sys.stdout.buffer.write(orjson.dumps(result.as_json()) + b"\n")
            sys.stdout.flush()
        elif until_caught_up and not quiet and result.has_any_trace:
            print_report(store, [load_portfolio(path) for path in portfolios], result)

    with scorer_host(scorers, scorer_timeout) as host, _no_store_of_a_refused_run(store):
        run = Run(RunInput(settings, source, portfolios, host, make_feed=make_feed), output, options)
        status = run.run(report)
    run.result.check_balanced(store)
    if status:
        raise SystemExit(status)
    if until_caught_up:
        run.result.check_any_trace(f"topic {topic}", {p.pipeline for p in run.parts.portfolios}, store)


@contextlib.contextmanager
def _no_store_of_a_refused_run(store: Path) -> Iterator[None]:
    """Delete the store that a run made if the run is refused before it stored anything; a store from before stays."""
    from gapwatch.sinks.store.opening import remove_unused

    was_there = store.exists()
    try:
        yield
    except UsageError:
        if not was_there and store.exists():
            with contextlib.suppress(StoreError, OSError):  # the refusal matters more
                remove_unused(store)
        raise
