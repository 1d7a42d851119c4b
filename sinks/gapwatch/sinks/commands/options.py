"""Options that several commands share, and functions that open a store for them."""

from __future__ import annotations

import contextlib
import getpass
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from gapwatch.scorers.errors import StoreHeldError
from gapwatch.sinks.api.endpoint_note import read_note
from gapwatch.sinks.reading.since import parse_since

if TYPE_CHECKING:
    from gapwatch.sinks.api.client import LiveReader
    from gapwatch.sinks.store.store import Store
    from gapwatch.sinks.store.store_reader import StoreReader

Result = TypeVar("Result")

#: Answer for a decision that is queued and not committed yet.
WAITS = "queued: it is stored with the next transaction of the process that writes the store"

store_option = click.option(
    "--store", required=True, type=click.Path(path_type=Path), metavar="S", help="DuckDB file of the store."
)
component_option = click.option("--component", metavar="ID", help="Only this component. Default: all.")
metric_option = click.option("--metric", metavar="NAME", help="Only this metric. Default: all.")
lane_option = click.option("--lane", metavar="LANE", help="Only this lane: live, file:..., backfill:... Default: all.")
since_option = click.option(
    "--since", metavar="WHEN",
    help="Only from this event time on: 15m, 2h, 7d before now, or ISO 8601 (UTC). Default: all.",
)  # fmt: skip
format_option = click.option(
    "--format", "form", type=click.Choice(["table", "json"]), default="table", show_default=True,
    help="table: for people. json: for programs, an array of objects.",
)  # fmt: skip


def matching(
    time: str, component: str | None, metric: str | None, since: str | None, lane: str | None
) -> tuple[str, list[Any]]:
    """Return the options above as a SQL condition on rows, and its parameters.

    Args:
        time: Column that `since` applies to.
        component: Value of --component; None, here and below, selects all.
        metric: Value of --metric.
        since: Value of --since.
        lane: Value of --lane.

    Raises:
        UsageError: `since` is not a time.
    """
    conditions, values = ["true"], list[Any]()
    for name, operator, value in (
        ("component", "=", component),
        ("metric", "=", metric),
        (time, ">=", parse_since(since, datetime.now(UTC)) if since is not None else None),
        ("lane", "=", lane),
    ):
        if value is not None:
            conditions.append(f"{name} {operator} ?")
            values.append(value)
    return " AND ".join(conditions), values


@contextlib.contextmanager
def reading(store: Path) -> Iterator[StoreReader]:
    """Open a store for reading, and close it afterwards. A store in use is read over the API of its process.

    Raises:
        StoreError: The file is missing or not a store, or another process holds it and does not answer.
    """
    # Imported here: --help answers without loading DuckDB.
    from gapwatch.sinks.store.opening import open_for_reading

    con: StoreReader
    try:
        con = open_for_reading(store)
    except StoreHeldError as held:
        con = _live_reader(store, held)
    try:
        yield con
    finally:
        con.close()


def decide_on(store: Path, at_rest: Callable[[Store], Result], live: Callable[[LiveReader], Result]) -> Result:
    """Change a store by `at_rest` if no process holds it, otherwise by `live` over the API of the process that does.

    Raises:
        StoreError: The file is missing or not a store, or another process holds it and does not answer.
    """
    # Imported here: --help answers without loading DuckDB.
    from gapwatch.sinks.store.store import Store

    try:
        with Store.open(store) as opened:
            return at_rest(opened)
    except StoreHeldError as held:
        reader = _live_reader(store, held)
    try:
        return live(reader)
    finally:
        reader.close()


def _live_reader(store: Path, held: StoreHeldError) -> LiveReader:
    """Return a reader over the API of the process that holds a store.

    Raises:
        StoreHeldError: There is no API; the error that opening the store gave.
    """
    from gapwatch.sinks.api.client import LiveReader

    note = read_note(store)
    if note is None:
        raise held
    return LiveReader(note)


def user_name() -> str | None:
    """Return the name of the user of this process; None if there is none."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container without an entry for the user id
        return None
