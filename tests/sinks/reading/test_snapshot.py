"""Snapshots: the tables of one commit as Parquet, of a closed store and of a store in use."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import duckdb
import pytest

from gapwatch.scorers.errors import JobError, UsageError
from gapwatch.sinks.reading.snapshot import snapshots_folder, take_snapshot
from gapwatch.sinks.store.store import Store
from tests.builders import KEPT_AT, whole_slice
from tests.gapwatch_command import gapwatch
from tests.http_client import post
from tests.live_store import Kept

ROWS = "SELECT * EXCLUDE (kept_at) FROM gaps ORDER BY ALL"
RATES = "SELECT metric, units, bad, rate, lower, upper FROM rates ORDER BY ALL"


def asked(folder: Path, *queries: str) -> list[list[tuple[object, ...]]]:
    """Ask a snapshot as its reader would: in its folder, by the names of tables and views."""
    here = Path.cwd()
    os.chdir(folder)
    try:
        with duckdb.connect() as con:
            con.execute((folder / "views.sql").read_text())
            return [con.execute(query).fetchall() for query in queries]
    finally:
        os.chdir(here)


def test_a_store_at_rest_becomes_files_that_answer_as_it_does(tmp_path: Path) -> None:
    path = tmp_path / "s.duckdb"
    with Store.open(path, create=True) as store:
        store.write_slice(whole_slice(0, 60), KEPT_AT)
        expected = [store.query(ROWS), store.query(RATES), store.query("SELECT count(*) FROM verdicts")]
    ran = gapwatch("snapshot", "--store", path, "--name", "first")

    folder = snapshots_folder(path) / "first"
    assert ran.status == 0, ran.err
    assert ran.out.strip() == str(folder)
    assert asked(folder, ROWS, RATES, "SELECT count(*) FROM verdicts") == expected
    told = json.loads((folder / "snapshot.json").read_text())
    assert (told["seq"], told["tables"]["gaps"], told["tables"]["shifts"]) == (1, 60, 0)
    with duckdb.connect(str(path), read_only=True) as con:
        tables = {name for (name,) in con.execute("SELECT table_name FROM duckdb_tables()").fetchall()}
    assert tables == set(told["tables"]) == {file.stem for file in folder.glob("*.parquet")}


def test_beside_the_keeper_it_holds_one_commit_and_keeping_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "s.duckdb"
    ended = threading.Event()
    with Kept(path, portfolios=[]) as kept:
        kept.write_slice(whole_slice(0, 30))

        def snapshots() -> None:
            try:
                for n in range(3):
                    taken.append(gapwatch("snapshot", "--store", path, "--name", f"n{n}"))
            finally:
                ended.set()

        taken: list[object] = []
        thread = threading.Thread(target=snapshots)
        thread.start()
        commits = 1
        # A short pause after each commit: without one, the keeper leaves the snapshots hardly any time.
        while not ended.wait(0.005) and commits < 20_000:
            kept.write_slice(whole_slice(30 * commits, 30 * commits + 30))
            commits += 1
        thread.join()

    assert [ran.status for ran in taken] == [0, 0, 0]  # type: ignore[attr-defined]
    assert commits > 3
    for n in range(3):
        folder = snapshots_folder(path) / f"n{n}"
        seq = json.loads((folder / "snapshot.json").read_text())["seq"]
        counts = asked(
            folder, *(f"SELECT count(DISTINCT seq), max(seq) FROM {t}" for t in ("gaps", "ticks", "offsets"))
        )
        assert counts == [[(seq, seq)]] * 3
        assert asked(folder, "SELECT count(*) FROM gaps") == [[(30 * seq,)]]


def test_who_has_no_token_or_names_another_folder_is_refused(tmp_path: Path) -> None:
    with Kept(tmp_path / "s.duckdb", portfolios=[]) as kept:
        token = {"Authorization": f"Bearer {kept.server.options.write_token}"}
        assert post(kept.server.url, "/v1/snapshots", {}).status == 401
        for name in ("../up", "/tmp/abs", "", ".hidden", "a/b", "x" * 101, "new\nline", 7):
            assert post(kept.server.url, "/v1/snapshots", {"name": name}, token).status == 400, name
        assert post(kept.server.url, "/v1/snapshots", {"name": "one"}, token).status == 200
        again = post(kept.server.url, "/v1/snapshots", {"name": "one"}, token)
        assert again.status == 400
        assert "already" in again.json()["error"]
    assert [entry.name for entry in tmp_path.iterdir() if "snapshots" in entry.name] == ["s.duckdb.snapshots"]
    assert [entry.name for entry in snapshots_folder(tmp_path / "s.duckdb").iterdir()] == ["one"]


def test_nothing_is_left_of_one_that_nobody_wants_or_that_was_killed(tmp_path: Path) -> None:
    path = tmp_path / "s.duckdb"
    with Store.open(path, create=True) as store:
        store.write_slice(whole_slice(0, 60), KEPT_AT)
        with pytest.raises(JobError, match="cancelled"):
            take_snapshot(store.cursor(), path, "unwanted", lambda: False)
        abandoned = snapshots_folder(path) / ".killed.99999999.partial"
        abandoned.mkdir()
        take_snapshot(store.cursor(), path, "wanted")
        with pytest.raises(UsageError, match="already"):
            take_snapshot(store.cursor(), path, "wanted")

    assert [entry.name for entry in snapshots_folder(path).iterdir()] == ["wanted"]


def test_where_it_cannot_be_written_it_says_so(tmp_path: Path) -> None:
    path = tmp_path / "s.duckdb"
    Store.open(path, create=True).close()
    snapshots_folder(path).write_text("a file is in the way")
    ran = gapwatch("snapshot", "--store", path)

    assert ran.status == 1
    assert "cannot be written" in ran.err
