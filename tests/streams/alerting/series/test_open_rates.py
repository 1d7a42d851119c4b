"""Open ticks of rates: sparse ticks join the last tick of their window, and nothing is lost or counted twice."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gapwatch.streams.alerting.series.open_rates import OpenRates, OpenSessionUnits
from gapwatch.streams.alerting.series.open_tick import WINDOW_TICKS, OpenWindow

Entry = tuple[int, int, int, tuple[int, int, int, int]]
ENTRIES = st.lists(
    st.tuples(
        st.integers(1, 60),
        st.integers(0, 3),
        st.integers(0, 1),
        st.tuples(st.integers(1, 12), st.integers(0, 9), st.integers(0, 3), st.integers(0, 9)),
    ),
    max_size=60,
)
SESSIONS = st.lists(st.tuples(st.integers(0, 3), st.sampled_from("abc"), st.integers(1, 60), st.integers(1, 12)))
Cells = dict[tuple[int, int], list[int]]


def opened(entries: list[Entry], sessions: list[tuple[int, str, int, int]]) -> OpenRates:
    made = OpenRates()
    for some in (entries[::2], entries[1::2]):
        ticks, numbers, hours, counts = ([one[i] for one in some] for i in range(4))
        columns = np.array(counts, np.int64).reshape(-1, 4).T
        made.add(np.array(ticks, np.int64), np.array(numbers, np.int64), np.array(hours, np.int64), columns)
    for number, session, tick, units in sessions:
        made.add_session(OpenSessionUnits(number, session, tick, units, 0))
    return made


def gathered(entries: list[Entry], sessions: list[tuple[int, str, int, int]], closed: int) -> dict[int, Cells]:
    """Return the units by tick, each tick and each unit in plain Python."""
    by_tick: dict[int, Cells] = defaultdict(lambda: defaultdict(lambda: [0, 0, 0, 0]))
    for tick, number, hour, counts in entries:
        for i, n in enumerate(counts):
            by_tick[tick][number, hour][i] += n
    for _, _, tick, _ in sessions:
        by_tick[tick]
    result: dict[int, Cells] = defaultdict(lambda: defaultdict(lambda: [0, 0, 0, 0]))
    for tick, cells in by_tick.items():
        end = tick - tick % WINDOW_TICKS + WINDOW_TICKS - 1
        in_sessions = sum(units for _, _, at, units in sessions if at == tick)
        is_sparse = max([in_sessions, *(sum(cell[:3]) for cell in cells.values())]) < 20
        mine = result[end if tick <= closed and is_sparse else tick]
        for key, cell in cells.items():
            for i, n in enumerate(cell):
                mine[key][i] += n
    return result


@given(ENTRIES, SESSIONS, st.integers(0, 70))
def test_closed_ticks_hold_the_units_of_the_sparse_ticks_of_their_window(
    entries: list[Entry], sessions: list[tuple[int, str, int, int]], closed: int
) -> None:
    rates, expected = opened(entries, sessions), gathered(entries, sessions, closed)
    sizes_before = sum(rates.sizes().values())
    ready = sorted(rates.ready(closed))

    assert ready == sorted(tick for tick in expected if tick <= closed)
    found = []
    for tick in ready:
        units = rates.take(tick)
        assert units is not None
        cells = {(number, hour): counts for number, hour, *counts in units.cells.T.tolist()}
        assert cells == expected[tick]
        assert list(cells) == sorted(cells)
        found += units.sessions
    left = [one for some in rates.sessions.values() for one in some]
    assert sorted(found + left) == sorted(OpenSessionUnits(*one, 0) for one in sessions)
    assert {tick for tick, size in rates.sizes().items() if size} == {tick for tick in expected if tick > closed}
    assert sizes_before <= len(entries) + len(sessions)


@given(ENTRIES, SESSIONS)
def test_saved_open_ticks_are_the_same_and_do_not_depend_on_the_order_of_slices(
    entries: list[Entry], sessions: list[tuple[int, str, int, int]]
) -> None:
    rates = opened(entries, sessions)
    again = OpenRates()
    again.take_json(rates.as_json())

    assert again.as_json() == rates.as_json() == opened(entries[::-1], sessions).as_json()
    assert again.sizes() == rates.sizes()
    assert rates.most_entries() >= sum(rates.sizes().values())
    assert sorted(set(again.waiting())) == sorted(set(rates.waiting()))


def test_a_window_of_labels_alone_is_kept() -> None:
    window = OpenWindow([np.zeros((4, 0), np.int64)])
    window.add_labels(1, 5, 3, {"stop": 2, "length": 1})

    assert window.summed().shape == (4, 0)
    assert OpenWindow.from_json(window.as_json()).labels == window.labels
