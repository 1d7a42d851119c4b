"""`gapwatch assemble`: files of OpenTelemetry spans to whole traces."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from gapwatch.streams.otlp.files.file_assembly import FileSummary


@click.command("assemble")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option(
    "--portfolio", "portfolios", multiple=True, type=click.Path(path_type=Path), metavar="P",
    help="Portfolio whose `spans` part maps the spans of its pipeline; repeatable.",
)  # fmt: skip
@click.option("--quiet", is_flag=True, help="Print no summary.")
def assemble_command(files: tuple[str, ...], portfolios: tuple[Path, ...], quiet: bool) -> None:
    """Assemble the OpenTelemetry spans of FILE... to whole traces, one line of JSON each, on standard output.

    FILE is what a Collector's file exporter wrote (JSON or protobuf), values of a topic of its Kafka exporter, or
    captured requests (JSON lines with `body` or `value` in base64); plain, .gz or .zst. All files are one input: a
    trace may lie in several.

    A summary on standard error says where each span went. Exit status 1: no trace was found. 2: a missing file.
    """
    # Imported here: --help answers without protobuf.
    from gapwatch.scorers.errors import JobError
    from gapwatch.scorers.loading.load import load_portfolio
    from gapwatch.streams.otlp.files.missing_extra import need_span_decoder

    need_span_decoder()
    from gapwatch.streams.otlp.files.file_assembly import FileSummary, assemble_files
    from gapwatch.streams.otlp.mapping.mapper import TraceMapper

    mapper = TraceMapper.of([load_portfolio(path) for path in portfolios])
    summary = FileSummary()
    for closed in assemble_files(files, mapper, summary):
        if closed.envelope is not None:
            sys.stdout.buffer.write(closed.envelope + b"\n")
    sys.stdout.buffer.flush()
    if not quiet:
        _print_summary(summary)
    if not summary.traces:
        raise JobError(f"no trace was found in {', '.join(files)}")


def _print_summary(summary: FileSummary) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    out = Console(stderr=True, highlight=False)
    counts = summary.counts
    out.print(Text(f"{summary.traces:,} traces of {counts.get('span.consumed.', 0):,} spans", style="bold"))
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 2), show_header=False)
    table.add_column()
    table.add_column(justify="right")
    table.add_column(style="dim")
    for key, n in counts.items():
        item, state, cause = key.split(".", 2)
        if state != "consumed":
            name = f"{'' if item == 'span' else item.replace('_', ' ') + ' '}{state.replace('_', ' ')}"
            table.add_row(name, f"{n:,}", _MEANINGS.get(f"{item}.{state}", cause.replace("_", " ")))
    for convention, n in summary.conventions.most_common():
        table.add_row("convention", f"{n:,}", convention)
    out.print(table)
    if summary.faulty_lines:
        out.print(Text(f"  {summary.faulty_lines:,} lines hold no request, such as", style="red"))
    for fault in summary.faults[:5]:
        out.print(Text(f"  {fault}", style="red"), soft_wrap=True)
    for dead in summary.dead[:5]:
        out.print(
            Text(f"  dead letter: {dead.cause}: {dead.detail}; trace {dead.trace_id or 'unknown'}", style="red"),
            soft_wrap=True,
        )


_MEANINGS = {
    "span.dropped_kind": "of HTTP, databases and the like, or by a rule",
    "span.duplicate": "sent twice",
    "log_record.orphaned": "content whose span did not come",
    "log_record.foreign": "not of models",
    "log_record.joined": "content of a span",
}
