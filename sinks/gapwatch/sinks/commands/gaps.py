"""`gapwatch gaps`: shows the rows that failed, or one trace in full."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.text import Text

from gapwatch.scorers.printable import shown
from gapwatch.sinks.api.store_address import StorePlace
from gapwatch.sinks.commands.options import (
    component_option,
    format_option,
    lane_option,
    matching,
    metric_option,
    reading,
    since_option,
    store_option,
)
from gapwatch.sinks.reading.terminal_table import (
    OUTCOME_STYLES,
    Column,
    cell_text,
    component_text,
    moment_text,
    print_note,
    print_table,
)

if TYPE_CHECKING:
    from gapwatch.sinks.store.store_reader import StoreReader

#: Outcomes shown by default. The store also has a sample of passing rows, for comparison.
DIVERGENCES = ("fail", "warn", "error")
OUTCOMES = ("pass", "warn", "fail", "skip", "unknown", "error")

#: Characters of the observed value in a list; --trace shows all that is stored.
SEEN_LIMIT = 120


@click.command("gaps")
@store_option
@component_option
@metric_option
@click.option(
    "--outcome", "outcomes", multiple=True, type=click.Choice([*OUTCOMES, "all"]),
    help="Only rows with this outcome; may be repeated. Default: fail, warn and error.",
)  # fmt: skip
@since_option
@lane_option
@click.option(
    "--limit", type=click.IntRange(min=1), default=50, show_default=True, help="Largest number of rows, newest first."
)
@click.option("--trace", metavar="ID", help="Show one trace in full, with its text if a sample is stored.")
@format_option
def gaps_command(
    store: StorePlace,
    component: str | None,
    metric: str | None,
    outcomes: tuple[str, ...],
    since: str | None,
    lane: str | None,
    limit: int,
    trace: str | None,
    form: str,
) -> None:
    """Show the rows in which the pipeline did not do what it should, newest first.

    A person's override replaces the scored outcome. Rows may be a sample (p_kept below 1);
    `gapwatch rates` counts every trace.
    """
    # Imported here: --help answers without loading DuckDB.
    from gapwatch.sinks.reading.json_values import write_json
    from gapwatch.sinks.reading.known_names import check_names
    from gapwatch.sinks.reading.query_answer import ask
    from gapwatch.sinks.reading.trace_report import print_trace, print_trace_json

    where, values = matching("event_at", component, metric, since, lane)
    with reading(store) as con:
        if trace is not None:
            (print_trace_json if form == "json" else print_trace)(con, trace)
            return
        check_names(con, component=component, metric=metric, lane=lane)
        wanted = OUTCOMES if "all" in outcomes else outcomes or DIVERGENCES
        where, values = f"outcome IN (SELECT unnest(?)) AND {where}", [list(wanted), *values]
        if form == "json":
            sql = f"SELECT * FROM verdicts WHERE {where} ORDER BY {_NEWEST} LIMIT {limit}"
            sys.stdout.flush()
            write_json(ask(con, sql, values), sys.stdout.buffer)
        else:
            _print_rows(con, where, values, limit)


_NEWEST = "event_at DESC NULLS LAST, lane, source_topic, source_partition, source_offset DESC, span_index, metric"


def _print_rows(con: StoreReader, where: str, values: list[Any], limit: int) -> None:
    # Imported here: --help answers without loading DuckDB.
    from gapwatch.sinks.reading.query_answer import ask
    from gapwatch.sinks.reading.trace_report import print_expected

    rows = ask(
        con,
        f"""SELECT event_at, component, metric, outcome, observed, label, score, reason, trace_id, release, expected,
                p_kept
            FROM verdicts WHERE {where} ORDER BY {_NEWEST} LIMIT {limit}""",
        values,
    ).objects()
    if not rows:
        print_note("no rows match")
        return
    if sys.stdout.isatty():
        _print_by_trace(rows)
    else:
        print_table(
            [Column(name) for name in ("event time", "trace", "component", "metric", "outcome", "observed")],
            [[row["event_at"], row["trace_id"], *_cells(row)] for row in rows],
        )
    print_expected(rows)
    total = ask(con, f"SELECT count(*) AS n FROM verdicts WHERE {where}", values).objects()[0]["n"]
    if total > len(rows):
        print_note(f"the newest {len(rows)} of {total} rows; --limit N shows more, --trace ID shows one trace in full")
    if any(row["p_kept"] < 1 for row in rows):
        print_note("some rows are a sample (p_kept below 1); `gapwatch rates` counts every trace")


def _print_by_trace(rows: list[dict[str, Any]]) -> None:
    """Print each trace under a line with its id and time, so that the rows have room for the observed values."""
    cells = [_cells(row) for row in rows]
    widths = [max(len(row[i]) for row in cells) for i in range(3)]
    console = Console(highlight=False)
    last_head: tuple[Any, ...] | None = None
    for row, texts in zip(rows, cells, strict=True):
        moment = "no time" if row["event_at"] is None else moment_text(row["event_at"], "seconds")
        if (head := (row["trace_id"], row["release"], moment[:16])) != last_head:
            release = f"  {shown(row['release'])}" if row["release"] else ""
            console.print(Text(f"{moment}  {shown(row['trace_id'], 200)}{release}", "bold"), overflow="fold")
            last_head = head
        line = Text("  ").append("  ".join(text.ljust(width) for text, width in zip(texts, widths[:2], strict=False)))
        line.append(f"  {texts[2].ljust(widths[2])}", OUTCOME_STYLES.get(texts[2], "")).append(f"  {texts[3]}")
        console.print(line, overflow="ellipsis", no_wrap=True)


def _cells(row: dict[str, Any]) -> list[str]:
    # Imported here: --help answers without loading DuckDB.
    from gapwatch.sinks.reading.trace_report import seen_text

    return [
        cell_text(component_text(row["component"])),
        cell_text(row["metric"]),
        cell_text(row["outcome"]),
        cell_text(seen_text(row), SEEN_LIMIT),
    ]
