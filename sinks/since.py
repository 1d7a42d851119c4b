"""Reads `--since`: a span of time before now, or a moment."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from scorers.errors import UsageError

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_SPAN = re.compile(r"([0-9]{1,6}(?:\.[0-9]{1,3})?)([smhdw])")


def parse_since(text: str, now: datetime, option: str = "--since") -> datetime:
    """Return the moment, naive and in UTC.

    Args:
        text: `90s`, `15m`, `2h`, `7d`, `1w` before now; or ISO 8601, UTC unless it says otherwise.
        now: With a time zone.
        option: As messages name it.

    Raises:
        UsageError: It is neither.
    """
    if match := _SPAN.fullmatch(text):
        try:
            return (now - timedelta(**{_UNITS[match[2]]: float(match[1])})).astimezone(UTC).replace(tzinfo=None)
        except OverflowError:
            return datetime.min
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(
            f"{option} {text!r} is no time; write 15m, 2h, 7d, or 2026-11-21 or 2026-11-21T10:00Z (UTC)"
        ) from None
    return moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment
