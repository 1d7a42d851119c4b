"""A change in sparse ticks begins with the window of five minutes in which its first units were counted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gapwatch.streams.alerting.evaluation.series_rows import _in_window
from gapwatch.streams.alerting.series.open_tick import WINDOW_TICKS, window_end
from gapwatch.streams.detectors.change import Change, rate_interval
from gapwatch.streams.detectors.lifecycle import Event
from gapwatch.streams.detectors.watch import Transition

END = int(window_end(1000))
RATE = rate_interval(4, 4)
CHANGE = Change(
    END, END, END, False, 0, "up", 1, (1,), 140.0, 4.0, RATE, RATE, RATE, 1.0, 1.0, previous_bucket=END - WINDOW_TICKS
)


def begin(change: Change, *, ends: bool = True) -> int:
    moved = _in_window(Transition(0, Event.PAGED, 0, 9.0, change), ends=ends).change
    assert moved is not None and moved.from_bucket <= moved.change_bucket <= moved.to_bucket
    return moved.change_bucket


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (CHANGE, END - WINDOW_TICKS + 1),
        (replace(CHANGE, previous_bucket=0), END - WINDOW_TICKS + 1),
        (replace(CHANGE, previous_bucket=END - 1), END),  # ticks with many units are folded one by one
        (replace(CHANGE, change_bucket=END - 3, from_bucket=END - 4), END - 3),
    ],
    ids=["sparse", "nothing before", "dense", "no end of a window"],
)
def test_the_change_begins_with_its_window(change: Change, expected: int) -> None:
    assert begin(change) == expected


def test_a_window_that_has_the_number_of_its_first_tick_begins_there() -> None:
    assert begin(CHANGE, ends=False) == END
