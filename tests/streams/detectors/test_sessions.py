from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapwatch.streams.detectors.bets import rate_bets
from gapwatch.streams.detectors.evidence import mean_evidence
from gapwatch.streams.detectors.fleet import Fleet
from gapwatch.streams.detectors.sessions import (
    OpenSession,
    Pauses,
    SessionBook,
    session_increments,
    session_log_factors,
    shift_odds,
)
from gapwatch.streams.detectors.snapshot import restore, snapshot
from gapwatch.streams.detectors.watch import advance_phases
from tests.streams.detectors.builders import plain

CONFIG = plain(sessions=True)


@given(st.floats(0.01, 0.99), st.floats(0, 0.3), st.floats(0.1, 4.0), st.floats(0, 0.5), st.floats(0, 1))
def test_no_law_with_the_baseline_mean_pays(
    mean: float, variance: float, tilt: float, margin: float, spread: float
) -> None:
    """Two values around the mean, from nearly the same to 0 and 1; the factor is linear in y, so this is any law."""
    null = float(shift_odds(np.array(mean), margin))
    low, high = null * (1 - spread), null + (1 - null) * spread
    share = (null - low) / (high - low) if high > low else 1.0
    y = np.array([low, high])

    factors = np.exp(session_log_factors(y, np.full(2, mean), np.full(2, variance), tilt, margin))

    assert np.all(factors > 0)
    assert (1 - share) * factors[0] + share * factors[1] <= 1 + 1e-9


def test_both_ways_mirror_each_other() -> None:
    table = rate_bets()
    one = session_increments(
        table, 1, np.zeros(3, int), np.array([0.1, 0.9, 0.4]), np.array([0.3]), np.array([0.1]), np.zeros((2, 1))
    )
    other = session_increments(
        table, 1, np.zeros(3, int), np.array([0.9, 0.1, 0.6]), np.array([0.7]), np.array([0.1]), np.zeros((2, 1))
    )

    assert one[:4] == pytest.approx(other[4:])


def fold_days(fleet: Fleet, mean: np.ndarray, first: int, count: int, rng: np.random.Generator) -> list[str]:
    """Five sessions of 20 units a tick for each series, with intraclass correlation of a half."""
    events = []
    for bucket in range(first, first + count):
        rates = rng.beta(mean, 1 - mean, (5, len(mean)))
        y = rng.binomial(20, rates) / 20
        fleet.fold_sessions(bucket, np.tile(np.arange(len(mean)), 5), y.ravel())
        events += [t.event.value for t in advance_phases(fleet, bucket)]
    return events


def test_units_that_fail_together_raise_no_alarm_but_a_change_does() -> None:
    rng = np.random.default_rng(0)
    fleet, naive = Fleet(CONFIG, 60), Fleet(plain(), 60)
    for f in (fleet, naive):
        f.state["ticket_threshold"][:], f.state["bad_side"][:] = 1e5, 1
    mean = np.full(60, 0.1)
    calm = fold_days(fleet, mean, 1, 200, rng)
    for bucket in range(1, 200):
        k = rng.binomial(20, rng.beta(mean, 1 - mean, (5, 60))).sum(axis=0)
        naive.fold(bucket, np.stack([100 - k, k]))
    moved = fold_days(fleet, 3 * mean, 201, 100, rng)

    assert calm.count("ticketed") == 0
    assert moved.count("ticketed") >= 57
    assert np.mean(mean_evidence(naive.config.table, naive.state["evidence"], 1) >= 1e5) > 0.5


def test_refolding_sessions_from_a_snapshot_changes_no_byte() -> None:
    mean = np.full(4, 0.2)
    whole, part = Fleet(CONFIG, 4), Fleet(CONFIG, 4)
    for fleet in (whole, part):
        fleet.state["ticket_threshold"][:] = 1e4
    rng = np.random.default_rng(1)
    fold_days(whole, mean, 1, 60, rng)
    rng = np.random.default_rng(1)
    fold_days(part, mean, 1, 25, rng)
    part = restore(CONFIG, snapshot(part))
    fold_days(part, mean, 26, 35, rng)

    assert snapshot(part) == snapshot(whole)


def test_sessions_and_units_are_not_mixed_up() -> None:
    with pytest.raises(ValueError, match="fold_sessions"):
        Fleet(CONFIG, 1).fold(1, np.ones((2, 1)))
    with pytest.raises(ValueError, match="call fold"):
        Fleet(plain(), 1).fold_sessions(1, np.zeros(1, int), np.zeros(1))
    with pytest.raises(ValueError, match=r"outside \[0, 1\]"):
        Fleet(CONFIG, 1).fold_sessions(1, np.zeros(1, int), np.array([2.0]))


