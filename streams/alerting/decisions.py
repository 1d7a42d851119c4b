"""What a person says to an alert, written into a store that no process holds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from scorers.errors import UsageError
from scorers.problem_list import shown
from scorers.tables import SERIES
from sinks.answer_table import moment_text
from sinks.command_options import reading
from sinks.keeping import Connection
from sinks.store import Store
from streams.alerting.alert_reading import Alert, find_alert
from streams.alerting.shift_watch import ShiftWatch

_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def acknowledge(store: Path, wanted: str, by: str, why: str) -> str:
    """Record that somebody looks at an alert; return a line that says so.

    Raises:
        UsageError: No such alert, several, or a closed one.
        StoreError: The store is missing, none, or held by another process.
    """
    found = _open_alert(store, wanted)
    _record(store, found, "acknowledged", by, why)
    return _line(found, "acknowledged", by)


def silence(store: Path, wanted: str, duration: str, by: str, why: str) -> str:
    """Record that an alert shall be quiet for a while; return a line that says so.

    Raises:
        As `acknowledge`; a duration that is none.
    """
    until = moment_text(datetime.now(UTC) + _duration(duration), "seconds")
    found = _open_alert(store, wanted)
    _record(store, found, "silenced", by, f"until {until}" + (f": {why}" if why else ""))
    return _line(found, f"silenced until {until}", by)


def accept_level(store: Path, wanted: str, by: str, why: str) -> str:
    """Make what came since the alert began the baseline; return a line that says so.

    Raises:
        As `acknowledge`.
    """
    found = _open_alert(store, wanted)
    with Store.open(store) as opened:
        watch = ShiftWatch.open(opened, None, found.row["lane"])
        try:
            watch.accept(opened, found.row["alert_id"], by, why)
        except KeyError:
            raise UsageError(f"alert {found.row['alert_id']} is not open in the detectors of this store") from None
    return _line(found, "accepted as the new normal", by)


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

    def write(con: Connection, seq: int) -> None:
        con.execute(f"INSERT INTO alerts VALUES (?, {', '.join('?' * len(head))})", [seq, *head])

    with Store.open(store) as opened:
        opened.record("answering an alert", write)


def _line(alert: Alert, what: str, by: str) -> str:
    return f"{alert.row['alert_id']} {shown(alert.row['metric'])}: {what} by {shown(by)}"


def _duration(text: str) -> timedelta:
    number, unit = text[:-1], text[-1:]
    if not (number.isascii() and number.isdigit()) or unit not in _UNITS or not 0 < int(number) < 10_000:
        raise UsageError(f"--for {text!r}: a number and m, h, d or w is expected, such as 8h")
    return timedelta(**{_UNITS[unit]: int(number)})
