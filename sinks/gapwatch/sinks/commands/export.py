"""`gapwatch export`: writes what is new in a store to Delta tables."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click
import orjson

from gapwatch.scorers.errors import UsageError
from gapwatch.sinks.api.store_address import StorePlace
from gapwatch.sinks.commands.options import reading, store_option
from gapwatch.sinks.export.delta_place import PREFIX, DeltaPlace, read_delta_place
from gapwatch.sinks.reading.terminal_table import print_note

if TYPE_CHECKING:
    from rich.progress import TaskID


def _read_place(_context: click.Context, _option: click.Parameter, value: str) -> DeltaPlace:
    return read_delta_place(value)


@click.command("export")
@store_option
@click.option(
    "--to", "place", required=True, callback=_read_place, metavar="DIR",
    help="Folder for the tables, or s3://BUCKET/PREFIX with the keys in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY. "
    "Several stores may export to one place.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object at the end: rows by table, lost_until.")
def export_command(store: StorePlace, place: DeltaPlace, as_json: bool) -> None:
    """Export what is new in a store to Delta tables, exactly once; the store may be in use.

    Run it more often than rows expire, such as every hour. An export that was interrupted is repeated by the next one.
    Texts of traces are not exported. `gapwatch history --store delta:DIR` reads the tables, of all stores together.

    \b
    Example:
      gapwatch export --store airline.duckdb --to history
      gapwatch history 'SELECT keeper, sum(n) FROM ticks GROUP BY ALL' --store delta:history
    """  # noqa: D301 (click reads the escapes)
    if isinstance(store, DeltaPlace):
        raise UsageError(f"{PREFIX}{store} is an export already; give --store a store")
    # Imported here: --help answers without loading DuckDB.
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

    from gapwatch.sinks.export.exporting import export_store

    console = Console(stderr=True)
    columns: list[Any] = [TextColumn("{task.description}"), BarColumn(), TaskProgressColumn()]
    tasks = dict[str, "TaskID"]()
    with (
        reading(store) as con,
        Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as bars,
    ):

        def show(table: str, done: int, total: int) -> None:
            if table not in tasks:
                tasks[table] = bars.add_task(table, total=total)
            bars.update(tasks[table], completed=done)

        done = export_store(con, place, show)
    if done.lost_until:
        print_note(
            f"commits up to {done.lost_until} had expired before they were exported; export more often than --keep"
        )
    if as_json:
        answer = {"keeper": done.keeper, "rows": done.rows, "lost_until": done.lost_until}
        sys.stdout.buffer.write(orjson.dumps(answer) + b"\n")
        return
    print_note(f"{sum(done.rows.values())} rows of {sum(map(bool, done.rows.values()))} tables to {place}")
