from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from gapwatch.scorers.errors import UsageError
from gapwatch.sinks.reading.since import parse_positive_span, parse_since

NOW = datetime(2026, 11, 21, 14, 0, tzinfo=timezone(timedelta(hours=2)))


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("90s", datetime(2026, 11, 21, 11, 58, 30)),
        ("15m", datetime(2026, 11, 21, 11, 45)),
        ("2h", datetime(2026, 11, 21, 10, 0)),
        ("1.5h", datetime(2026, 11, 21, 10, 30)),
        ("7d", datetime(2026, 11, 14, 12, 0)),
        ("1w", datetime(2026, 11, 14, 12, 0)),
        ("0s", datetime(2026, 11, 21, 12, 0)),
        ("999999w", datetime.min),
        ("2026-11-20", datetime(2026, 11, 20)),
        ("2026-11-20T10:00Z", datetime(2026, 11, 20, 10)),
        ("2026-11-20 10:00:00.5+02:00", datetime(2026, 11, 20, 8, 0, 0, 500_000)),
    ],
)
def test_a_span_or_a_moment_is_read(text: str, moment: datetime) -> None:
    assert parse_since(text, NOW) == moment
    assert parse_since(text, NOW.astimezone(UTC)) == moment


@pytest.mark.parametrize("text", ["", "h", "2", "2 h", "-2h", "2y", "yesterday", "2026-13-01", "1e3h", "2h30m", "٣h"])
def test_anything_else_is_refused_with_examples(text: str) -> None:
    with pytest.raises(UsageError, match="write 15m, 2h, 7d"):
        parse_since(text, NOW)


@pytest.mark.parametrize("text", ["", "30", "d", "0d", "-1d", "2026-01-01", "1y"])
def test_what_is_no_span_is_refused_where_one_is_wanted(text: str) -> None:
    with pytest.raises(UsageError, match=r"--keep .* is not a span of time; write 30d"):
        parse_positive_span(text, "--keep")


def test_a_span_is_read() -> None:
    assert parse_positive_span("30d", "--keep") == timedelta(days=30)
    assert parse_positive_span("1.5h", "--keep") == timedelta(minutes=90)
