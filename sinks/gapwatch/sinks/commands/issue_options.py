"""Parts that commands on issues share: writing of records, and the author."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from gapwatch.sinks.api.store_address import StorePlace
from gapwatch.sinks.commands.options import decide_on, user_name

Command = TypeVar("Command", bound=Callable[..., Any])

#: About the most bytes of one request with records; the API takes 1 MiB.
_REQUEST_BYTES = 600_000


def by_option(command: Command) -> Command:
    """Add the option --by."""
    return click.option("--by", default=None, metavar="NAME", help="Your name. Default: your user name.")(command)


def author(by: str | None) -> str:
    """Return the name of the author of a record."""
    return by or user_name() or ""


def make_store(store: StorePlace) -> None:
    """Create the file of a store that does not exist, so that tests need no monitored pipeline."""
    from gapwatch.sinks.store.store import Store

    if isinstance(store, Path) and not store.exists():
        Store.open(store, create=True).close()


def append_records(store: StorePlace, rows: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
    """Append records to a store, which may be in use.

    Raises:
        UsageError: A record is wrong.
        StoreError: The store cannot be opened, and no process answers for it.
    """
    import orjson

    from gapwatch.sinks.issues.records import RECORD_LIMIT, RECORDS_PATH, IssueRecords

    def at_rest(opened: Any) -> None:
        for part in parts(RECORD_LIMIT, float("inf")):
            IssueRecords.read(part).at_rest(opened)

    def live(reader: Any) -> None:
        for part in parts(RECORD_LIMIT, _REQUEST_BYTES):
            reader.decide(RECORDS_PATH, part)

    def parts(most: int, bytes_: float) -> Any:
        part: dict[str, list[Mapping[str, Any]]] = {}
        count, size = 0, 0
        for table, some in rows.items():
            for row in some:
                weight = len(orjson.dumps(row))
                if count and (count >= most or size + weight > bytes_):
                    yield part
                    part, count, size = {}, 0, 0
                part.setdefault(table, []).append(row)
                count, size = count + 1, size + weight
        if count:
            yield part

    decide_on(store, at_rest, live)
