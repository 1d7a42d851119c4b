"""`gapwatch migrate`: converts a store of an older schema version."""

from __future__ import annotations

import sys
import time

import click

from gapwatch.scorers.errors import UsageError
from gapwatch.sinks.api.store_address import StoreAddress, StorePlace
from gapwatch.sinks.commands.options import store_file, store_option
from gapwatch.sinks.reading.terminal_table import print_note

#: Seconds between two lines of progress.
_SHOW_SECONDS = 2.0


@click.command("migrate")
@store_option
def migrate_command(store: StorePlace) -> None:
    """Convert a store of an older version to the one that this program reads and writes.

    Stop the process that writes the store first. The old file stays beside it, as S.v3.backup; delete it when you no
    longer need it. An interrupted migration leaves the store as it was.

    \b
    Example:
      gapwatch migrate --store airline.duckdb
    """  # noqa: D301 (click reads the escapes)
    if isinstance(store, StoreAddress):
        raise UsageError(f"{store} is the address of a running process; stop it, and name the file of its store")
    path = store_file(store, "migrate")
    # Imported here: --help answers without loading DuckDB.
    from gapwatch.sinks.migration.migrating import migrate
    from gapwatch.sinks.store.schema import SCHEMA_VERSION

    began = shown = time.monotonic()

    def progress(table: str, copied: int, total: int) -> None:
        nonlocal shown
        if time.monotonic() - shown > _SHOW_SECONDS:
            shown = time.monotonic()
            print_note(f"{table}: {copied:,} of {total:,} rows")

    done = migrate(path, progress)
    if done.backup is None:
        sys.stdout.write(f"{store} has version {SCHEMA_VERSION} already; nothing to do\n")
        return
    sys.stdout.write(
        f"{store} has version {SCHEMA_VERSION} now, before {done.version}: {sum(done.rows.values()):,} rows of "
        f"{sum(1 for n in done.rows.values() if n)} tables, {time.monotonic() - began:.1f} s\n"
        f"the old file is {done.backup}; delete it when you no longer need it\n"
    )
