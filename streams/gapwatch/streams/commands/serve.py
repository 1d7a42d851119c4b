"""`gapwatch serve`: shows the page of a store that no process writes."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import click

from gapwatch.scorers.errors import StoreHeldError, UsageError
from gapwatch.sinks.api.address import DEFAULT_LISTEN
from gapwatch.sinks.api.store_address import StorePlace
from gapwatch.sinks.commands.options import store_file, store_option


@click.command("serve")
@store_option
@click.option("--lane", metavar="LANE", help="Lane to show: live, file:... Default: live, else the one stored last.")
@click.option(
    "--listen", default=DEFAULT_LISTEN, show_default=True, metavar="ADDRESS:PORT", help="Address of the page."
)
def serve_command(store: StorePlace, lane: str | None, listen: str) -> None:
    """Show the page of a store that no process writes, read-only, until Ctrl-C.

    The page, /metrics and queries are those of `gapwatch run`; nothing is written and no decision is taken.
    """
    # Imported here: --help answers without DuckDB.
    from gapwatch.sinks.api.endpoint_note import read_note
    from gapwatch.sinks.api.service import api_options
    from gapwatch.streams.live.finished_page import FinishedPage

    path = store_file(store, "serve")
    options = api_options(listen)
    if options is None:
        raise UsageError("gapwatch serve needs an address to listen on, such as --listen 127.0.0.1:9464")
    try:
        page = FinishedPage(path, options, lane)
    except StoreHeldError as held:
        note = read_note(path)
        raise StoreHeldError(f"{held}; its page is at {note.url}" if note is not None else str(held)) from held
    try:
        page.start()
        sys.stderr.write(f"gapwatch: {page.url} shows {_shown_path(path)}, lane {page.lane}, until Ctrl-C\n")
        sys.stderr.flush()
        threading.Event().wait()
    finally:
        page.stop()


def _shown_path(path: Path) -> str:
    from gapwatch.scorers.printable import shown

    return shown(str(path), 1000)
