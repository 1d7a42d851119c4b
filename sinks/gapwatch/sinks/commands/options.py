"""Options that several commands on a store share, the store they open, and who gives them."""

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

#: What is said of a decision that the keeper has taken, and not yet committed.
WAITS = "it waits for the next transaction of the process that keeps the store"

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


def matching(
    time: str, component: str | None, metric: str | None, since: str | None, lane: str | None
) -> tuple[str, list[Any]]:
    """Return what the options above ask of a row, as a condition with its parameters.

    Args:
        time: The column that `since` is about.
        component: As given; None, here and below, asks for nothing.
        metric: As given.
        since: As given.
        lane: As given.

    Raises:
        UsageError: `since` is no time.
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
    """Open a store for reading only, and close it; one that is being kept is asked over its API.

    Raises:
        StoreError: There is none, it is not one, or another process holds it and does not answer.
    """
    # Imported here: --help answers without loading the engine.
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
    """Let `at_rest` change a store that nobody keeps, and `live` one that is being kept, through its keeper's API.

    Raises:
        StoreError: There is none, it is not one, or another process holds it and does not answer.
    """
    # Imported here: --help answers without loading the engine.
    from gapwatch.sinks.store.store import Store

    try:
        with Store.open(store) as kept:
            return at_rest(kept)
    except StoreHeldError as held:
        reader = _live_reader(store, held)
    try:
        return live(reader)
    finally:
        reader.close()


def _live_reader(store: Path, held: StoreHeldError) -> LiveReader:
    """Return a reader over the API of the process that keeps a store; without one, what the store said is the error."""
    from gapwatch.sinks.api.client import LiveReader

    note = read_note(store)
    if note is None:
        raise held
    return LiveReader(note)


def user_name() -> str | None:
    """Return who runs this process, where that has a name."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container without a user of that number
        return None
