"""Times of strangers: which records' times are believed, and that one wrong clock moves no other record's time.

What an owner wants, by case:

| stream | wanted |
| --- | --- |
| records in order, or a little out of order | all times believed |
| one record of 2030, anywhere | it alone is left out |
| one record of 1970, anywhere | it alone is left out |
| one host an hour ahead, up to a third of the records | all records of that host are left out, and no others |
| all hosts an hour ahead | all times believed |
| an idle night, weekend or month | all times believed |
| few records, far apart | all times believed |
| a file that begins with a record of 2030 or of 1970 | it alone is left out |
| a record an hour late | believed: late data |
| a record a day late | left out |
| all records behind from now on (the clock was ahead and was set right) | believed again after 64 records |
| a file with its newest record first | all but the first 32 times believed, as late data |
| live: the first record after an idle night | believed at once |
| live: a record of tomorrow | left out |
| live: all hosts an hour ahead | believed after 32 records |
| the same records in other slices | the same, but for 32 records at most after each idle period that a slice ends in |
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapwatch.scorers.slices.event_clock import (
    AHEAD,
    BEHIND,
    BELIEVED,
    CONFIRMING,
    EventClock,
    IntArray,
    judge_times,
)

NOON = 1_774_180_800 // 30
Y2030, Y1970 = 1_900_000_000 // 30, 100
HOUR, DAY = 120, 2_880


def steady(count: int, first: int = NOON, step: int = 1, jitter: int = 3, seed: int = 0) -> IntArray:
    rng = np.random.default_rng(seed)
    return first + np.arange(count) * step + rng.integers(-jitter, jitter + 1, count)


def judged(buckets: IntArray, sizes: list[int] | None = None) -> list[int]:
    """Codes of a file that is read in slices of these sizes, over and over."""
    clock, codes, begin, turn = EventClock(), [], 0, 0
    sizes = sizes or [len(buckets)]
    while begin < len(buckets):
        end = begin + sizes[turn % len(sizes)]
        found, clock = judge_times(buckets[begin:end], clock, is_end=end >= len(buckets))
        codes += found.tolist()
        begin, turn = end, turn + 1
    return codes


def insert(buckets: IntArray, at: int, bucket: int) -> IntArray:
    return np.insert(buckets, at, bucket)


@pytest.mark.parametrize("at", [0, 1, 40, 199, 200])
@pytest.mark.parametrize(("stranger", "code"), [(Y2030, AHEAD), (Y1970, BEHIND)])
def test_one_record_of_another_year_is_left_out_alone(at: int, stranger: int, code: int) -> None:
    found = judged(insert(steady(200), at, stranger))

    assert [i for i, one in enumerate(found) if one != BELIEVED] == [at]
    assert found[at] == code


@given(
    st.integers(0, 300), st.sampled_from([Y2030, Y1970, NOON + 31 * DAY]), st.lists(st.integers(40, 200), min_size=1)
)
def test_strangers_are_left_out_in_whatever_slices_they_come(at: int, stranger: int, sizes: list[int]) -> None:
    found = judged(insert(steady(300), at, stranger), sizes)

    assert [i for i, one in enumerate(found) if one != BELIEVED] == [at]


@pytest.mark.parametrize("share", [0.02, 0.2, 1 / 3])
def test_one_host_an_hour_ahead_is_left_out_and_nothing_else(share: float) -> None:
    wrong = np.random.default_rng(7).random(20_000) < share
    buckets = steady(20_000) + np.where(wrong, HOUR, 0)
    for sizes in ([20_000], [4_000], [500, 37]):
        assert judged(buckets, sizes) == np.where(wrong, AHEAD, BELIEVED).tolist()


@pytest.mark.parametrize("idle", [HOUR, 14 * HOUR, 3 * DAY, 40 * DAY])
def test_an_idle_time_costs_nothing(idle: int) -> None:
    buckets = steady(400)
    buckets[200:] += idle

    assert set(judged(buckets)) == {BELIEVED}
    in_slices = judged(buckets, [100])
    assert set(in_slices) == {BELIEVED}


def test_an_idle_time_shortly_before_the_end_of_a_slice_costs_the_records_up_to_it() -> None:
    buckets = steady(400)
    buckets[195:] += DAY
    found = judged(buckets, [100])

    assert [i for i, one in enumerate(found) if one != BELIEVED] == [195, 196, 197, 198, 199]


@pytest.mark.parametrize("count", [1, 2, 3, 10, 31, 200])
@pytest.mark.parametrize("step", [1, HOUR, DAY, 20 * DAY])
def test_few_records_far_apart_are_all_believed(count: int, step: int) -> None:
    assert set(judged(steady(count, step=step, jitter=0))) == {BELIEVED}


def test_late_data_is_believed_and_a_day_late_is_not() -> None:
    found = judged(insert(insert(steady(600), 500, NOON + 500 - HOUR), 550, NOON + 549 - DAY))

    assert [(i, one) for i, one in enumerate(found) if one != BELIEVED] == [(550, BEHIND)]


def test_a_clock_that_was_ahead_and_is_set_right_is_believed_again() -> None:
    found = judged(np.concatenate([steady(300, NOON + DAY), steady(300, NOON)]))

    assert set(found) == {BELIEVED}
    in_slices = judged(np.concatenate([steady(300, NOON + DAY), steady(300, NOON)]), [310])
    assert in_slices == [BELIEVED] * 300 + [BEHIND] * 10 + [BELIEVED] * 290


def test_of_a_file_with_its_newest_record_first_all_but_the_first_records_are_believed() -> None:
    found = judged(steady(1_000, step=30)[::-1])

    assert {i for i, one in enumerate(found) if one != BELIEVED} <= set(range(CONFIRMING))


def test_live_a_record_of_the_present_is_believed_at_once_and_one_of_tomorrow_is_not() -> None:
    codes, clock = judge_times(np.array([NOON]), EventClock(NOON - DAY), now=NOON, is_end=True)
    assert (codes.tolist(), clock) == ([BELIEVED], EventClock(NOON))

    codes, after = judge_times(np.array([NOON + DAY]), clock, now=NOON, is_end=True)
    assert (codes.tolist(), after.newest) == ([AHEAD], NOON)
    codes, after = judge_times(np.array([NOON + 1]), after, now=NOON + 1, is_end=True)
    assert (codes.tolist(), after) == ([BELIEVED], EventClock(NOON + 1, had_wrong=True))


def test_live_a_pipeline_that_is_an_hour_ahead_is_believed_after_32_records() -> None:
    clock, codes = EventClock(), []
    for i in range(100):
        found, clock = judge_times(np.array([NOON + i + HOUR]), clock, now=NOON + i, is_end=True)
        codes += found.tolist()

    assert codes == [AHEAD] * (CONFIRMING - 1) + [BELIEVED] * (100 - CONFIRMING + 1)


@given(st.lists(st.integers(-300, 300), min_size=1, max_size=120), st.integers(0, 60))
def test_the_short_way_for_records_in_order_says_the_same(steps: list[int], first: int) -> None:
    """A first record in doubt makes the clock read one by one; it is contradicted at once and changes nothing else."""
    buckets = NOON + np.cumsum(np.array([max(step, -2) % 7 for step in steps])) - first
    short, after_short = judge_times(buckets, EventClock(NOON - 60))
    codes, after = judge_times(np.array([Y2030, NOON - 60, *buckets.tolist()]), EventClock(NOON - 60))

    assert (codes[2:].tolist(), after) == (short.tolist(), replace(after_short, had_wrong=True))
