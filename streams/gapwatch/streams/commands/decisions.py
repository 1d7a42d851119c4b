"""What people say to alerts and questions: `gapwatch ack`, `silence`, `accept`, `answer`.

Into a store at rest, or through the process that keeps it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gapwatch.sinks.commands.options import WAITS, decide_on, store_option

if TYPE_CHECKING:
    from gapwatch.sinks.store.store import Store

_by_option = click.option("--by", required=True, metavar="NAME", help="Who says it; stands beside it for ever.")
_why_option = click.option("--why", default="", metavar="TEXT", help="Why, for those who read it later.")
_alert_argument = click.argument("alert", metavar="ALERT")

# The engine is loaded inside the commands: --help must not wait for it.


@click.command("ack")
@_alert_argument
@store_option
@_by_option
@_why_option
def ack_command(alert: str, store: Path, by: str, why: str) -> None:
    """Say that somebody looks at ALERT: it stays open, and asks for nobody else."""
    _decide(store, "ack", {"alert": alert, "by": by, "why": why})


@click.command("silence")
@_alert_argument
@store_option
@click.option("--for", "duration", required=True, metavar="TIME", help="How long: 90m, 8h, 3d, 2w.")
@_by_option
@_why_option
def silence_command(alert: str, store: Path, duration: str, by: str, why: str) -> None:
    """Say that ALERT shall be quiet for a while. It stays open, and is told again if it grows into a page."""
    _decide(store, "silence", {"alert": alert, "for": duration, "by": by, "why": why})


@click.command("accept")
@_alert_argument
@store_option
@_by_option
@_why_option
def accept_command(alert: str, store: Path, by: str, why: str) -> None:
    """Say that the pipeline is right as it is since ALERT began: what came since becomes the baseline.

    The alert is closed. A change from the new level, back to the old one included, is a new alert. A bound does not
    move: it is told again after it was kept in between; to move it, change the portfolio.
    """
    _decide(store, "accept", {"alert": alert, "by": by, "why": why})


@click.command("answer")
@click.argument("question", metavar="QUESTION")
@click.argument("value", metavar="VALUE")
@store_option
@_by_option
def answer_command(question: str, value: str, store: Path, by: str) -> None:
    """Answer QUESTION of a portfolio: is a lower or a higher failure rate better, or neither?

    VALUE is lower, higher, neither, or one of the question's own options. What was reported before is told anew by it,
    and from now on a shift the bad way is a CASCADE. A later answer takes the place of this one.
    """
    _decide(store, "answer", {"question": question, "value": value, "by": by})


def _decide(store: Path, action: str, asked: dict[str, Any]) -> None:
    from gapwatch.streams.alerting.triage.decision_reader import PATHS

    said = decide_on(
        store, lambda kept: _at_rest(kept, action, asked), lambda reader: reader.decide(PATHS[action], asked)
    )
    click.echo(WAITS if said is None else said)


def _at_rest(kept: Store, action: str, asked: dict[str, Any]) -> str | None:
    from gapwatch.sinks.store.decisions import Decisions
    from gapwatch.streams.alerting.triage.decision_reader import OfflineWatches, read_decision

    watches = OfflineWatches(kept)
    decisions = Decisions()
    applied = decisions.submit(read_decision(action, asked, watches))
    watches.open(action)
    decisions.apply(kept)
    return applied.result()
