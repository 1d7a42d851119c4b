"""`gapwatch override`: a person's word on a row, beside the judge's, which stays."""

from __future__ import annotations

import getpass
import secrets
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sinks.command_options import store_option

if TYPE_CHECKING:
    from sinks.store import Store


@click.command("override")
@click.argument("row", metavar="ROW")
@store_option
@click.option(
    "--outcome", required=True, type=click.Choice(["pass", "warn", "fail", "skip", "unknown"]),
    help="What it is, in your judgement.",
)  # fmt: skip
@click.option("--score", type=float, default=None, metavar="N", help="On the scale of the metric.")
@click.option("--label", default=None, metavar="WORD", help="Word of the scale, or label.")
@click.option("--why", required=True, metavar="TEXT", help="What speaks for it; part of the record.")
@click.option("--by", default=None, metavar="NAME", help="Who says so. Default: the user of this process.")
def override_command(
    row: str, store: Path, outcome: str, score: float | None, label: str | None, why: str, by: str | None
) -> None:
    """Record a person's verdict on ROW: topic/partition/offset/span/metric, and /judge where there are several.

    Nothing is changed: the row stays, earlier overrides stay, and the view `verdicts` shows the last word.
    """
    # Imported here: --help answers without loading the engine.
    from sinks.store import Store

    if not why.strip():
        raise click.UsageError("--why is empty; say what speaks for your verdict")
    if score is not None and not -1e308 < score < 1e308:
        raise click.UsageError("--score is no finite number")
    with Store.open(store) as opened:
        name = override(opened, row, outcome, score, label, why, by or getpass.getuser(), datetime.now(UTC))
    click.echo(f"{name}: {outcome}")


def override(
    store: Store, place: str, outcome: str, score: float | None, label: str | None, why: str, by: str, at: datetime
) -> str:
    """Record one override.

    Args:
        store: Open for keeping.
        place: Of the row.
        outcome: A person's.
        score: On the scale of the metric; None: none given.
        label: Word of the scale; None: none given.
        why: In words.
        by: Who.
        at: Now, with a time zone.

    Returns:
        The place of the row, in full.

    Raises:
        UsageError: There is no such row.
    """
    from sinks.row_place import find_row, place_of

    cursor = store.cursor()
    try:
        row = find_row(cursor, place)
    finally:
        cursor.close()
    names = (
        "lane", "source_topic", "source_partition", "source_offset", "span_index", "metric", "metric_version", "judge",
    )  # fmt: skip
    stamp = at.astimezone(UTC).replace(tzinfo=None)
    values = [secrets.token_hex(16), *(row[n] for n in names), outcome, score, label, why, by, stamp]
    store.transact(
        "recording an override",
        lambda con: con.execute(f"INSERT INTO overrides VALUES ({', '.join('?' * len(values))})", values),
    )
    return place_of(row)
