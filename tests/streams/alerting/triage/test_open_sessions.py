"""`gapwatch alerts --watched`: what sessions show that have not ended, so that no detector has counted them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gapwatch.sinks.reading.watched_series import OpenSessions, open_sessions
from gapwatch.sinks.store.opening import open_for_reading
from gapwatch.sinks.store.store import Store
from gapwatch.streams.alerting.evaluation.shift_watch import ShiftWatch
from gapwatch.streams.detectors.sessions import IDLE_BUCKETS, MOST_UNITS, SessionBook
from tests.gapwatch_command import gapwatch
from tests.streams.alerting.breaking_stream import keep
from tests.streams.alerting.builders import MONDAY, portfolio, units_slice

#: Tick, session, units, bad.
Trace = tuple[int, str, int, int]


def stored(path: Path, made: list[list[Trace]]) -> list[OpenSessions]:
    """Keep slices of sessions in a store that watches them; return the open sessions."""
    said = portfolio()
    with Store.open(path, create=True) as store:
        store.register(said, [])
        watch = ShiftWatch.open(store, [said])
        for number, traces in enumerate(made):
            units = [(tick, n - bad, bad, 0) for tick, _, n, bad in traces]
            keep(store, watch, units_slice(number, units, sessions=traces))
        watch.save(store)
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

    assert "Sessions that are not counted yet" in said
    # The newest trace is of tick 1592: sessions since tick 1573 are open, three of them.
    assert "agent parses 3 3 6 50.0%" in words
    assert "a session counts when it ends, 10 minutes after its last trace or at 50 traces" in words


def test_without_open_sessions_nothing_is_said(tmp_path: Path) -> None:
    assert stored(tmp_path / "s.duckdb", [[]]) == []
    assert "not counted yet" not in gapwatch("alerts", "--watched", "--store", tmp_path / "s.duckdb").out
