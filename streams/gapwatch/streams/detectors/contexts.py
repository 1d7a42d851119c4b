"""Hours that share a baseline: hour of the week, and in the first weeks hour of the day by weekday or weekend."""

from __future__ import annotations

import datetime
import zoneinfo

DAYS, HOURS = 7, 168
TICK_SECONDS = 30
TICKS_AN_HOUR = 120
TICKS_A_DAY = 2880
TICKS_TO_A_WEEK_BASELINE = 4 * 7 * TICKS_A_DAY


def tick_start(tick: int) -> datetime.datetime:
    """Return the begin of a tick, naive UTC; `tick` is seconds since the epoch over 30."""
    return datetime.datetime.fromtimestamp(tick * TICK_SECONDS, datetime.UTC).replace(tzinfo=None)


def hour_of_week(bucket: int, time_zone: str) -> int:
    """Return the hour of the week of a tick in local time, 0 (Monday, midnight) to 167.

    Args:
        bucket: Number of the tick: seconds since the epoch, UTC, over 30.
        time_zone: IANA name, as in a portfolio.

    Daylight saving moves the pattern with the local time: an hour that occurs twice has one baseline.
    """
    at = datetime.datetime.fromtimestamp(bucket * TICK_SECONDS, zoneinfo.ZoneInfo(time_zone))
    return at.weekday() * 24 + at.hour


def day_group(hour: int) -> tuple[int, ...]:
    """Return the hours of the week with the same hour of the day, of weekdays or of the weekend."""
    days = range(5) if hour < 120 else range(5, 7)
    return tuple(day * 24 + hour % 24 for day in days)


def ticks_to_a_known_hour(hour: int) -> int:
    """Return the age, in ticks, from which a series has certainly seen this hour's group on two earlier days.

    Wednesday to Friday look back two days, Monday and Tuesday four (over a weekend), Saturday and Sunday seven.
    """
    day = hour // 24
    days = {0: 4, 1: 4, 5: 7, 6: 7}.get(day, 2)
    return days * TICKS_A_DAY + TICKS_AN_HOUR
