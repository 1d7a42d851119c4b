"""`gapwatch spans`: what OpenTelemetry spans have that can be watched."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gapwatch.streams.commands.kafka_options import kafka_options, read_kafka_options

if TYPE_CHECKING:
    from rich.console import Console

    from gapwatch.streams.otlp.files.file_assembly import FileSummary
    from gapwatch.streams.otlp.files.span_survey import SpanSurvey, SurveyedComponent, SurveyedPipeline


@click.command("spans")
@click.argument("files", nargs=-1, metavar="[FILE...]")
@kafka_options
@click.option(
    "--topic", "topics", multiple=True, metavar="T",
    help="Topic of spans, or of log records with their content, to read to its present end; repeatable.",
)  # fmt: skip
@click.option(
    "--limit", type=click.IntRange(min=1), metavar="N", help="Read at most N records of each topic. Default: no limit."
)
@click.option(
    "--portfolio", "portfolios", multiple=True, type=click.Path(path_type=Path), metavar="P",
    help="Portfolio whose `spans` part maps the spans of its pipeline; repeatable.",
)  # fmt: skip
@click.option(
    "--write", metavar="PIPELINE", default=None, help="Print the start of a portfolio for a pipeline instead."
)
def spans_command(
    files: tuple[str, ...],
    topics: tuple[str, ...],
    limit: int | None,
    portfolios: tuple[Path, ...],
    write: str | None,
    **kafka: Any,
) -> None:
    """Show what the OpenTelemetry spans of files or topics have that can be watched.

    One line a component and kind: its spans, how many of them have an input, an output and tokens, how many failed, and
    the models. FILE is as for `gapwatch assemble`, or the spool of `gapwatch run --otlp`: the folder beside the store
    that ends in .otlp. Reading a topic joins no consumer group.

    Exit status 1: no trace was found, or none of PIPELINE. 2: a missing file or topic.
    """
    # Imported here: --help answers without protobuf.
    import orjson

    from gapwatch.scorers.errors import JobError, UsageError
    from gapwatch.scorers.loading.load import load_portfolio
    from gapwatch.streams.otlp.files.missing_extra import need_span_decoder

    if not files and not topics:
        raise UsageError("name a FILE of spans, or a --topic")
    need_span_decoder()
    from gapwatch.streams.otlp.files.file_assembly import FileSummary, assemble_files
    from gapwatch.streams.otlp.files.span_survey import SpanSurvey, portfolio_start
    from gapwatch.streams.otlp.files.spool_folder import traces_of_spool
    from gapwatch.streams.otlp.mapping.mapper import TraceMapper

    mapper = TraceMapper.of([load_portfolio(path) for path in portfolios])
    survey, summary = SpanSurvey(), FileSummary()
    folders = [Path(path) for path in files if Path(path).is_dir()]
    for folder in folders:
        for line in traces_of_spool(folder):
            survey.add(orjson.loads(line))
    with tempfile.TemporaryDirectory(prefix="gapwatch-") as place:
        read = [path for path in files if not Path(path).is_dir()]
        read += [_topic_as_file(topic, Path(place), limit, kafka) for topic in topics]
        for closed in assemble_files(read, mapper, summary) if read else ():
            if closed.envelope is not None:
                survey.add(orjson.loads(closed.envelope))
    if not survey.pipelines:
        hint = "; a trace is whole 10 s after its last span" if folders else ""
        raise JobError(f"no trace was found in {', '.join([*files, *topics])}{hint}")
    if write is not None:
        if write not in survey.pipelines:
            raise JobError(
                f"no trace is of pipeline {write!r}; the pipelines are {', '.join(sorted(survey.pipelines))}"
            )
        sys.stdout.write(portfolio_start(write, survey.pipelines[write]))
        return
    _print_survey(survey, summary)


def _topic_as_file(topic: str, folder: Path, limit: int | None, kafka: dict[str, Any]) -> str:
    """Write the records of a topic into a file, as `gapwatch consume --encode` does, and return its path."""
    from gapwatch.scorers.errors import JobError

    settings = read_kafka_options(**kafka)
    from gapwatch.streams.batch.consume_topic import ConsumeOptions, TopicLines, run_consume

    path = folder / f"{topic}.jsonl"
    with path.open("wb") as out:

        def write(lines: bytes) -> None:
            out.write(lines)

        run_consume(TopicLines(settings, ConsumeOptions(topic, limit=limit, base64=True), click.echo), write)
    if not path.stat().st_size:
        raise JobError(f"topic {topic} has no records")
    return str(path)


def _print_survey(survey: SpanSurvey, summary: FileSummary) -> None:
    from rich.text import Text

    from gapwatch.streams.commands.check import console

    out = console()
    for name, pipeline in sorted(survey.pipelines.items()):
        notes = [f"{pipeline.traces:,} traces"]
        notes += [f"{pipeline.incomplete:,} incomplete"] if pipeline.incomplete else []
        notes += [f"{_share(pipeline.with_session, pipeline.traces)} with a session"]
        notes += [f"{_share(pipeline.with_release, pipeline.traces)} with a release"]
        out.print(Text(name, style="bold"), Text(", ".join(notes), style="dim"))
        _print_components(out, pipeline)
    counts = summary.counts
    notes = [f"{n:,} spans {text}" for state, text in _STATES.items() if (n := _sum_of(counts, state))]
    notes += [f"{n:,} spans of {convention}" for convention, n in summary.conventions.most_common()]
    if notes:
        out.print(Text("; ".join(notes), style="dim"))


_STATES = {
    "span.dropped_kind": "of HTTP, databases and the like left out",
    "span.duplicate": "sent twice",
    "span.dead_letter": "that cannot be decoded",
    "log_record.orphaned": "with content alone (log records) that never came",
}


def _sum_of(counts: dict[str, int], state: str) -> int:
    return sum(n for key, n in counts.items() if key.startswith(f"{state}."))


def _print_components(out: Console, pipeline: SurveyedPipeline) -> None:
    from rich.table import Table
    from rich.text import Text

    from gapwatch.scorers.printable import shown

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("component", overflow="fold", max_width=40)
    table.add_column("kind")
    for title in ("spans", "failed", "input", "output", "tokens", "cost"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("models, and what is absent", overflow="fold")
    for (component, kind), found in pipeline.components.items():
        answered = found.spans - found.errors
        is_model = kind in ("llm", "embedding")
        table.add_row(
            Text(shown(component, 60)), kind, f"{found.spans:,}", f"{found.errors:,}" if found.errors else "",
            _share(found.with_input, found.spans), _share(min(found.with_output, answered), answered),
            _share(min(found.with_tokens, answered), answered) if is_model else "",
            _share(min(found.with_cost, answered), answered) if is_model and found.with_cost else "",
            Text(_notes(found)),
        )  # fmt: skip
    out.print(table)
    out.print()


def _notes(found: SurveyedComponent) -> str:
    from gapwatch.scorers.printable import shown

    parts = [f"{shown(model, 60)} ({n:,})" for model, n in found.models.most_common(4)]
    parts += [f"{shown(reason, 60)} ({n:,})" for reason, n in found.absent.most_common(2)]
    return ", ".join(parts)


def _share(part: int, whole: int) -> str:
    if not whole:
        return "-"
    percent = 100 * part / whole
    # 100 % and 0 % are said of all and of none alone.
    return f"{min(99, max(1, round(percent)))} %" if 0 < part < whole else f"{round(percent)} %"
