"""A start folds stored slices by pages, can be stopped and shown, and gives the state of one that was never ended."""

from __future__ import annotations

from pathlib import Path

import pytest

from gapwatch.scorers.slices.slices import ScoredSlice
from gapwatch.sinks.metrics.health import RunHealth
from gapwatch.sinks.reading import lane_commits as pages
from gapwatch.sinks.store.store import Store
from gapwatch.sinks.upkeep.tick_joining import join_step, joinable_until
from gapwatch.streams.alerting.evaluation import folding, shift_watch
from gapwatch.streams.alerting.evaluation.folding import FoldProgress, FoldStoppedError
from gapwatch.streams.alerting.evaluation.live_alerts import LiveAlerts
from gapwatch.streams.alerting.evaluation.shift_watch import ShiftWatch
from tests.streams.alerting.breaking_stream import (
    BEFORE,
    BROKEN,
    HOURS,
    forget_snapshots,
    keep,
    keep_all,
    slices,
    stream,
)
from tests.streams.alerting.builders import FALLBACK_IS_BAD, kept_at, portfolio, units_slice

_ALERTS = 'SELECT * EXCLUDE (seq) FROM alerts ORDER BY "at", alert_id, state'
_SNAPSHOTS = "SELECT seq FROM internal.detector_snapshots"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, bytes]:
    """A store of a stream that breaks, and the state of its watch."""
    path = tmp_path_factory.mktemp("folding") / "s.duckdb"
    return path, keep_all(path, slices(BROKEN), portfolio())


@pytest.fixture
def path(made: tuple[Path, bytes], tmp_path: Path) -> Path:
    """A copy of that store without a saved state."""
    copy = tmp_path / "s.duckdb"
    copy.write_bytes(made[0].read_bytes())
    with Store.open(copy) as store:
        store.record("forgetting", forget_snapshots)
    return copy


