"""`gapwatch dead-letters`: shows the records that could not be read, by cause."""

from __future__ import annotations

import sys

import click

from gapwatch.sinks.api.store_address import StorePlace
from gapwatch.sinks.commands.options import format_option, lane_option, reading, store_option
from gapwatch.sinks.reading.terminal_table import Column, print_note, print_table

_SQL = """
    SELECT cause, lane, source_topic, count(*) AS records,
        arg_min({'partition': source_partition, 'offset': source_offset}, (source_partition, source_offset)) AS first,
        arg_max({'partition': source_partition, 'offset': source_offset}, (source_partition, source_offset)) AS last,
        max(size) AS largest_bytes, max(kept_at) AS last_kept_at,
        arg_min(detail, (source_partition, source_offset)) FILTER (detail IS NOT NULL) AS example
    FROM dead_letters WHERE $1 IS NULL OR lane = $1
    GROUP BY cause, lane, source_topic ORDER BY records DESC, cause, lane, source_topic"""

_COLUMNS = (
    Column("cause", whole=True),
    Column("lane", whole=True),
    Column("source", whole=True),
    Column("records", right=True),
    Column("first", right=True),
    Column("last", right=True),
    Column("largest bytes", right=True),
    Column("example"),
)


@click.command("dead-letters")
@store_option
@lane_option
@format_option
def dead_letters_command(store: StorePlace, lane: str | None, form: str) -> None:
    """Show the dead letters (records that could not be read), by cause.

    `first` and `last` are partition:offset. In a file, the offset is the number of the line, from 0.
    """
    # Imported here: --help answers without loading DuckDB.
    from gapwatch.sinks.reading.json_values import write_json
    from gapwatch.sinks.reading.query_answer import ask

    with reading(store) as con:
        answer = ask(con, _SQL, [lane])
        if form == "json":
            sys.stdout.flush()
            write_json(answer, sys.stdout.buffer)
            return
        rows = answer.objects()
    if not rows:
        print_note("no dead letters")
        return
    print_table(
        _COLUMNS,
        [
            [
                row["cause"], row["lane"], row["source_topic"], row["records"], _place(row["first"]),
                _place(row["last"]), row["largest_bytes"], row["example"],
            ]
            for row in rows
        ],
    )  # fmt: skip


def _place(place: dict[str, int]) -> str:
    return f"{place['partition']}:{place['offset']}"
