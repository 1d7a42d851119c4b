from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest

from gapwatch.scorers.cache_files import write_cached
from gapwatch.scorers.errors import StoreError
from gapwatch.sinks.store import opening
from gapwatch.sinks.store.opening import open_for_reading, remove_unused
from gapwatch.sinks.store.schema import SCHEMA_VERSION, creation_statements
from gapwatch.sinks.store.store import Store
from tests.builders import KEPT_AT, whole_slice
from tests.paths import ROOT

Opener = Callable[[Path], Store | duckdb.DuckDBPyConnection]
OPENERS = pytest.mark.parametrize("open_store", [Store.open, open_for_reading], ids=["for writing", "for reading"])
HOLD = """
import sys
from gapwatch.sinks.store.store import Store
store = Store.open(sys.argv[1], create=True)
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    Store.open(tmp_path / "s.duckdb", create=True).close()
    return tmp_path / "s.duckdb"


@OPENERS
def test_a_missing_store_is_refused_and_not_made(open_store: Opener, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="there is no store") as refused:
        open_store(tmp_path / "none.duckdb")
    assert refused.value.exit_status == 2
    assert not list(tmp_path.iterdir())


@OPENERS
def test_a_missing_directory_is_named(open_store: Opener, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=f"directory {tmp_path}/no of the store s.duckdb does not exist"):
        open_store(tmp_path / "no" / "s.duckdb")


def test_create_does_not_make_directories(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="make it first"):
        Store.open(tmp_path / "no" / "s.duckdb", create=True)


@OPENERS
def test_a_directory_is_no_store(open_store: Opener, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="is a directory"):
        open_store(tmp_path)


@OPENERS
@pytest.mark.parametrize("content", [b"hello\n", b"hello\n" * 10_000, b"\x00" * 20_000], ids=["short", "long", "zeros"])
def test_a_file_of_another_kind_is_refused_and_left_alone(open_store: Opener, tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "s.duckdb"
    path.write_bytes(content)
    with pytest.raises(StoreError, match=r"not a store of Gapwatch|cannot be opened"):
        open_store(path)
    assert path.read_bytes() == content


@OPENERS
def test_an_empty_file_is_no_store(open_store: Opener, tmp_path: Path) -> None:
    (tmp_path / "s.duckdb").touch()
    with pytest.raises(StoreError, match="is empty"):
        open_store(tmp_path / "s.duckdb")


def test_an_empty_file_may_become_a_store(tmp_path: Path) -> None:
    (tmp_path / "s.duckdb").touch()
    Store.open(tmp_path / "s.duckdb", create=True).close()
    open_for_reading(tmp_path / "s.duckdb").close()


@OPENERS
@pytest.mark.parametrize(
    "statement", ["CREATE TABLE gaps (x INTEGER)", "CREATE TABLE store (program VARCHAR, schema_version INTEGER)"]
)
def test_the_file_of_another_program_is_refused_and_left_alone(
    open_store: Opener, tmp_path: Path, statement: str
) -> None:
    path = tmp_path / "s.duckdb"
    with duckdb.connect(str(path)) as con:
        con.execute(statement)
    before = path.read_bytes()
    with pytest.raises(StoreError, match="another program"):
        open_store(path)
    if open_store == Store.open:
        with pytest.raises(StoreError, match="another program"):
            Store.open(path, create=True)
    assert path.read_bytes() == before


@OPENERS
def test_a_store_of_a_newer_version_is_refused(open_store: Opener, path: Path) -> None:
    with duckdb.connect(str(path)) as con:
        con.execute("UPDATE store SET schema_version = schema_version + 1")
    with pytest.raises(StoreError, match=f"version {SCHEMA_VERSION + 1}; .* upgrade Gapwatch"):
        open_store(path)


@OPENERS
def test_a_store_of_an_older_version_is_refused(open_store: Opener, path: Path) -> None:
    with duckdb.connect(str(path)) as con:
        con.execute("UPDATE store SET schema_version = 2")
    with pytest.raises(StoreError, match=r"version 2, from before the first release.* use a new store"):
        open_store(path)


@OPENERS
def test_a_store_of_an_older_version_is_refused_with_the_command_that_migrates_it(
    open_store: Opener, path: Path
) -> None:
    with duckdb.connect(str(path)) as con:
        con.execute("UPDATE store SET schema_version = 3")
    with pytest.raises(StoreError, match=f"run `gapwatch migrate --store {path}`"):
        open_store(path)


@OPENERS
def test_a_store_that_another_process_holds_is_refused_with_its_pid(open_store: Opener, tmp_path: Path) -> None:
    path = tmp_path / "s.duckdb"
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        with pytest.raises(StoreError, match=f"held by another process, pid {holder.pid}"):
            open_store(path)
        holder.communicate("")
    open_store(path).close()


@OPENERS
def test_a_store_that_is_open_in_this_process_is_refused(open_store: Opener, path: Path) -> None:
    with Store.open(path), pytest.raises(StoreError, match="already open in this process"):
        open_store(path)
    open_store(path).close()


def test_a_second_name_for_an_open_store_is_seen_through(path: Path, tmp_path: Path) -> None:
    (tmp_path / "link.duckdb").symlink_to(path)
    with Store.open(path), pytest.raises(StoreError, match="already open"):
        Store.open(tmp_path / "link.duckdb")


@pytest.mark.parametrize("name", [":memory:", "md:x", "s3://a", "x#y", "a'b;c"])
def test_a_name_means_a_file_whatever_it_looks_like(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    (tmp_path / Path(name).parent).mkdir(exist_ok=True)
    monkeypatch.chdir(tmp_path)
    with Store.open(name, create=True) as store:
        store.write_slice(whole_slice(0, 3), KEPT_AT)
    with Store.open(name) as store:
        assert store.position("live", "traces", 0) is not None
    assert (tmp_path / name).is_file()


def test_a_name_that_the_engine_would_take_apart_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="without a \\?"):
        Store.open(tmp_path / "x?access_mode=read_only", create=True)
    assert not list(tmp_path.iterdir())


def test_reading_leaves_the_file_and_its_log_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "s.duckdb"
    with subprocess.Popen(
        [sys.executable, "-c", HOLD.replace("sys.stdin.read()", KEEP_AND_DIE), str(path)], cwd=ROOT,
        stdout=subprocess.DEVNULL,
    ) as holder:  # fmt: skip
        holder.wait()
    files = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    assert len(files["s.duckdb.wal"]) > 0

    con = open_for_reading(path)
    assert con.execute("SELECT count(*) FROM gaps").fetchall() == [(10,)]
    con.close()
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == files


KEEP_AND_DIE = """
import os
from tests.builders import KEPT_AT, whole_slice
store.write_slice(whole_slice(0, 10), KEPT_AT)
os._exit(0)
"""


def test_two_stores_of_one_process_are_told_apart_by_their_time(tmp_path: Path) -> None:
    with Store.open(tmp_path / "a.duckdb", create=True) as one, Store.open(tmp_path / "b.duckdb", create=True) as other:
        one.write_slice(whole_slice(0, 3), KEPT_AT)
        assert one.id != other.id
        assert other.query("SELECT count(*) FROM gaps") == [(0,)]
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.duckdb", "b.duckdb"]


def test_a_creation_that_was_cut_short_leaves_no_half_store(tmp_path: Path) -> None:
    path = tmp_path / "s.duckdb"
    code = f"""
