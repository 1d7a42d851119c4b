"""`gapwatch snapshot`: writes a store as Parquet files, also while a run writes the store."""

from __future__ import annotations

import sys

import click

from gapwatch.sinks.api.store_address import StoreAddress, StorePlace
from gapwatch.sinks.commands.options import reading, store_file, store_option
from gapwatch.sinks.reading.terminal_table import print_note


@click.command("snapshot")
@store_option
@click.option("--name", metavar="NAME", help="Name of the snapshot's folder. Default: the time, in UTC.")
def snapshot_command(store: StorePlace, name: str | None) -> None:
    """Write all tables of a store as Parquet files, as of its last commit; the store may be in use.

    The files go into a new folder in S.snapshots, beside the store S. The command prints its path.

    \b
    Example:
      gapwatch snapshot --store airline.duckdb
    """  # noqa: D301 (click reads the escapes)
    # Imported here: --help answers without loading DuckDB.
    from gapwatch.sinks.api.client import LiveReader
    from gapwatch.sinks.reading.snapshot import take_snapshot

    with reading(store) as con:
        if isinstance(con, LiveReader):
            taken = con.snapshot(name)
        else:
            taken = take_snapshot(con, store_file(store, "snapshot"), name)
    if isinstance(store, StoreAddress):
        print_note(f"the folder is on the machine of {store}")
    print_note(f"{sum(taken.tables.values())} rows of {len(taken.tables)} tables, {taken.bytes} bytes")
    sys.stdout.write(taken.path + "\n")
