"""Parses `--since`: a span of time before now, or a point in time."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from gapwatch.scorers.errors import UsageError

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_SPAN = re.compile(r"([0-9]{1,6}(?:\.[0-9]{1,3})?)([smhdw])")


def parse_span(text: str) -> timedelta | None:
    """Return the duration of a text such as `90s`, `15m`, `2h`, `7d` or `1w`; None for any other text."""
    match = _SPAN.fullmatch(text)
    return timedelta(**{_UNITS[match[2]]: float(match[1])}) if match else None


def parse_positive_span(text: str, option: str) -> timedelta:
    """Return a duration above 0.

    Args:
        text: A number with `s`, `m`, `h`, `d` or `w`.
        option: Name of the option in error messages.

    Raises:
        UsageError: The text is not a duration above 0.
    """
    span = parse_span(text)
    if not span:
        raise UsageError(f"{option} {text!r} is not a span of time; write 30d, 12h or 10m")
    return span


def parse_since(text: str, now: datetime, option: str = "--since") -> datetime:
    """Return the point in time, naive UTC.

    Args:
        text: `90s`, `15m`, `2h`, `7d` or `1w` before now; or ISO 8601, UTC unless it has an offset.
        now: Current time, with a time zone.
        option: Name of the option in error messages.

    Raises:
        UsageError: The text is neither.
    """
    if (span := parse_span(text)) is not None:
        try:
            return (now - span).astimezone(UTC).replace(tzinfo=None)
        except OverflowError:
            return datetime.min
    try:
        moment = datetime.fromisoformat(text)
        return moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment
    except OverflowError:
        raise UsageError(f"{option} {text!r} is before year 1 or after year 9999 in UTC") from None
    except ValueError:
        raise UsageError(
            f"{option} {text!r} is not a time; write 15m, 2h, 7d, or 2026-11-21 or 2026-11-21T10:00Z (UTC)"
        ) from None
