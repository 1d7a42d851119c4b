"""`gapwatch override`: a person's word on a row, beside the judge's, which stays."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import click

from gapwatch.sinks.commands.options import decide_on, store_option, user_name


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

    Nothing is changed: the row stays, earlier overrides stay, and the view `verdicts` shows the last word. The store
    may be in use.
    """
    # Imported here: --help answers without loading the engine.
    from gapwatch.sinks.store.overrides import OVERRIDES_PATH, Override

    said = {"row": row, "outcome": outcome, "why": why, "score": score, "label": label, "by": by or user_name()}
    override = Override.read(said)  # what is wrong with it is said before a store is looked for
    name = decide_on(
        store,
        lambda opened: override.apply(opened, datetime.now(UTC)),
        lambda reader: str(reader.post(OVERRIDES_PATH, said)["row"]),
    )
    click.echo(f"{name}: {outcome}")
