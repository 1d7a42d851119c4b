"""`gapwatch override`: stores a person's outcome for a row, beside the scored one, which stays."""

from __future__ import annotations

from datetime import UTC, datetime

import click

from gapwatch.sinks.api.store_address import StorePlace
from gapwatch.sinks.commands.options import decide_on, store_option, user_name


@click.command("override")
@click.argument("row", metavar="ROW")
@store_option
@click.option(
    "--outcome", required=True, type=click.Choice(["pass", "warn", "fail", "skip", "unknown"]),
    help="Your outcome for the row.",
)  # fmt: skip
@click.option("--score", type=float, default=None, metavar="N", help="Your score, on the scale of the metric.")
@click.option("--label", default=None, metavar="WORD", help="Word of the scale, or label.")
@click.option("--why", required=True, metavar="TEXT", help="Reason for your outcome; it is stored with it.")
@click.option("--by", default=None, metavar="NAME", help="Your name. Default: your user name.")
def override_command(
    row: str, store: StorePlace, outcome: str, score: float | None, label: str | None, why: str, by: str | None
) -> None:
    """Override the outcome of ROW: topic/partition/offset/span/metric, and /judge if there are several judges.

    The row and earlier overrides stay in the store; the view `verdicts` shows the latest override. The store may be in
    use.
    """
    # Imported here: --help answers without loading DuckDB.
    from gapwatch.sinks.store.overrides import OVERRIDES_PATH, Override

    said = {"row": row, "outcome": outcome, "why": why, "score": score, "label": label, "by": by or user_name()}
    override = Override.read(said)  # report a bad override before the store is opened
    name = decide_on(
        store,
        lambda opened: override.apply(opened, datetime.now(UTC)),
        lambda reader: str(reader.post(OVERRIDES_PATH, said)["row"]),
    )
    click.echo(f"{name}: {outcome}")
