"""`gapwatch alerts --watched`: what sessions show that have not ended, so that no detector has counted them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gapwatch.sinks.reading.watched_series import OpenSessions, SessionOpenings, open_sessions, session_openings
from gapwatch.sinks.store.opening import open_for_reading
from gapwatch.sinks.store.store import Store
from gapwatch.streams.alerting.evaluation.shift_watch import ShiftWatch
from gapwatch.streams.detectors.sessions import IDLE_BUCKETS, MOST_UNITS, SessionBook
from tests.gapwatch_command import gapwatch
from tests.streams.alerting.breaking_stream import keep
from tests.streams.alerting.builders import MONDAY, portfolio, units_slice

#: Tick, session, units, bad.
Trace = tuple[int, str, int, int]


def watched(path: Path, made: list[list[Trace]]) -> None:
    """Keep slices of sessions in a store that watches them."""
    said = portfolio()
    with Store.open(path, create=True) as store:
        store.register(said, [])
        watch = ShiftWatch.open(store, [said])
        for number, traces in enumerate(made):
            units = [(tick, n - bad, bad, 0) for tick, _, n, bad in traces]
            keep(store, watch, units_slice(number, units, sessions=traces))
        watch.save(store)


def stored(path: Path, made: list[list[Trace]]) -> list[OpenSessions]:
    """Keep slices of sessions in a store that watches them; return the open sessions."""
    watched(path, made)
    with open_for_reading(path) as con:
        return open_sessions(con, "live", idle_seconds=30 * IDLE_BUCKETS, most_units=MOST_UNITS)


def test_open_sessions_are_those_that_the_detectors_have_not_ended(tmp_path: Path) -> None:
    """The oracle is the book of the detectors, at the newest trace."""
    for seed in range(3):
        rng, traces = np.random.default_rng(seed), list[Trace]()
        for i in range(60):
            begin, gaps = int(rng.integers(0, 200)), rng.choice([0, 3, 12, 25], rng.integers(1, 6))
            ticks = MONDAY + begin + np.cumsum(gaps)
            traces += [(int(tick), f"s{i % 45}", 1, int(rng.random() < 0.3)) for tick in ticks]
        traces.sort()
        book, latest = SessionBook(), traces[-1][0]
        for tick in range(MONDAY, latest + 1):
            for at, session, units, bad in traces:
                if at == tick:
                    book.add(at, 0, session, units, bad)
            book.close(tick)

        (found,) = stored(tmp_path / f"{seed}.duckdb", [traces[:60], traces[60:]])

        mine = list(book.open.values())
        assert (found.sessions, found.units) == (len(mine), sum(one.units for one in mine))
        assert found.failed == sum(one.bad > 0 for one in mine)
        assert found.share == pytest.approx(np.mean([one.bad / one.units for one in mine]))


def test_the_list_says_what_open_sessions_show(tmp_path: Path) -> None:
    traces = [(MONDAY + 8 * i, f"s{i}", 2, int(i >= 196)) for i in range(200)]
    stored(tmp_path / "s.duckdb", [traces])

    said = gapwatch("alerts", "--watched", "--store", tmp_path / "s.duckdb").out
    words = " ".join(said.split())

    assert "Sessions that may go on" in said
    # The newest trace is of tick 1592: sessions since tick 1573 are open, three of them.
    assert "agent parses 3 3 6 50.0%" in words
    assert "a session counts once, 10 minutes after its last trace or at 50 traces; sooner, once it has paused" in words


def test_without_open_sessions_nothing_is_said(tmp_path: Path) -> None:
    assert stored(tmp_path / "s.duckdb", [[]]) == []
    assert "Sessions that may go on" not in gapwatch("alerts", "--watched", "--store", tmp_path / "s.duckdb").out


def openings(path: Path, traces: list[Trace]) -> list[SessionOpenings]:
    watched(path, [traces])
    with open_for_reading(path) as con:
        return session_openings(con, "live", opening_seconds=180, recent_seconds=3_600, idle_seconds=600)


def test_sessions_of_one_age_are_compared_by_their_first_minutes_whether_they_have_ended_or_not(tmp_path: Path) -> None:
    """The oracle reads the traces one by one."""
    rng, traces = np.random.default_rng(4), list[Trace]()
    for i in range(90):
        begin, gaps = int(rng.integers(0, 400)), rng.choice([0, 2, 5, 25], rng.integers(1, 7))
        for tick in (MONDAY + begin + np.cumsum(gaps)).tolist():
            traces.append((tick, f"s{i % 70}", 1, int(rng.random() < 0.3)))
    traces.sort()
    latest, begun = traces[-1][0], dict[tuple[str, int], list[int]]()
    current: dict[str, tuple[int, int]] = {}
    for tick, session, _, bad in traces:
        first, last = current.get(session, (tick, tick))
        first = tick if tick - last >= 20 else first
        current[session] = (first, tick)
        if tick < first + 6 <= latest:
            begun.setdefault((session, first), []).append(bad)
    means = {key: float(np.mean(bad)) for key, bad in begun.items()}
    late = [mean for (_, first), mean in means.items() if first > latest - 120]
    before = [mean for (_, first), mean in means.items() if first <= latest - 120]

    (found,) = openings(tmp_path / "s.duckdb", traces)

    assert (found.recent, found.earlier) == (len(late), len(before))
    assert [found.recent_bad, found.earlier_bad] == pytest.approx([sum(late), sum(before)])


def test_a_shift_shows_in_the_first_minutes_before_a_session_has_ended(tmp_path: Path) -> None:
    """Long sessions, a good trace every two minutes; of late, all traces are bad, and no such session has ended."""
    long = [(MONDAY + 4 * i + 4 * j, f"s{i}", 1, int(i >= 200)) for i in range(203) for j in range(30)]
    path = tmp_path / "s.duckdb"

    (found,) = openings(path, [one for one in sorted(long) if one[0] <= MONDAY + 4 * 203 + 2])
    words = " ".join(gapwatch("alerts", "--watched", "--store", path).out.split())

    # The third bad session is two minutes old.
    assert found.recent > 25
    assert (found.recent_bad, found.earlier_bad) == (2.0, 0.0)
    assert "First 3 minutes of each session" in words and "with its traces until then, whether it has ended" in words
