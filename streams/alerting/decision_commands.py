"""What people say to an alert: `gapwatch ack`, `silence` and `accept`, on a store that no process holds."""

from __future__ import annotations

from pathlib import Path

import click

from sinks.command_options import store_option

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
    from streams.alerting.decisions import acknowledge

    click.echo(acknowledge(store, alert, by, why))


@click.command("silence")
@_alert_argument
@store_option
@click.option("--for", "duration", required=True, metavar="TIME", help="How long: 90m, 8h, 3d, 2w.")
@_by_option
@_why_option
def silence_command(alert: str, store: Path, duration: str, by: str, why: str) -> None:
    """Say that ALERT shall be quiet for a while. It stays open, and is told again if it grows into a page."""
    from streams.alerting.decisions import silence

    click.echo(silence(store, alert, duration, by, why))


@click.command("accept")
@_alert_argument
@store_option
@_by_option
@_why_option
def accept_command(alert: str, store: Path, by: str, why: str) -> None:
    """Say that the pipeline is right as it is since ALERT began: what came since becomes the baseline.

    The alert is closed. A change from the new level, back to the old one included, is a new alert.
    """
    from streams.alerting.decisions import accept_level

    click.echo(accept_level(store, alert, by, why))
