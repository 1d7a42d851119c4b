"""`gapwatch ack`, `silence`, `accept` and `answer`: decisions of people on alerts and questions.

A decision is written into the store directly, or sent to the process that holds the store.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from gapwatch.sinks.api.store_address import StorePlace
from gapwatch.sinks.commands.options import WAITS, decide_on, store_option

if TYPE_CHECKING:
    from gapwatch.sinks.store.store import Store

_by_option = click.option("--by", required=True, metavar="NAME", help="Your name, stored with the decision.")
_why_option = click.option("--why", default="", metavar="TEXT", help="Reason, for later readers.")
_alert_argument = click.argument("alert", metavar="ALERT")

# The engine is loaded inside the commands: --help must not wait for it.


@click.command("ack")
@_alert_argument
@store_option
@_by_option
@_why_option
def ack_command(alert: str, store: StorePlace, by: str, why: str) -> None:
    """Acknowledge ALERT, an incident or an alert of it: you work on the incident.

    It stays open, and nobody else is called, also where further metrics join it, unless it grows into a page.
    """
    _decide(store, "ack", {"alert": alert, "by": by, "why": why})


@click.command("silence")
@_alert_argument
@store_option
@click.option("--for", "duration", required=True, metavar="TIME", help="Length of the silence: 90m, 8h, 3d, 2w.")
@_by_option
@_why_option
def silence_command(alert: str, store: StorePlace, duration: str, by: str, why: str) -> None:
    """Silence ALERT, an incident or an alert of it, for a while.

    It stays open, and is sent again if it becomes a page.
    """
    _decide(store, "silence", {"alert": alert, "for": duration, "by": by, "why": why})


@click.command("accept")
@_alert_argument
@store_option
@_by_option
@_why_option
def accept_command(alert: str, store: StorePlace, by: str, why: str) -> None:
    """Accept the level since ALERT began as right: it becomes the new baseline.

    ALERT is an alert, or an incident for all of its series. The alert is closed. A change from the new level is a new
    alert, also a change back to the old level. A bound does not move: Gapwatch alerts again when it breaks after it has
    held in between. To move a bound, change the portfolio.
    """
    _decide(store, "accept", {"alert": alert, "by": by, "why": why})


@click.command("answer")
@click.argument("question", metavar="QUESTION")
@click.argument("value", metavar="VALUE")
@store_option
@_by_option
def answer_command(question: str, value: str, store: StorePlace, by: str) -> None:
    """Answer QUESTION of a portfolio: is a lower or a higher failure rate better, or neither?

    VALUE is lower, higher, neither, or one of the question's own options. Past shifts are relabelled by the answer,
    and from now on a shift in the bad direction may page. A later answer replaces this one.
    """
    _decide(store, "answer", {"question": question, "value": value, "by": by})


def _decide(store: StorePlace, action: str, asked: dict[str, Any]) -> None:
    from gapwatch.streams.alerting.triage.decision_reader import PATHS

    done = decide_on(
        store, lambda opened: _decide_offline(opened, action, asked), lambda reader: reader.decide(PATHS[action], asked)
    )
    click.echo(WAITS if done is None else done)


def _decide_offline(store: Store, action: str, asked: dict[str, Any]) -> str | None:
    from gapwatch.sinks.store.decisions import Decisions
    from gapwatch.streams.alerting.triage.decision_reader import OfflineWatches, read_decision

    watches = OfflineWatches(store)
    decisions = Decisions()
    applied = decisions.submit(read_decision(action, asked, watches))
    watches.open(action)
    decisions.apply(store)
    return applied.result()
