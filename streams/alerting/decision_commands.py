"""What people say to an alert: `gapwatch ack`, `silence` and `accept`, on a store that no process holds."""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import click
import duckdb

from scorers.errors import UsageError
from scorers.tables import SERIES
from sinks.answer_table import moment_text
from sinks.command_options import reading, store_option
from sinks.store import Store
from streams.alerting.alert_reading import Alert, find_alert
from streams.alerting.shift_watch import ShiftWatch

Command = TypeVar("Command", bound=Callable[..., Any])
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}

_by_option = click.option("--by", required=True, metavar="NAME", help="Who says it; stands beside it for ever.")
_why_option = click.option("--why", default="", metavar="TEXT", help="Why, for those who read it later.")
_alert_argument = click.argument("alert", metavar="ALERT")


@click.command("ack")
@_alert_argument
@store_option
@_by_option
@_why_option
def ack_command(alert: str, store: Path, by: str, why: str) -> None:
    """Say that somebody looks at ALERT: it stays open, and asks for nobody else."""
    found = _open_alert(store, alert)
    _record(store, found, "acknowledged", by, why)
    _say(found, "acknowledged", by)


@click.command("silence")
@_alert_argument
@store_option
@click.option("--for", "duration", required=True, metavar="TIME", help="How long: 90m, 8h, 3d, 2w.")
@_by_option
@_why_option
def silence_command(alert: str, store: Path, duration: str, by: str, why: str) -> None:
    """Keep ALERT quiet for a while. It stays open, and is told again if it grows into a page."""
    until = datetime.now(UTC).replace(tzinfo=None) + _duration(duration)
    found = _open_alert(store, alert)
    _record(store, found, "silenced", by, f"until {moment_text(until, 'seconds')}" + (f": {why}" if why else ""))
    _say(found, f"silenced until {moment_text(until, 'seconds')}", by)


@click.command("accept")
@_alert_argument
@store_option
@_by_option
@_why_option
def accept_command(alert: str, store: Path, by: str, why: str) -> None:
    """Say that the pipeline is right as it is since ALERT began: what came since becomes the baseline.

    The alert is closed. A change from the new level, back to the old one included, is a new alert.
    """
    found = _open_alert(store, alert)
    with Store.open(store) as opened:
        watch = ShiftWatch.open(opened, None, found.row["lane"])
        try:
            watch.accept(opened, found.row["alert_id"], by, why)
        except KeyError:
            raise UsageError(f"alert {found.row['alert_id']} is not open in the detectors of this store") from None
    _say(found, "accepted as the new normal", by)


def _open_alert(store: Path, wanted: str) -> Alert:
    with reading(store) as con:
        found = find_alert(con, wanted)
    if not found.is_open:
        raise UsageError(f"alert {found.row['alert_id']} is {found.row['state']}; only an open one can be answered")
    return found


def _record(store: Path, alert: Alert, state: str, by: str, why: str) -> None:
    row = alert.row
    now = datetime.now(UTC).replace(tzinfo=None)
    series = [row[name] for name, _ in SERIES]
    head = [row["alert_id"], row["shift_id"], *series, state, row["severity"], now, by, why, row["group_id"], None]

    def write(con: duckdb.DuckDBPyConnection, seq: int) -> None:
        con.execute(f"INSERT INTO alerts VALUES (?, {', '.join('?' * len(head))})", [seq, *head])

    with Store.open(store) as opened:
        opened.record("answering an alert", write)


def _say(alert: Alert, what: str, by: str) -> None:
    sys.stdout.write(f"{alert.row['alert_id']} {alert.row['metric']}: {what} by {by}\n")


def _duration(text: str) -> timedelta:
    number, unit = text[:-1], text[-1:]
    if not (number.isascii() and number.isdigit()) or unit not in _UNITS or not 0 < int(number) < 10_000:
        raise UsageError(f"--for {text!r}: a number and m, h, d or w is expected, such as 8h")
    return timedelta(**{_UNITS[unit]: int(number)})