def test_pages_of_any_size_hold_the_same_commits(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Store.open(path) as store:
        cursor = store.cursor()
        one_by_one = list(pages.lane_commits(cursor, "live", 0, page_commits=1))
        whole = list(pages.lane_commits(cursor, "live", 0))
        monkeypatch.setattr(pages, "PAGE_ROWS", 40)
        small = list(pages.lane_commits(cursor, "live", 0, page_commits=7))
        cursor.close()

    assert len(one_by_one) == len(slices(BROKEN))
    assert whole == one_by_one
    assert small == one_by_one


def test_folding_that_is_stopped_continues_at_the_next_start(made: tuple[Path, bytes], path: Path) -> None:
    class StopAt(FoldProgress):
        def step(self) -> None:
            super().step()
            if self.done == 45:
                self.stop()

    progress = StopAt()
    with Store.open(path) as store:
        alerts = store.query(_ALERTS)
        store.record("forgetting", lambda con, _: con.execute("DELETE FROM alerts"))
        with pytest.raises(FoldStoppedError):
            ShiftWatch.open(store, [portfolio()], progress=progress)
        commits = store.query("SELECT seq FROM offsets ORDER BY seq")
        assert store.query(_SNAPSHOTS) == [commits[44]]
        watch = ShiftWatch.open(store, [portfolio()])

        assert watch.packed() == made[1]
        assert store.query(_ALERTS) == alerts


def test_folding_that_takes_long_saves_what_it_has(
    made: tuple[Path, bytes], path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folding, "SAVE_SECONDS", -1.0)
    with Store.open(path) as store:
        alerts = store.query(_ALERTS)
        before = store.seq
        watch = ShiftWatch.open(store, [portfolio()])

        assert store.seq >= before + len(slices(BROKEN))
        assert watch.packed() == made[1]
        assert store.query(_ALERTS) == alerts


def test_a_start_says_how_far_it_has_folded(path: Path) -> None:
    health = RunHealth()
    said = []

    class Heard(FoldProgress):
        def step(self) -> None:
            super().step()
            said.append(health.ready())

    progress = Heard()
    health.watch_start(lambda: progress.text)
    with Store.open(path) as store:
        ShiftWatch.open(store, [portfolio()], progress=progress)

    is_ready, answer = said[9]
    total = len(slices(BROKEN))
    assert not is_ready
    assert answer["because"] == [f"folding stored slices into the detectors: 10 of {total}"]
    assert progress.text == ""
    assert health.ready()[1]["because"] == ["source: connecting"]


def test_the_state_is_saved_every_five_minutes_of_work(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s.duckdb", create=True) as store:
        watch = ShiftWatch.open(store, [portfolio()])
        ((first,),) = store.query(_SNAPSHOTS)
        for scored in slices(BROKEN[:40], size=1)[:10]:
            keep(store, watch, scored)
        assert store.query(_SNAPSHOTS) == [(first,)]
        keep(store, watch, slices(BROKEN[10:11], size=1, first=10)[0], after=300.0)

        assert store.query(_SNAPSHOTS) == [(store.seq,)]


def test_the_state_is_saved_after_many_slices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shift_watch, "SAVE_COMMITS", 3)
    with Store.open(tmp_path / "s.duckdb", create=True) as store:
        watch = ShiftWatch.open(store, [portfolio()])
        saved = []
        for scored in slices(BROKEN[:40], size=1)[:9]:
            keep(store, watch, scored)
            saved.append(store.query(_SNAPSHOTS) == [(store.seq,)])

    assert saved == [False, False, False, True] * 2 + [False]


def test_a_new_portfolio_is_taken_over_without_folding_and_as_after_a_restart(
    made: tuple[Path, bytes], path: Path, tmp_path: Path
) -> None:
    changed = portfolio(FALLBACK_IS_BAD)
    alerts = LiveAlerts()
    with Store.open(path) as store:
        watch = alerts.open(store, [portfolio()])
        alerts.folding.stop()  # nothing can be folded any more
        same = alerts.open(store, [changed])

        assert same is watch
        with Store.open(made[0]) as other:
            assert ShiftWatch.open(other, [changed]).packed() == watch.packed()


class TestJoinedTicks:
    """Ticks that were joined up to the last saved state do not change what a start gives."""

    #: Each tick of a stream comes in four slices, of two partitions.
    STREAM = stream([(BEFORE, 0.02), (HOURS, 0.3)], units=160)

    def slices(self) -> list[ScoredSlice]:
        made = []
        for number, (tick, good, bad, unknown) in enumerate(self.STREAM[-12:]):
            for part in range(4):
                units = [(tick, *((n + part) // 4 for n in (good, bad, unknown)))]
                made.append(units_slice(2 * number + part // 2, units, partition=part % 2))
        return made

    def kept(self, path: Path, join: bool) -> bytes:
        """Keep the slices, saving the state now and then, and return it; `join` what may be joined."""
        with Store.open(path, create=True) as store:
            store.register(portfolio(), [])
            watch = ShiftWatch.open(store, [portfolio()])
            for number, scored in enumerate(self.slices()):
                taken = watch.take(scored, kept_at(60 * number))
                store.write_slice(taken.scored, kept_at(60 * number), also=taken.steps)
                if not join or number % 8:
                    continue
                until = joinable_until(store, "live", has_detectors=True)
                while join_step(store, "live", until) is not None:
                    pass
            return watch.packed()

    def test_a_start_gives_the_same_state(self, tmp_path: Path) -> None:
        alone = self.kept(tmp_path / "alone", join=False)
        joined = self.kept(tmp_path / "joined", join=True)

        assert joined == alone
        with Store.open(tmp_path / "joined") as store:
            (rows,), (saved,) = store.query("SELECT count(*) FROM ticks UNION ALL (SELECT max(seq) FROM offsets)")
            assert rows < 0.7 * saved * 2
            assert 0 < joinable_until(store, "live", has_detectors=True) < store.seq, "some slices are folded again"
            assert ShiftWatch.open(store, [portfolio()]).packed() == alone

    def test_folding_all_joined_ticks_again_gives_the_same_state(self, tmp_path: Path) -> None:
        joined = self.kept(tmp_path / "joined", join=True)
        with Store.open(tmp_path / "joined") as store:
            store.record("forgetting", forget_snapshots)
            watch = ShiftWatch.open(store, [portfolio()])

            assert {name: one.clock.watermark for name, one in watch.pipelines.items()}
            assert watch.packed() == joined
