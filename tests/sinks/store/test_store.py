from __future__ import annotations

import gc
import resource
import signal
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from gapwatch.scorers.errors import JobError
from gapwatch.scorers.slices.slices import ScoredSlice
from gapwatch.scorers.slices.tables import SCORED_TABLES
from gapwatch.sinks.store.ledger import imbalance
from gapwatch.sinks.store.positions import Position
from gapwatch.sinks.store.schema import KEPT_TABLES, qualified
from gapwatch.sinks.store.store import Store
from gapwatch.sinks.store.transaction import Step, StoreTransaction
from tests.builders import KEPT_AT, NOON, scored_slice, whole_slice


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "s.duckdb", create=True) as opened:
        yield opened


def count(store: Store, table: str) -> int:
    return int(store.query(f"SELECT count(*) FROM {qualified(table)}")[0][0])


def counts(store: Store) -> dict[str, int]:
    return {table: count(store, table) for table in [*KEPT_TABLES, "outbox", "offsets"]}


def test_a_new_store_has_no_position(store: Store) -> None:
    assert store.position("live", "traces", 0) is None
    assert set(counts(store).values()) == {0}


def test_every_table_of_a_slice_is_kept_with_its_commit(store: Store) -> None:
    scored = whole_slice(0, 30)
    seq = store.write_slice(scored, KEPT_AT)

    expected = {name: table.num_rows for name, table in scored.tables.items() if name != "judge_requests"}
    expected |= {"outbox": 10, "offsets": 1}
    assert counts(store) == expected
    for table in [*KEPT_TABLES, "outbox", "offsets"]:
        assert store.query(f"SELECT DISTINCT seq FROM {qualified(table)}") == ([(seq,)] if expected[table] else [])


@pytest.mark.parametrize("name", list(KEPT_TABLES))
def test_what_comes_back_is_what_was_given(store: Store, name: str) -> None:
    row = {field.name: VALUES[str(field.type)] for field in SCORED_TABLES[name]}
    row |= {"evidence": '{"why": "ü"}'} if name == "gaps" else {}
    nothing = dict.fromkeys(SCORED_TABLES[name].names)
    tables: dict[str, Any] = {name: [row, nothing]}
    scored = scored_slice(0, 2, **tables)
    store.write_slice(scored, KEPT_AT)

    columns = ", ".join(f'"{column}"' for column in SCORED_TABLES[name].names)
    kept = store.query(f"SELECT {columns} FROM {qualified(name)}")
    assert kept == [tuple(row.values()), tuple(None for _ in nothing)]


VALUES = {
    "string": "a'b\u00e9\U0001f600\n\x00",
    "double": 0.1,
    "int32": -(2**31),
    "int64": 2**62,
    "uint64": 2**64 - 1,
    "timestamp[us]": NOON + timedelta(microseconds=1),
    "binary": b"\x00\xff",
    "map<int32, int64>": {-3: 2, 7: 1},
}


def test_the_time_of_keeping_is_stamped_in_utc(store: Store) -> None:
    at = datetime(2026, 3, 22, 14, 5, tzinfo=timezone(timedelta(hours=2)))
    store.write_slice(whole_slice(0, 3), at)
    for table in ("gaps", "samples", "offsets"):
        assert store.query(f"SELECT DISTINCT kept_at FROM {qualified(table)}") == [(datetime(2026, 3, 22, 12, 5),)]


def test_a_time_without_a_zone_is_refused(store: Store) -> None:
    with pytest.raises(ValueError, match="time zone"):
        store.write_slice(whole_slice(), NOON)


def test_the_position_follows_the_slices_and_survives_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "s.duckdb"
    with Store.open(path, create=True) as store:
        store.write_slice(replace(whole_slice(5, 10), prefix_sha256="a"), KEPT_AT)
        store.write_slice(replace(whole_slice(10, 20), records=7, prefix_sha256="b"), KEPT_AT)
        store.write_slice(whole_slice(0, 4, partition=3), KEPT_AT)
        store.write_slice(whole_slice(0, 3, lane="backfill:b1"), KEPT_AT)
        before = store.positions()
    with Store.open(path) as store:
        assert store.positions() == before
        assert store.position("live", "traces", 0) == Position(20, 12, "b")
        assert store.position("live", "traces", 3) == Position(4, 4, None)
        assert store.position("backfill:b1", "traces", 0) == Position(3, 3, None)
        assert store.write_slice(whole_slice(20, 21), KEPT_AT) == 5


@pytest.mark.parametrize(
    ("begin", "end", "why"), [(12, 15, "leaves a hole"), (8, 15, "overlaps"), (0, 10, "overlaps"), (10, 9, "its start")]
)
def test_a_slice_that_does_not_follow_is_refused_and_costs_nothing(
    store: Store, begin: int, end: int, why: str
) -> None:
    store.write_slice(whole_slice(0, 10), KEPT_AT)
    before = counts(store)

    with pytest.raises(JobError, match=why):
        store.write_slice(scored_slice(begin, end), KEPT_AT)
    assert counts(store) == before
    store.write_slice(whole_slice(10, 12), KEPT_AT)
    assert store.position("live", "traces", 0) == Position(12, 12, None)


def test_a_slice_without_records_moves_the_position(store: Store) -> None:
    store.write_slice(scored_slice(0, 7, records=0), KEPT_AT)
    assert store.position("live", "traces", 0) == Position(7, 0, None)


def test_judge_requests_of_other_lanes_are_not_sent(store: Store) -> None:
    store.write_slice(whole_slice(0, 3, lane="file:x"), KEPT_AT)
    assert count(store, "outbox") == 0
    store.write_slice(whole_slice(0, 3), KEPT_AT)
    assert store.query("SELECT topic, id, key, value FROM internal.outbox") == [("judge-requests", "j0-0", "t0", b"{}")]


@pytest.mark.parametrize("how", ["missing", "other columns"])
def test_a_slice_with_other_tables_is_refused(store: Store, how: str) -> None:
    scored = whole_slice()
    tables = dict(scored.tables)
    gaps = tables.pop("gaps")
    if how == "other columns":
        tables["gaps"] = gaps.select(gaps.column_names[::-1])
    with pytest.raises(ValueError, match="table gaps"):
        store.write_slice(replace(scored, tables=tables), KEPT_AT)
    assert set(counts(store).values()) == {0}


class Stumbling(Store):
    """Fails once, before a named step."""

    stumble_before = ""
    error: BaseException = RuntimeError("stumbled")

    def steps(self) -> Sequence[tuple[str, Step]]:
        def stumble(_: StoreTransaction) -> None:
            self.stumble_before = ""
            raise self.error

        return [
            pair
            for name, step in super().steps()
            for pair in ([("stumble", stumble)] if name == self.stumble_before else []) + [(name, step)]
        ]


STEP_NAMES = [name for name, _ in Store.steps(Store.__new__(Store))]


@pytest.mark.parametrize("name", STEP_NAMES)
@pytest.mark.parametrize("error", [RuntimeError("x"), KeyboardInterrupt()], ids=["error", "interrupt"])
def test_an_error_before_any_step_leaves_nothing_and_the_retry_keeps_the_new_slice(
    tmp_path: Path, name: str, error: BaseException
) -> None:
    with Stumbling.open(tmp_path / "s.duckdb", create=True) as store:
        assert isinstance(store, Stumbling)
        store.write_slice(whole_slice(0, 10), KEPT_AT)
        before = counts(store)
        store.stumble_before, store.error = name, error

        with pytest.raises(type(error)):
            store.write_slice(whole_slice(10, 40), KEPT_AT)
        assert counts(store) == before
        store.write_slice(whole_slice(10, 16), KEPT_AT)

        # A registration that was undone would keep the rows of the slice that failed.
        assert store.query("SELECT min(source_offset), max(source_offset), count(*) FROM gaps WHERE seq = 2") == [
            (10, 15, 6)
        ]
        assert imbalance(store.cursor()) == 0


def test_an_interrupt_after_the_commit_is_not_kept_twice(tmp_path: Path) -> None:
    class Late(Store):
        def steps(self) -> Sequence[tuple[str, Step]]:
            def interrupt(_: StoreTransaction) -> None:
                raise KeyboardInterrupt

            return [*super().steps(), ("late", interrupt)]

    # `keep` puts steps of others before the last one; here the commit itself is interrupted on its way back.
    with Late.open(tmp_path / "s.duckdb", create=True) as store:
        with pytest.raises(KeyboardInterrupt):
            store.write_slice(whole_slice(0, 10), KEPT_AT)
        assert store.position("live", "traces", 0) == Position(10, 10, None)
        with pytest.raises(JobError, match="overlaps"):
            store.write_slice(whole_slice(0, 10), KEPT_AT)


def test_a_table_that_takes_fewer_rows_than_were_given_stops_the_slice(tmp_path: Path) -> None:
    class Losing(Store):
        def steps(self) -> Sequence[tuple[str, Step]]:
            def lose(transaction: StoreTransaction) -> None:
                transaction.con.execute("DEALLOCATE keep_gaps")
                transaction.con.execute("PREPARE keep_gaps AS INSERT INTO gaps SELECT * FROM inbox_gaps LIMIT 2")

            begin, *rest = super().steps()
            return [("lose", lose), begin, *rest]

    with Losing.open(tmp_path / "s.duckdb", create=True) as store:
        with pytest.raises(JobError, match="2 of 10 rows of gaps"):
            store.write_slice(whole_slice(0, 10), KEPT_AT)
        assert set(counts(store).values()) == {0}


def test_steps_of_others_share_the_transaction(store: Store) -> None:
    def annotate(transaction: StoreTransaction) -> None:
        transaction.con.execute(
            "INSERT INTO annotations VALUES (?, 'p', ?, 'me')", [transaction.kept_at, str(transaction.seq)]
        )

    def fail(_: StoreTransaction) -> None:
        raise RuntimeError("no")

    store.write_slice(whole_slice(0, 3), KEPT_AT, also=[("annotate", annotate)])
    with pytest.raises(RuntimeError):
        store.write_slice(whole_slice(3, 6), KEPT_AT, also=[("annotate", annotate), ("fail", fail)])
    assert store.query("SELECT text FROM annotations") == [("1",)]


def test_readers_see_whole_commits_while_the_keeper_works(store: Store) -> None:
    reader = store.cursor()
    store.write_slice(whole_slice(0, 10), KEPT_AT)
    assert reader.execute("SELECT count(*) FROM gaps").fetchall() == [(10,)]
    assert imbalance(reader) == 0
    reader.close()


def test_readers_have_the_optimizer_that_the_keeper_does_without(store: Store) -> None:
    [(_, plan)] = store.query("EXPLAIN SELECT count(*) FROM gaps WHERE outcome = 'fail' AND 1 = 0")
    assert "Empty Result" in plan


def test_a_full_disk_is_told_and_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "s.duckdb"
    store = Store.open(path, create=True)
    store.write_slice(whole_slice(0, 100), KEPT_AT)
    kept, limits = 100, resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 200_000, limits[1]))
    try:
        with pytest.raises(JobError, match="disk is full, make room; then restart"):
            while True:
                store.write_slice(whole_slice(kept, kept + 200), KEPT_AT)
                kept += 200
        with pytest.raises(JobError):
            store.close()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)
    with Store.open(path) as again:
        assert again.position("live", "traces", 0) == Position(kept, kept, None)
        assert count(again, "gaps") == kept
        again.write_slice(whole_slice(kept, kept + 200), KEPT_AT)
        assert imbalance(again.cursor()) == 0


def test_a_closed_store_says_so_and_closes_twice(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "s.duckdb", create=True)
    store.close()
    store.close()
    with pytest.raises(JobError, match="is closed"):
        store.write_slice(whole_slice(), KEPT_AT)


def test_closing_waits_for_what_readers_are_at(tmp_path: Path) -> None:
    def read(store: Store) -> None:
        try:
            while True:
                store.query("SELECT count(*) FROM offsets")
        except (JobError, duckdb.Error):  # it is closed
            return

    for number in range(12):  # without waiting, two of five refuse
        store = Store.open(tmp_path / f"s{number}.duckdb", create=True)
        readers = [threading.Thread(target=read, args=[store]) for _ in range(3)]
        for reader in readers:
            reader.start()
        store.close()
        for reader in readers:
            reader.join(20)
            assert not reader.is_alive()


def test_closing_writes_the_log_into_the_file(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "s.duckdb", create=True)
    store.write_slice(whole_slice(0, 10), KEPT_AT)
    assert (tmp_path / "s.duckdb.wal").stat().st_size > 0
    store.close()
    assert not (tmp_path / "s.duckdb.wal").exists()


def test_a_forgotten_store_does_not_bar_the_next(tmp_path: Path) -> None:
    store: Store | None = Store.open(tmp_path / "s.duckdb", create=True)
    del store
    gc.collect()
    Store.open(tmp_path / "s.duckdb").close()


def test_the_slice_may_come_over_a_serialised_boundary(store: Store) -> None:
    store.write_slice(ScoredSlice.from_ipc(whole_slice(0, 10).to_ipc()), KEPT_AT)
    assert count(store, "gaps") == 10
    assert count(store, "outbox") == 4


def test_an_empty_slice_of_scoring_needs_no_rows(store: Store) -> None:
    tables = {name: schema.empty_table() for name, schema in SCORED_TABLES.items()}
    assert all(isinstance(table, pa.Table) for table in tables.values())
    store.write_slice(ScoredSlice("live", "traces", 0, 0, 3, 0, 0, None, tables), datetime.now(UTC))
    assert counts(store) == {**dict.fromkeys([*KEPT_TABLES, "outbox"], 0), "offsets": 1}
