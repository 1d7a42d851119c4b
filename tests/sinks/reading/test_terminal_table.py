from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from gapwatch.sinks.reading.terminal_table import CELL_LIMIT, cell_text, share_text


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (None, "-"),
        (0.0, "0%"),
        (1.0, "100%"),
        (0.5, "50.0%"),
        (0.0123, "1.23%"),
        (0.0012345, "0.12%"),
        (0.00012345, "0.012%"),
        (0.0000005, "0.000050%"),
        (0.99999, "99.9%"),
        (0.0999, "9.99%"),
    ],
)
def test_a_share_is_never_shown_as_none_or_all_where_it_is_not(share: float | None, text: str) -> None:
    assert share_text(share) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (3.0, "3"),
        (0.1234567, "0.123457"),
        (float("nan"), "nan"),
        (12_000_000, "12000000"),
        (True, "true"),
        (b"\x00\xff", "00ff"),
        (datetime(2026, 3, 22, 12), "2026-03-22 12:00:00Z"),
        (datetime(2026, 3, 22, 12, 0, 0, 1999), "2026-03-22 12:00:00.001Z"),
        (timedelta(seconds=90), "0:01:30"),
        ("a\nb\x1b", "a\\nb\\x1b"),
        ("x" * 1000, "x" * CELL_LIMIT + "..."),
        ({"a": 1}, "{'a': 1}"),
    ],
)
def test_a_cell_is_one_short_line_that_a_terminal_can_show(value: object, text: str) -> None:
    assert cell_text(value) == text