import os, duckdb
con = duckdb.connect({str(path)!r})
con.execute("BEGIN")
con.execute({creation_statements()[0]!r})
os._exit(0)
"""
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
    with Store.open(path, create=True) as store:
        store.write_slice(whole_slice(0, 3), KEPT_AT)


def test_a_store_is_only_deleted_while_nothing_is_stored_in_it(tmp_path: Path) -> None:
    path = tmp_path / "s.duckdb"
    Store.open(path, create=True).close()
    assert remove_unused(path)
    assert list(tmp_path.iterdir()) == []

    with Store.open(path, create=True) as store:
        with pytest.raises(StoreError):
            remove_unused(path)
        store.write_slice(whole_slice(0, 3), KEPT_AT)
    assert not remove_unused(path)
    assert path.exists()


def test_an_empty_store_is_made_once_and_then_read_from_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "cache" / "gapwatch"
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder.parent))

    def as_a_new_process_creates(name: str) -> list[tuple[object, ...]]:
        monkeypatch.setattr(opening, "_empty_store", [])
        with Store.open(tmp_path / name, create=True) as store:
            return store.query("SELECT table_name, column_name, comment FROM duckdb_columns() ORDER BY ALL")

    by_sql = as_a_new_process_creates("by_sql.duckdb")
    [cached] = folder.iterdir()
    assert as_a_new_process_creates("cached.duckdb") == by_sql

    with duckdb.connect(tmp_path / "other.duckdb") as con:
        con.execute("CREATE TABLE store (program VARCHAR, schema_version INTEGER, marked VARCHAR)")
    write_cached(cached.name, (tmp_path / "other.duckdb").read_bytes())
    with pytest.raises(StoreError, match="another program"):  # it is this file that is used
        as_a_new_process_creates("marked.duckdb")

    cached.write_bytes(cached.read_bytes()[:-1])
    assert as_a_new_process_creates("after_damage.duckdb") == by_sql