def test_a_session_ends_after_ten_idle_minutes_or_fifty_units() -> None:
    book = SessionBook()
    book.add(1, 0, "a", 3, 1)
    book.add(15, 0, "a", 1, 1)
    book.add(2, 1, "b", 60, 15)

    first, y, sessions = book.close(16)
    assert (first.tolist(), y.tolist(), [one.units for one in sessions]) == ([1], [0.25], [60])
    assert book.close(34)[0].tolist() == []
    assert book.close(35)[1].tolist() == [0.5]
    assert book.open == {}


@given(st.permutations([(1, 0, "a", 2, 1), (3, 0, "b", 4, 0), (2, 0, "a", 1, 1), (2, 1, "a", 5, 5)]))
def test_the_order_of_session_ticks_does_not_matter(order: list[tuple[int, int, str, int, int]]) -> None:
    book = SessionBook()
    for tick in order:
        book.add(*tick)

    series, y, sessions = book.close(100)
    assert series.tolist() == [0, 0, 1]
    assert y == pytest.approx([2 / 3, 0.0, 1.0])
    assert [one.units for one in sessions] == [3, 4, 5]


def book_of(pauses: dict[int, int]) -> SessionBook:
    """Return a book that knows how many sessions of series 0 paused for so long at most."""
    book = SessionBook()
    for pause, n in pauses.items():
        book.pauses[0].counts[pause] = n
    return book


@pytest.mark.parametrize(
    ("pauses", "longest"),
    [
        ({0: 499}, 20),
        ({0: 500}, 2),
        ({0: 990, 3: 10}, 3),
        ({0: 994, 3: 6}, 2),
        ({0: 900, 7: 95, 12: 5}, 7),
        ({20: 600}, 20),
    ],
)
def test_one_session_in_a_hundred_may_go_on_after_it_was_counted(pauses: dict[int, int], longest: int) -> None:
    assert book_of(pauses).pauses[0].longest == longest


def test_pauses_that_become_longer_are_learned() -> None:
    pauses = Pauses()
    for _ in range(10_000):
        pauses.add(0)
    assert (pauses.longest, sum(pauses.counts) <= 5_000) == (2, True)
    for _ in range(60):
        pauses.add(9)
    assert pauses.longest == 9


def test_a_session_counts_once_and_what_comes_later_is_no_evidence() -> None:
    book = book_of({0: 1_000})
    book.add(1, 0, "a", 4, 1)
    assert book.close(2).means.tolist() == []
    assert book.close(3).means.tolist() == [0.25]
    book.add(9, 0, "a", 4, 4)
    assert book.close(28).means.tolist() == []
    assert book.counted != {}
    # Ten idle minutes after its last unit it has ended, with a pause of eight ticks; then it is another session.
    assert book.close(29).means.tolist() == []
    assert (book.counted, book.pauses[0].counts[8]) == ({}, 1)
    book.add(30, 0, "a", 2, 2)
    assert book.close(32).means.tolist() == [1.0]


def test_a_long_session_that_was_counted_ends_at_fifty_units_as_others_do() -> None:
    book = book_of({0: 1_000})
    book.add(1, 0, "a", 4, 1)
    book.close(3)
    for tick in range(9, 20):
        book.add(tick, 0, "a", 5, 0)
        book.close(tick)
    # 4 + 10 x 5 units; the last five are of the next one.
    assert (book.counted, book.open[0, "a"].units, book.pauses[0].counts[8]) == ({}, 5, 1)


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3), st.integers(1, 9), st.integers(0, 9)), max_size=40),
    st.integers(0, 40),
)
def test_a_book_goes_on_from_its_state(units: list[tuple[int, int, int, int]], cut: int) -> None:
    whole, parted, tick = book_of({0: 1_000}), book_of({0: 1_000}), 1
    for number, (gap, session, n, bad) in enumerate(units):
        tick += gap
        if number == cut:
            parted = SessionBook.from_json(json.loads(json.dumps(parted.as_json())))
        for book in (whole, parted):
            book.add(tick, 0, f"s{session}", n, min(bad, n))
        assert whole.close(tick).means.tolist() == parted.close(tick).means.tolist()
    assert whole.as_json() == parted.as_json()


def test_the_longest_pause_of_a_session_is_between_ticks_with_units() -> None:
    assert OpenSession.from_json([[7, 1, 0], [1, 1, 0], [3, 1, 0]]).pause == 4
    assert OpenSession.from_json([[7, 3, 0]]).pause == 0
