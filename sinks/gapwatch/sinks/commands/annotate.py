"""`gapwatch annotate`: note what happened outside, to be seen beside the rates."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from gapwatch.sinks.commands.options import WAITS, decide_on, store_option, user_name
from gapwatch.sinks.reading.terminal_table import print_note

if TYPE_CHECKING:
    from gapwatch.sinks.store.store import Store


@click.command("annotate")
@click.argument("text", metavar="TEXT")
@store_option
@click.option("--pipeline", metavar="NAME", help="The pipeline that it is about. Default: all.")
@click.option("--at", metavar="WHEN", help="When it happened, ISO 8601 (UTC). Default: now.")
@click.option("--by", metavar="NAME", help="Who says so. Default: the user's name.")
def annotate_command(text: str, store: Path, pipeline: str | None, at: str | None, by: str | None) -> None:
    """Note in a store that something happened, such as a deployment; the store may be in use.

    \b
    Example:
      gapwatch annotate 'deploy v12' --store airline.duckdb
    """  # noqa: D301 (click reads the escapes)
    # Imported here: --help answers without loading the engine.
    from gapwatch.sinks.store.decisions import Annotation, Decisions

    by = by or user_name()
    annotation = Annotation.read(text, pipeline, by, at)  # what is wrong with it is said before a store is looked for

    def at_rest(kept: Store) -> str | None:
        decisions = Decisions()
        decisions.submit(annotation)
        decisions.apply(kept)
        return ""

    asked = {"text": text, "pipeline": pipeline, "by": by, "at": annotation.at.isoformat() + "Z"}
    said = decide_on(store, at_rest, lambda reader: reader.decide("/v1/annotations", asked))
    print_note(WAITS if said is None else "noted")
