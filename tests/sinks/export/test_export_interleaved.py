"""Each tick is exported once or said to be lost, whatever is stored, joined and expired between exports and in one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gapwatch.sinks.commands.options import reading
from gapwatch.sinks.export.delta_place import DeltaPlace
from gapwatch.sinks.export.exporting import Exported, export_store
from gapwatch.sinks.store.store import Store
from gapwatch.sinks.upkeep.retention import expire_step
from gapwatch.sinks.upkeep.tick_joining import join_step
from tests.builders import KEPT_AT, NOON, scored_slice
from tests.depth import examples
from tests.sinks.export.meddled_reader import MeddledReader

HOUR = "%Y-%m-%dT%H"


@dataclass
class Ledgered:
    """A store, its export, and the commits that an export met before they expired.

    Commit number k is stored k minutes after the first.
    """

    store: Store
    place: DeltaPlace
    commits: list[tuple[int, int]] = field(default_factory=list)  # hour and number of traces; seq is the index + 1
    ends: Counter[int] = field(default_factory=Counter)
    exported: set[int] = field(default_factory=set)
    perhaps: set[int] = field(default_factory=set)
    lost_until: int = 0

    @property
    def expired(self) -> int:
        return int(self.store.query("SELECT coalesce(max(to_seq), 0) FROM retention")[0][0])

    def commit(self, hour: int, n: int, partition: int) -> None:
        bucket, first = NOON + timedelta(hours=hour), self.ends[partition]
        tick = {"bucket": bucket, "fold_bucket": bucket}
        ledger = [{"state": "read", "n": n}, {"metric": "answer_parses", "state": "pass", "n": n}]
        ticks = [{**tick, "n": n}, {**tick, "level": "span", "outcome": "pass", "n": n}]
        scored = scored_slice(first, first + n, partition=partition, ticks=ticks, ledger=ledger)
        self.commits.append((hour, n))
        self.ends[partition] += n
        assert self.store.write_slice(scored, KEPT_AT + timedelta(minutes=len(self.commits))) == len(self.commits)

    def join(self, share: float) -> None:
        join_step(self.store, "live", round(share * len(self.commits)))

    def expire(self, share: float) -> None:
        minutes = round(share * len(self.commits)) + 0.5
        before = (KEPT_AT + timedelta(minutes=minutes)).replace(tzinfo=None)
        while expire_step(self.store, before) is not None:
            pass

    def export(self, at: int = 0, meddle: Callable[[], None] = lambda: None) -> Exported:
        gone, count = self.expired, len(self.commits)
        there = set(range(gone + 1, count + 1))
        con = self.store.cursor()
        try:
            done = export_store(MeddledReader(con, meddle, at=at), self.place, lambda *_: None)
        finally:
            con.close()
        expired = set(range(gone + 1, self.expired + 1)) - self.exported
        stored = set(range(count + 1, len(self.commits) + 1))  # their ticks may be exported before the rest
        self.exported |= there - expired
        self.perhaps = (self.perhaps | expired | stored) - self.exported
        self.lost_until = max(self.lost_until, done.lost_until)
        return done

    def check(self) -> None:
        """After an export: each commit counts once unless it was lost, and a loss was said."""
        lost = set(range(1, len(self.commits) + 1)) - self.exported - self.perhaps
        assert max(lost, default=0) <= self.lost_until, f"{lost} were lost without a word"
        by_hour, unsure = Counter[str](), Counter[str]()
        for number, (hour, n) in enumerate(self.commits, start=1):
            name = f"{NOON + timedelta(hours=hour):{HOUR}}"
            (by_hour if number in self.exported else unsure)[name] += n if number not in lost else 0
        with reading(self.place) as con:
            sql = f"SELECT strftime(bucket, '{HOUR}'), level, sum(n)::BIGINT FROM ticks GROUP BY ALL"
            found = con.execute(sql).fetchall()
            records = con.execute("SELECT coalesce(sum(records), 0)::BIGINT FROM offsets").fetchall()[0][0]
            ledger = con.execute("SELECT coalesce(sum(n), 0)::BIGINT FROM ledger WHERE metric IS NULL").fetchall()
        for level in ("unit", "span"):
            got = Counter({hour: n for hour, its, n in found if its == level})
            assert by_hour <= got <= by_hour + unsure, (level, found)
        assert ledger == [(records,)] or self.perhaps  # of commits that expire meanwhile, some tables may have rows
        assert by_hour.total() <= records <= (by_hour + unsure).total()
        if not lost and not self.perhaps:
            assert records == sum(n for _, n in self.commits)


SHARES = st.sampled_from([0.3, 0.5, 0.7, 1.0])
CHANGES = st.one_of(
    st.tuples(st.just("commit"), st.integers(0, 2), st.integers(1, 3), st.integers(0, 1)),
    st.tuples(st.just("join"), SHARES),
    st.tuples(st.just("expire"), SHARES),
)
EXPORTS = st.tuples(st.just("export"), st.integers(0, 60), CHANGES)


@given(st.lists(st.one_of(CHANGES, CHANGES, CHANGES, EXPORTS), min_size=6, max_size=14))
@settings(max_examples=examples(15), deadline=None, suppress_health_check=list(HealthCheck))
def test_each_tick_is_exported_once_or_said_to_be_lost(steps: list[tuple[Any, ...]]) -> None:
    with TemporaryDirectory() as folder, Store.open(Path(folder) / "s.duckdb", create=True) as store:
        told = Ledgered(store, DeltaPlace(f"{folder}/history"))
        for number in range(4):
            told.commit(0, 1, number % 2)
        for name, *rest in steps:
            if name == "export":
                at, (change, *how) = rest
                told.export(at, lambda change=change, how=how: getattr(told, change)(*how))
            else:
                getattr(told, name)(*rest)
        told.export()
        told.check()


def ledgered(tmp_path: Path, store: Store) -> Ledgered:
    return Ledgered(store, DeltaPlace(str(tmp_path / "history")))


def exported_units(told: Ledgered) -> int:
    with reading(told.place) as con:
        return int(con.execute("SELECT sum(n) FROM ticks WHERE level = 'unit'").fetchall()[0][0])


def test_ticks_that_were_joined_and_in_part_expired_since_the_last_export_count_once(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s.duckdb", create=True) as store:
        told = ledgered(tmp_path, store)
        for _ in range(6):
            told.commit(0, 1, 0)
        told.export()
        told.join(1.0)
        told.expire(0.5)
        told.export()

        assert exported_units(told) == 6


def test_an_hour_whose_first_rows_expire_while_it_lasts_is_exported_whole(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s.duckdb", create=True) as store:
        told = ledgered(tmp_path, store)
        for _ in range(4):
            told.commit(0, 1, 0)
        told.export()
        told.expire(1.0)
        told.commit(0, 1, 0)
        done = told.export()

        assert (exported_units(told), done.lost_until) == (5, 0)


def test_a_commit_that_expires_during_its_export_is_exported_or_said_to_be_lost(tmp_path: Path) -> None:
    for at in (14, 30):
        with Store.open(tmp_path / f"{at}.duckdb", create=True) as store:
            told = Ledgered(store, DeltaPlace(str(tmp_path / f"history-{at}")))
            for number in range(4):
                told.commit(0, 1, number % 2)
            told.export()
            for number in range(4):
                told.commit(1, 2, number % 2)
            told.export(at, lambda told=told: told.expire(0.7))
            told.export()
            told.check()
