"""`gapwatch feedback`: stores what people say of traces, from files of JSON lines."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gapwatch.sinks.api.store_address import StorePlace
from gapwatch.sinks.commands.options import decide_on, store_option

if TYPE_CHECKING:
    from gapwatch.sinks.feedback.feedback import Feedback
    from gapwatch.sinks.store.store import Store

#: Feedback of one transaction, and of one request.
_AT_ONCE = 1_000


@click.command("feedback")
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@store_option
def feedback_command(files: tuple[Path, ...], store: StorePlace) -> None:
    """Store the feedback in FILE, one JSON object a line, joined to its traces; the store may be in use.

    `trace_id` and `value` (up, down, true, false or a number) are required; `comment`, `user`, `pipeline`, `at` and
    `id` may follow. A line that is wrong is named, and nothing is stored. A second time adds nothing where lines have
    an `id`.
    """
    # Imported here: --help answers without loading DuckDB.
    from gapwatch.sinks.feedback.feedback_file import as_request, read_feedback_file
    from gapwatch.sinks.feedback.intake import FEEDBACK_PATH

    feedback = [one for file in files for one in read_feedback_file(file)]

    def at_rest(opened: Store) -> Counter[str]:
        from gapwatch.sinks.feedback.stored_intake import stored_intake

        intake = stored_intake(opened)
        return sum((Counter(intake.take(some, "file")) for some in _parts(feedback)), Counter[str]())

    def live(reader: Any) -> Counter[str]:
        states: Counter[str] = Counter()
        for some in _parts(feedback):
            states.update(reader.post(FEEDBACK_PATH, {"feedback": [as_request(one) for one in some]})["states"])
        return states

    states = decide_on(store, at_rest, live)
    sys.stdout.write(
        f"{len(feedback):,} read: {states['joined']:,} joined to a trace, {states['pending']:,} wait for theirs, "
        f"{states['duplicate']:,} were there already\n"
    )


def _parts(feedback: list[Feedback]) -> Iterator[list[Feedback]]:
    left = iter(feedback)
    while some := list(islice(left, _AT_ONCE)):
        yield some
