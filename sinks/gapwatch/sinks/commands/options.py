"""Options that several commands share, and functions that open a store for them."""

from __future__ import annotations

import contextlib
import getpass
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from gapwatch.scorers.errors import StoreHeldError, UsageError
from gapwatch.sinks.api.endpoint_note import read_note
from gapwatch.sinks.api.store_address import StoreAddress, StorePlace, read_address
from gapwatch.sinks.export.delta_place import PREFIX, DeltaPlace, read_delta_place
from gapwatch.sinks.reading.since import parse_since
from gapwatch.sinks.reading.terminal_table import print_note

if TYPE_CHECKING:
    from gapwatch.sinks.api.client import LiveReader
    from gapwatch.sinks.store.store import Store
    from gapwatch.sinks.store.store_reader import StoreReader

Result = TypeVar("Result")
Function = TypeVar("Function", bound=Callable[..., Any])

#: Answer for a decision that is queued and not committed yet.
WAITS = "queued: it is stored with the next transaction of the process that writes the store"

#: Key of the context under which the type of --store finds the value of --token-file.
_PLACE = "gapwatch.token_file"


class _StoreType(click.ParamType):
    """Reads a value of --store: an address or exported tables if it begins as one, else the path of a file."""

    name = "store"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> StorePlace:
        if isinstance(value, str) and value.startswith(PREFIX):
            return read_delta_place(value.removeprefix(PREFIX))
        if not isinstance(value, str) or "://" not in value:
            return Path(value)
        return read_address(value, ctx.meta.get(_PLACE) if ctx is not None else None)


def _note_token_file(ctx: click.Context, _param: click.Parameter, value: Path | None) -> None:
    ctx.meta[_PLACE] = value


def store_option(command: Function, required: bool = True) -> Function:
    """Add --store and --token-file; the command takes the argument `store`, a `StorePlace`, or None if not required."""
    token_file: Callable[[Function], Function] = click.option(
        "--token-file", envvar="GAPWATCH_TOKEN_FILE", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
        is_eager=True, expose_value=False, callback=_note_token_file, show_envvar=True,
        help="With an address: file whose first line is the token. The variable GAPWATCH_TOKEN may hold it instead.",
    )  # fmt: skip
    store: Callable[[Function], Function] = click.option(
        "--store", required=required, envvar="GAPWATCH_STORE", type=_StoreType(), metavar="S", show_envvar=True,
        help="DuckDB file of the store, or address of the process that writes it: http://HOST:9464. Commands that only "
        "query tables also read exports: delta:DIR.",
    )  # fmt: skip
    return store(token_file(command))


component_option = click.option("--component", metavar="ID", help="Only this component. Default: all.")
metric_option = click.option("--metric", metavar="NAME", help="Only this metric. Default: all.")
lane_option = click.option(
    "--lane", metavar="LANE", help="Only this lane: live, file:..., backfill:..., eval:... Default: all."
)
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
def reading(store: StorePlace) -> Iterator[StoreReader]:
    """Open a store for reading, and close it afterwards. A store in use is read over the API of its process.

    Raises:
        StoreError: The file is missing or not a store, or another process holds it and does not answer.
        UsageError: The address does not answer, or refuses the token.
    """
    # Imported here: --help answers without loading DuckDB.
    from gapwatch.sinks.store.opening import open_for_reading

    con: StoreReader
    # A server may send valid Arrow with other columns than those that were asked for.
    understanding: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
    if isinstance(store, StoreAddress):
        con = distant = _distant_reader(store)
        understanding = distant.understanding()
    elif isinstance(store, DeltaPlace):
        from gapwatch.sinks.export.delta_reader import open_exported

        con = open_exported(store)
    else:
        try:
            con = open_for_reading(store)
        except StoreHeldError as held:
            con = _live_reader(store, held)
    try:
        with understanding:
            yield con
    finally:
        con.close()


def decide_on(store: StorePlace, at_rest: Callable[[Store], Result], live: Callable[[LiveReader], Result]) -> Result:
    """Change a store by `at_rest` if no process holds it, otherwise by `live` over the API of the process that does.

    Raises:
        StoreError: The file is missing or not a store, or another process holds it and does not answer.
        UsageError: The address does not answer, or refuses the token.
    """
    # Imported here: --help answers without loading DuckDB.
    from gapwatch.sinks.store.store import Store

    if isinstance(store, DeltaPlace):
        raise UsageError(f"{PREFIX}{store} is an export, which no command changes; give --store the store")
    if isinstance(store, StoreAddress):
        reader = _distant_reader(store)
    else:
        try:
            with Store.open(store) as opened:
                return at_rest(opened)
        except StoreHeldError as held:
            reader = _live_reader(store, held)
    try:
        return live(reader)
    finally:
        reader.close()


def store_of_alerts(store: StorePlace, command: str) -> StorePlace:
    """Return the place of a store, for a command on alerts: it needs the order of rows, which an export does not keep.

    Args:
        store: Value of --store.
        command: Name of the command, for the message.

    Raises:
        UsageError: The place is an export.
    """
    if isinstance(store, DeltaPlace):
        raise UsageError(
            f"gapwatch {command} needs the store itself, not an export: give --store the file or the address "
            f"of its run; an export answers: gapwatch history 'SELECT * FROM alerts_open' --store {PREFIX}{store}"
        )
    return store


def store_file(store: StorePlace, command: str) -> Path:
    """Return the path of a store, for a command that opens the file itself.

    Raises:
        UsageError: The place is an address.
    """
    if isinstance(store, DeltaPlace):
        raise UsageError(f"gapwatch {command} needs the store itself, not an export: give --store the file")
    if isinstance(store, StoreAddress):
        raise UsageError(f"gapwatch {command} opens the file of the store: give --store the file, not an address")
    return store


def _live_reader(store: Path, held: StoreHeldError) -> LiveReader:
    """Return a reader over the API of the process that holds a store.

    Raises:
        StoreHeldError: There is no API; the error that opening the store gave.
    """
    from gapwatch.sinks.api.client import LiveReader
    from gapwatch.sinks.api.connection import Endpoint

    note = read_note(store)
    if note is None:
        raise held
    return LiveReader(Endpoint.of_note(note))


def _distant_reader(address: StoreAddress) -> LiveReader:
    """Return a reader over the API at an address.

    Raises:
        UsageError: A token cannot be read, or the address is not of Gapwatch.
    """
    from gapwatch.sinks.api.client import LiveReader
    from gapwatch.sinks.api.connection import Endpoint

    endpoint = Endpoint.of_address(address)
    if not (address.is_local or address.is_encrypted) and (endpoint.read_token.text or endpoint.write_token.text):
        print_note(f"warning: the token goes unencrypted to {address}; use https, or a tunnel of SSH")
    return LiveReader(endpoint)


def user_name() -> str | None:
    """Return the name of the user of this process; None if there is none."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container without an entry for the user id
        return None
