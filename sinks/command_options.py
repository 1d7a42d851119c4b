"""Options that several commands on a store share, and the store they open."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from scorers.errors import StoreHeldError
from sinks.api_file import read_note

if TYPE_CHECKING:
    import duckdb

#: Where the process that keeps a store answers, unless told otherwise.
DEFAULT_ADDRESS, DEFAULT_PORT = "127.0.0.1", 9464
DEFAULT_LISTEN = f"{DEFAULT_ADDRESS}:{DEFAULT_PORT}"

store_option = click.option(
    "--store", required=True, type=click.Path(path_type=Path), metavar="S", help="The DuckDB file of the store."
)
component_option = click.option("--component", metavar="ID", help="Only this component. Default: all.")
metric_option = click.option("--metric", metavar="NAME", help="Only this metric. Default: all.")
lane_option = click.option("--lane", metavar="LANE", help="Only this lane: live, file:..., backfill:... Default: all.")
since_option = click.option(
    "--since", metavar="WHEN",
    help="Only what happened since: 15m, 2h, 7d before now, or ISO 8601 (UTC). By event time. Default: all.",
)  # fmt: skip
format_option = click.option(
    "--format", "form", type=click.Choice(["table", "json"]), default="table", show_default=True,
    help="table for people, json for programs: an array of objects.",
)  # fmt: skip


@contextlib.contextmanager
def reading(store: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a store for reading only, and close it; one that is being kept is asked over its API.

    Raises:
        StoreError: There is none, it is not one, or another process holds it and does not answer.
    """
    # Imported here: --help answers without loading the engine.
    from sinks.store_file import open_for_reading

    try:
        con = open_for_reading(store)
    except StoreHeldError:
        note = read_note(store)
        if note is None:
            raise
        from sinks.live_reader import LiveReader

        # It does what the readers here ask of a connection, and no more.
        con = cast("duckdb.DuckDBPyConnection", LiveReader(note))
    try:
        yield con
    finally:
        con.close()
