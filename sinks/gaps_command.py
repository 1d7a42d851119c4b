"""`gapwatch gaps`: where the pipeline diverged from what it was built to do."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import duckdb

from sinks.answer import ask
from sinks.answer_table import Column, cell_text, print_note, print_table
from sinks.command_options import (
    component_option,
    format_option,
    lane_option,
    metric_option,
    reading,
    since_option,
    store_option,
)
from sinks.json_values import json_array
from sinks.since import parse_since
from sinks.trace_report import SEEN, print_trace, print_trace_json

#: What is a divergence. Rows of passing spans are kept too, as a sample to compare with.
DIVERGENCES = ("fail", "warn", "error")
OUTCOMES = ("pass", "warn", "fail", "skip", "unknown", "error")

#: Characters of what was seen in a list; --trace shows all that is kept.
SEEN_LIMIT = 120

_SHOWN = ("event_at", "component", "metric", "outcome", "trace_id")
_COLUMNS = (
    Column("event time", whole=True),
    Column("component"),
    Column("metric"),
    Column("outcome", whole=True),
    Column("trace", whole=True),
    Column("seen"),
)


@click.command("gaps")
@store_option
@component_option
@metric_option
@click.option(
    "--outcome", "outcomes", multiple=True, type=click.Choice([*OUTCOMES, "all"]),
    help="Only rows of this outcome; may be repeated. Default: fail, warn and error.",
)  # fmt: skip
@since_option
@lane_option
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, help="Rows at most, newest first.")
@click.option("--trace", metavar="ID", help="Everything about one trace, with its text where a sample was kept.")
@format_option
def gaps_command(
    store: Path,
    component: str | None,
    metric: str | None,
    outcomes: tuple[str, ...],
    since: str | None,
    lane: str | None,
    limit: int,
    trace: str | None,
    form: str,
) -> None:
    """Show the rows that say where the pipeline diverged, newest first.

    What a person has overruled counts as they said. Rows may be a sample (p_kept below 1);
    `gapwatch rates` counts every trace.
    """
    begin = parse_since(since, datetime.now(UTC)) if since is not None else None
    with reading(store) as con:
        if trace is not None:
            (print_trace_json if form == "json" else print_trace)(con, trace)
            return
        wanted = OUTCOMES if "all" in outcomes else outcomes or DIVERGENCES
        where, values = _conditions(component, metric, wanted, begin, lane)
        if form == "json":
            sql = f"SELECT * FROM verdicts WHERE {where} ORDER BY {_NEWEST} LIMIT {limit}"
            sys.stdout.flush()
            for piece in json_array(ask(con, sql, values)):
                sys.stdout.buffer.write(piece)
        else:
            _print_rows(con, where, values, limit)


_NEWEST = "event_at DESC NULLS LAST, lane, source_topic, source_partition, source_offset DESC, span_index, metric"


def _conditions(
    component: str | None, metric: str | None, outcomes: tuple[str, ...], begin: datetime | None, lane: str | None
) -> tuple[str, list[Any]]:
    conditions = ["outcome IN (SELECT unnest(?))"]
    values: list[Any] = [list(outcomes)]
    for name, operator, value in (
        ("component", "=", component),
        ("metric", "=", metric),
        ("event_at", ">=", begin),
        ("lane", "=", lane),
    ):
        if value is not None:
            conditions.append(f"{name} {operator} ?")
            values.append(value)
    return " AND ".join(conditions), values


def _print_rows(con: duckdb.DuckDBPyConnection, where: str, values: list[Any], limit: int) -> None:
    rows = ask(
        con,
        f"""SELECT event_at, component, metric, outcome, {SEEN} AS seen, trace_id, expected, p_kept
            FROM verdicts WHERE {where} ORDER BY {_NEWEST} LIMIT {limit}""",
        values,
    ).objects()
    if not rows:
        print_note("no such rows")
        return
    print_table(
        _COLUMNS,
        [[*(row[name] for name in _SHOWN), cell_text(row["seen"], SEEN_LIMIT)] for row in rows],
    )
    expected = {row["metric"]: row["expected"] for row in rows if row["expected"]}
    if expected:
        sys.stdout.write("\n")
        print_table([Column("metric"), Column("expected")], sorted(expected.items()))
    total = ask(con, f"SELECT count(*) AS n FROM verdicts WHERE {where}", values).objects()[0]["n"]
    if total > len(rows):
        print_note(f"the newest {len(rows)} of {total} rows; --limit gives more, --trace ID tells one in full")
    if any(row["p_kept"] < 1 for row in rows):
        print_note("some of these are a sample of their kind (p_kept below 1); `gapwatch rates` counts every trace")
