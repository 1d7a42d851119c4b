"""`gapwatch history`: runs a SQL query on a store."""

from __future__ import annotations

import io
import itertools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import click

from gapwatch.scorers.errors import UsageError
from gapwatch.sinks.api.store_address import StorePlace
from gapwatch.sinks.commands.options import reading, store_option
from gapwatch.sinks.reading.terminal_table import Column, print_note, print_table

if TYPE_CHECKING:
    from gapwatch.sinks.reading.query_answer import QueryResult
    from gapwatch.sinks.store.store_reader import StoreReader

#: Largest number of rows of a printed table. Larger: all of them are held in memory to align the columns.
TABLE_ROWS = 1_000
_NUMBERS = ("INT", "DOUBLE", "FLOAT", "DECIMAL")


# A query may begin with a comment (--), which click must not read as an option.
@click.command("history", context_settings={"ignore_unknown_options": True})
@click.argument("sql", metavar="'SELECT ...'")
@store_option
@click.option(
    "--format", "form", type=click.Choice(["table", "csv", "json", "parquet"]), default="table", show_default=True,
    help="table: for people, the first 1000 rows. json: an array of objects. csv. parquet: needs --output.",
)  # fmt: skip
@click.option(
    "--output", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
    help="Write to this file instead of standard output. The file appears only when it is complete.",
)  # fmt: skip
def history_command(sql: str, store: StorePlace, form: str, output: Path | None) -> None:
    """Run one SELECT on a store. It cannot change anything or read other files.

    \b
    Tables: gaps, ticks, session_ticks, ledger, offsets, dead_letters, samples, shifts, alerts, metrics, ...
    Views:  rates, rates_by (release, model, tier), component_rates, verdicts (rows with overrides),
            failing_traces (with their text), costs, alerts_open.
    `SHOW TABLES` and `DESCRIBE gaps` list tables and columns. Times are UTC.

    \b
    Example:
      gapwatch history 'SELECT metric, outcome, count(*) FROM gaps GROUP BY ALL' --store airline.duckdb
    """  # noqa: D301 (click reads the escapes)
    if form == "parquet" and output is None:
        raise UsageError("--format parquet needs --output FILE")
    if form == "table" and output is not None:
        raise UsageError("--output needs --format csv, json or parquet")
    # Imported here: --help answers without loading DuckDB.
    from gapwatch.sinks.api.client import LiveReader
    from gapwatch.sinks.reading.answer_files import write_parquet
    from gapwatch.sinks.reading.history import answering, read_only
    from gapwatch.sinks.reading.json_values import write_json

    with reading(store) as con:
        if isinstance(con, LiveReader) and form == "table":
            con.rows = TABLE_ROWS + 1
        if form == "table":
            with answering(con, sql) as answer:
                print_answer(answer)
        elif form == "parquet" and output is not None:
            with read_only(con, sql):
                print_note(f"{write_parquet(con, sql, output)} rows in {output}")
        else:
            _write(con, sql, write_json if form == "json" else _write_csv, output)


def print_answer(answer: QueryResult) -> None:
    """Print the first rows of a result as a table, with a note if there are more."""
    columns = [
        Column(name, right=any(word in str(kind) for word in _NUMBERS) and "[" not in str(kind))
        for name, kind in zip(answer.names, answer.types, strict=True)
    ]
    rows = list(itertools.islice(itertools.chain.from_iterable(answer.rows), TABLE_ROWS + 1))
    print_table(columns, rows[:TABLE_ROWS], upright=True)
    if len(rows) > TABLE_ROWS:
        print_note(f"the first {TABLE_ROWS} rows; use --format csv, json or parquet for all")
    elif not rows:
        print_note("no rows")


def _write(con: StoreReader, sql: str, write: Callable[[QueryResult, BinaryIO], None], output: Path | None) -> None:
    # Imported here: --help answers without loading DuckDB.
    from gapwatch.sinks.reading.answer_files import write_whole
    from gapwatch.sinks.reading.history import answering

    with answering(con, sql) as answer:
        if output is None:
            sys.stdout.flush()
            write(answer, sys.stdout.buffer)
            sys.stdout.buffer.flush()
            return

        def fill(part: Path) -> None:
            with part.open("wb") as out:
                write(answer, out)

        write_whole(output, fill)


def _write_csv(answer: QueryResult, out: BinaryIO) -> None:
    # Imported here: --help answers without loading DuckDB.
    from gapwatch.sinks.reading.answer_files import write_csv

    text = io.TextIOWrapper(out, encoding="utf-8", newline="", write_through=False)
    try:
        write_csv(answer, text)
    finally:
        text.detach()
