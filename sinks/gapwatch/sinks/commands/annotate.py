"""`gapwatch annotate`: adds a note of an event outside Gapwatch, such as a deployment, shown beside the rates."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gapwatch.sinks.api.store_address import StorePlace
from gapwatch.sinks.commands.options import WAITS, decide_on, store_option, user_name
from gapwatch.sinks.reading.terminal_table import print_note

if TYPE_CHECKING:
    from gapwatch.sinks.store.store import Store


@click.command("annotate")
@click.argument("text", metavar="TEXT")
@store_option
@click.option("--pipeline", metavar="NAME", help="Pipeline that the note is about. Default: all.")
@click.option("--at", metavar="WHEN", help="Time of the event, ISO 8601 (UTC). Default: now.")
@click.option("--by", metavar="NAME", help="Author of the note. Default: your user name.")
def annotate_command(text: str, store: StorePlace, pipeline: str | None, at: str | None, by: str | None) -> None:
    """Add a note of an event, such as a deployment, to a store; the store may be in use.

    \b
    Example:
      gapwatch annotate 'deploy v12' --store airline.duckdb
    """  # noqa: D301 (click reads the escapes)
    # Imported here: --help answers without loading DuckDB.
    from gapwatch.sinks.store.decisions import Annotation, Decisions

    by = by or user_name()
    annotation = Annotation.read(text, pipeline, by, at)  # report a bad annotation before the store is opened

    def at_rest(opened: Store) -> str | None:
        decisions = Decisions()
        decisions.submit(annotation)
        decisions.apply(opened)
        return ""

    asked = {"text": text, "pipeline": pipeline, "by": by, "at": annotation.at.isoformat() + "Z"}
    said = decide_on(store, at_rest, lambda reader: reader.decide("/v1/annotations", asked))
    print_note(WAITS if said is None else "noted")
