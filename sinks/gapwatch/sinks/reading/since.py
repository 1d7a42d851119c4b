"""Reads `--since`: a span of time before now, or a moment."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from gapwatch.scorers.errors import UsageError

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_SPAN = re.compile(r"([0-9]{1,6}(?:\.[0-9]{1,3})?)([smhdw])")


def parse_span(text: str) -> timedelta | None:
    """Return how long `90s`, `15m`, `2h`, `7d` or `1w` are; None where the text is none of these."""
    match = _SPAN.fullmatch(text)
    return timedelta(**{_UNITS[match[2]]: float(match[1])}) if match else None


def parse_positive_span(text: str, option: str) -> timedelta:
    """Return a span of time that is not 0.

    Args:
        text: A number with `s`, `m`, `h`, `d` or `w`.
        option: As messages name it.

    Raises:
        UsageError: It is none.
    """
    span = parse_span(text)
    if not span:
        raise UsageError(f"{option} {text!r} is no span of time; write 30d, 12h or 10m")
    return span


def parse_since(text: str, now: datetime, option: str = "--since") -> datetime:
    """Return the moment, naive and in UTC.

    Args:
        text: `90s`, `15m`, `2h`, `7d`, `1w` before now; or ISO 8601, UTC unless it says otherwise.
        now: With a time zone.
        option: As messages name it.

    Raises:
        UsageError: It is neither.
    """
    if (span := parse_span(text)) is not None:
        try:
            return (now - span).astimezone(UTC).replace(tzinfo=None)
        except OverflowError:
            return datetime.min
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(
            f"{option} {text!r} is no time; write 15m, 2h, 7d, or 2026-11-21 or 2026-11-21T10:00Z (UTC)"
        ) from None
    return moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment
