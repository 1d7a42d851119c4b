"""After retention the file shrinks: what is alive is copied beside running commits, and one rename puts it in place."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest

from gapwatch.scorers.errors import JobError
from gapwatch.sinks.store.ledger import imbalance
from gapwatch.sinks.store.schema import qualified
from gapwatch.sinks.store.store import Store
from gapwatch.sinks.upkeep import compaction
from gapwatch.sinks.upkeep.compaction import Compaction, FileSpace, file_space
from gapwatch.sinks.upkeep.retention import expire_step, moment_before
from gapwatch.sinks.upkeep.tick_joining import join_step
from gapwatch.streams.live import compaction_loop
from gapwatch.streams.live.compaction_loop import compact
from tests.builders import KEPT_AT, whole_slice
from tests.paths import ROOT


def filled(path: Path, commits: int = 6) -> Store:
    store = Store.open(path, create=True)
    for number in range(commits):
        store.write_slice(whole_slice(10 * number, 10 * number + 10), KEPT_AT)
    return store


def contents(store: Store) -> dict[str, Any]:
    """Return all rows of all tables, in their order."""
    names = [name for (name,) in store.query("SELECT table_name FROM duckdb_tables() WHERE NOT internal ORDER BY 1")]
    return {name: store.query(f"FROM {qualified(name)}") for name in names}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with filled(tmp_path / "s.duckdb") as opened:
        yield opened


def test_the_copy_has_all_rows_and_the_store_goes_on(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "_LAST_COMMITS", 1)
    before, inode = contents(store), store.path.stat().st_ino
    copy = Compaction(store)

    copy.begin()
    copy.copy_rows()
    store.write_slice(whole_slice(60, 70), KEPT_AT)  # commits go on meanwhile
    expected = contents(store)
    assert isinstance(copy.finish(), FileSpace)
    copy.end()

    assert contents(store) == expected != before
    assert store.path.stat().st_ino != inode
    store.write_slice(whole_slice(70, 80), KEPT_AT)
    assert imbalance(store.cursor()) == 0
    assert sorted(path.name for path in store.path.parent.iterdir() if "compact" in path.name) == []
    views = "SELECT count(*) FROM duckdb_views() WHERE NOT internal"
    comments = "SELECT count(comment) FROM duckdb_columns() WHERE NOT internal"
    with Store.open(store.path.parent / "new.duckdb", create=True) as new:
        assert [store.query(sql) for sql in (views, comments)] == [new.query(sql) for sql in (views, comments)]


def test_no_stored_row_changes_while_rows_are_copied(store: Store) -> None:
    copy = Compaction(store)
    copy.begin()

    assert expire_step(store, moment_before(timedelta(0))) is None
    assert join_step(store, "live", store.seq) is None
    copy.end()

    assert expire_step(store, moment_before(timedelta(0))) is not None


def test_a_copy_with_other_rows_is_not_put_in_place(store: Store) -> None:
    inode, copy = store.path.stat().st_ino, Compaction(store)
    copy.begin()
    copy._copied = 3  # as if rows had been lost

    with pytest.raises(JobError, match="not as many rows"):
        copy.finish()
    copy.end()

    assert not store.is_broken
    assert store.path.stat().st_ino == inode
    assert imbalance(store.cursor()) == 0


def test_a_reader_ends_before_the_copy_is_put_in_place(store: Store) -> None:
    copy, answers, inode = Compaction(store), list[Any](), store.path.stat().st_ino
    cursor = store.cursor()
    reader = threading.Thread(
        target=lambda: answers.extend(cursor.execute("SELECT sleep_ms(1500)::VARCHAR").fetchall())
    )
    reader.start()
    copy.begin()

    assert copy.finish() is None  # a query runs
    reader.join(20)
    assert len(answers) == 1
    assert copy.finish() is None  # another may follow on this cursor
    assert cursor.execute("SELECT count(*) FROM offsets").fetchall() == [(6,)]
    assert store.path.stat().st_ino == inode
    store.write_slice(whole_slice(60, 70), KEPT_AT)
    cursor.close()
    copy.copy_rows()
    assert copy.finish() is not None
    copy.end()

    assert store.path.stat().st_ino != inode
    assert store.query("SELECT count(*) FROM offsets") == [(7,)]


def test_readers_wait_while_the_copy_is_put_in_place(store: Store) -> None:
    errors, counts, is_over = list[BaseException](), list[Any](), threading.Event()

    def read() -> None:
        while not is_over.is_set():
            try:
                counts.extend(store.query("SELECT count(*) FROM offsets"))
            except (duckdb.Error, JobError) as error:
                errors.append(error)

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    replaced = 0
    for _ in range(5):
        copy = Compaction(store)
        copy.begin()
        copy.copy_rows()
        replaced += copy.finish() is not None
        copy.end()
    is_over.set()
    for reader in readers:
        reader.join(20)

    assert errors == []
    assert set(counts) == {(6,)}
    assert replaced == 5


def test_the_file_shrinks_to_what_is_alive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "LEAST_FREE", 1 << 20)
    shown: dict[str, Any] = {}
    with filled(tmp_path / "s.duckdb", 1) as store:
        sql = """INSERT INTO internal.trace_ids BY NAME SELECT 1 + range // 1000 AS seq, 'live' AS lane,
            'p' AS pipeline, hash(range) AS trace_hash FROM range(400000)"""
        store.change("filling", lambda con: con.execute(sql))  # numbers that do not compress
        store.replace_file(lambda: None)  # a checkpoint
        store.change("deleting", lambda con: con.execute("DELETE FROM internal.trace_ids WHERE seq <= 300"))
        store.replace_file(lambda: None)  # a checkpoint
        before = file_space(store)
        assert before.is_wasteful
        alive = store.query("SELECT count(*), sum(trace_hash) FROM internal.trace_ids")

        async def once() -> None:
            async def on_thread(work: Callable[..., Any], *given: Any) -> Any:
                return work(*given)

            task = asyncio.create_task(compact(store, on_thread, shown.__setitem__))
            while file_space(store).is_wasteful:
                await asyncio.sleep(0.01)
            task.cancel()

        asyncio.run(asyncio.wait_for(once(), 60))
        after = file_space(store)
        assert store.query("SELECT count(*), sum(trace_hash) FROM internal.trace_ids") == alive
    assert shown["gapwatch_store_live_bytes"][()] <= before.file_bytes
    assert (tmp_path / "s.duckdb").stat().st_size < 0.6 * before.file_bytes
    assert after.file_bytes <= 1.3 * after.live_bytes + (1 << 20)


@pytest.mark.slow
def test_the_loop_puts_the_copy_in_place_once_nobody_reads(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "LEAST_FREE", -1)
    monkeypatch.setattr(compaction, "MOST_RATIO", 0)
    monkeypatch.setattr(compaction_loop, "_READERS_SECONDS", 0.1)
    cursor, inode, looks = store.cursor(), store.path.stat().st_ino, list[bool]()

    async def once() -> None:
        async def on_thread(work: Callable[..., Any], *given: Any) -> Any:
            if work.__name__ == "finish" and len(looks) == 2:
                cursor.close()
            done = work(*given)
            if work.__name__ == "finish":
                looks.append(done is not None)
            return done

        task = asyncio.create_task(compact(store, on_thread, lambda *_: None))
        while store.path.stat().st_ino == inode:
            await asyncio.sleep(0.01)
        task.cancel()

    asyncio.run(asyncio.wait_for(once(), 60))

    assert looks == [False, False, True]
    assert store.query("SELECT count(*) FROM offsets") == [(6,)]


#: Forks a child for each point; it dies there in the middle of a copy.
KILLED = """
import os, signal, sys
from pathlib import Path
from gapwatch.sinks.store.store import Store
from gapwatch.sinks.upkeep import compaction
from gapwatch.sinks.upkeep.compaction import Compaction
from tests.builders import KEPT_AT, whole_slice

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

def run(path, point):
    compaction._LAST_COMMITS = 1
    store = Store.open(path)
    copy = Compaction(store)
    copy.begin()
    if point == "begun":
        die()
    copy.copy_rows()
    store.write_slice(whole_slice(60, 70), KEPT_AT)
    if point == "copied":
        die()
    place = copy._place
    if point == "closed":
        copy._place = die
    elif point == "renamed":
        copy._place = lambda: (place(), die())
    copy.finish()
    die()

for point in sys.argv[2:]:
    child = os.fork()
    if child == 0:
        run(Path(sys.argv[1]) / f"{point}.duckdb", point)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL, status
"""


@pytest.mark.slow
def test_a_process_killed_at_any_step_leaves_a_whole_file(tmp_path: Path) -> None:
    points = ["begun", "copied", "closed", "renamed", "done"]
    for point in points:
        filled(tmp_path / f"{point}.duckdb").close()

    subprocess.run([sys.executable, "-c", KILLED, str(tmp_path), *points], cwd=ROOT, check=True, timeout=120)

    for point in points:
        with Store.open(tmp_path / f"{point}.duckdb") as store:
            whole = 6 if point == "begun" else 7
            assert store.query("SELECT count(*), sum(records)::BIGINT FROM offsets") == [(whole, 10 * whole)], point
            assert imbalance(store.cursor()) == 0
            copy = Compaction(store)  # what was left behind is no obstacle
            copy.begin()
            copy.copy_rows()
            assert copy.finish() is not None
            copy.end()
            assert store.query("SELECT count(*) FROM offsets") == [(whole,)]
    assert {path.name for path in tmp_path.iterdir()} == {f"{point}.duckdb" for point in points}
