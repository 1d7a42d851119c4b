"""`gapwatch annotate`: note what happened outside, to be seen beside the rates."""

from __future__ import annotations

import getpass
from pathlib import Path

import click

from scorers.errors import StoreHeldError
from sinks.answer_table import print_note
from sinks.api_file import read_note
from sinks.command_options import store_option


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
    from sinks.decisions import Annotation, Decisions
    from sinks.live_reader import LiveReader
    from sinks.store import Store

    by = by or _user()
    annotation = Annotation.read(text, pipeline, by, at)  # what is wrong with it is said before a store is looked for
    try:
        with Store.open(store) as kept:
            decisions = Decisions()
            decisions.submit(annotation)
            decisions.apply(kept)
        print_note("noted")
        return
    except StoreHeldError:
        note = read_note(store)
        if note is None:
            raise
    reader = LiveReader(note)
    try:
        done = reader.annotate(text, pipeline, by, annotation.at.isoformat() + "Z")
        print_note("noted" if done else "it waits for the next transaction of the process that keeps the store")
    finally:
        reader.close()


def _user() -> str | None:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container without a user of that number
        return None
