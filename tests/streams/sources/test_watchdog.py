"""The watchdog ends what stands still while it should move, and nothing else."""

import threading

from gapwatch.streams.sources.watchdog import StallJudge, Watchdog, WorkProgress


def look(value, is_busy=True, limit=5.0):
    return [WorkProgress("work", value, is_busy, limit)]


def judge_all(steps, passed=1.0):
    judge = StallJudge()
    return [judge.judge(step, passed) for step in steps]


def test_what_moves_is_left_alone():
    assert judge_all([look(n) for n in range(20)]) == [None] * 20


def test_what_stands_still_while_busy_is_named():
    *before, last = judge_all([look(7)] * 7)

    assert before == [None] * 6
    assert last == "work: no progress for 6 s at 7"


def test_what_is_idle_may_stand_still():
    assert judge_all([look(7, is_busy=False)] * 20) == [None] * 20


def test_idleness_begins_the_count_anew():
    steps = ([look(7)] * 5 + [look(7, is_busy=False)]) * 4

    assert judge_all(steps) == [None] * 24


def test_the_time_in_which_the_process_itself_stood_still_does_not_count():
    judge = StallJudge()
    assert [judge.judge(look(7), passed) for passed in (1.0, 3600.0, 1.0)] == [None] * 3


def test_what_is_gone_is_forgotten():
    judge = StallJudge()
    for _ in range(5):
        judge.judge(look(7), 1.0)
    judge.judge([], 1.0)

    assert judge.judge(look(7), 1.0) is None


def test_several_are_told_apart():
    judge = StallJudge()
    stuck = None
    for n in range(10):
        stuck = stuck or judge.judge([*look(n), WorkProgress("other", 0, True, 5.0)], 1.0)

    assert stuck == "other: no progress for 6 s at 0"


def test_the_thread_reports_a_stall_once_and_ends():
    told = []
    found = threading.Event()

    def on_stall(why):
        told.append(why)
        found.set()

    watchdog = Watchdog(lambda: look(0, limit=1.5), on_stall)
    watchdog.start()

    assert found.wait(20)
    watchdog.join(5)
    assert len(told) == 1
    assert not watchdog.is_alive()


def test_a_look_that_fails_for_long_is_a_stall():
    judge_steps = []

    def failing():
        judge_steps.append(1)
        raise RuntimeError("changed size during iteration")

    watchdog = Watchdog(failing, lambda why: None)
    watchdog.start()
    watchdog.join(2.5)

    assert judge_steps
    assert watchdog.is_alive()  # a few failures are none
    watchdog.stop()
    watchdog.join(5)
    assert not watchdog.is_alive()
