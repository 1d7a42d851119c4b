"""`gapwatch migrate` converts a store of version 3, keeps the old file, and leaves it as it was if anything fails."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
from collections import namedtuple
from pathlib import Path
from typing import Any

import duckdb
import pytest

from gapwatch.scorers.errors import JobError, StoreError
from gapwatch.sinks.commands import migrate as migrate_command
from gapwatch.sinks.migration import migrating
from gapwatch.sinks.migration.converting import convert
from gapwatch.sinks.migration.migrating import migrate
from gapwatch.sinks.store.schema import INTERNAL_TABLES, SCHEMA_VERSION
from gapwatch.sinks.store.store import Store
from gapwatch.streams.alerting.incidents.incident_book import incident_id_of
from tests.gapwatch_command import gapwatch
from tests.paths import ROOT
from tests.sinks.migration.old_stores import old_store

HOLD = """
import sys, duckdb
con = duckdb.connect(sys.argv[1])
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def old(tmp_path: Path) -> Path:
    return old_store(tmp_path)


def silent(table: str, copied: int, total: int) -> None:
    pass


def rows_of(path: Path) -> dict[str, list[Any]]:
    """All rows of all tables in their order; samples without their text."""
    with duckdb.connect(str(path), read_only=True) as con:
        names = con.execute("SELECT schema_name, table_name FROM duckdb_tables()").fetchall()
        return {
            table: con.execute(
                f"SELECT * {'EXCLUDE (record)' if table == 'samples' else ''} FROM {schema}.{table}"
            ).fetchall()
            for schema, table in names
            if table != "store"
        }


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_every_row_of_every_table_is_there_in_its_order(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migrate_command, "_SHOW_SECONDS", float("inf"))  # a slow one says how far it is
    before = rows_of(old)
    done = gapwatch("migrate", "--store", old)
    assert (done.status, done.err) == (0, "")
    assert f"has version {SCHEMA_VERSION} now, before 3" in done.out
    assert f"the old file is {old}.v3.backup" in done.out
    after = rows_of(old)
    # Incidents have a test of their own; the others have more columns.
    changed = {"alerts", "shifts", "watched", "trace_ids"}
    assert {table: after[table] for table in before if table not in changed} == {
        table: rows for table, rows in before.items() if table not in changed
    }
    assert {table: len(after[table]) for table in changed} == {table: len(before[table]) for table in changed}
    assert sum(len(rows) for rows in before.values()) > 6_000
    assert rows_of(old.with_name("s.duckdb.v3.backup")) == before
    assert names_in(old.parent) == ["s.duckdb", "s.duckdb.v3.backup"]


def test_groups_of_alerts_become_incidents(old: Path) -> None:
    with duckdb.connect(str(old), read_only=True) as con:
        groups = con.execute("SELECT alert_id, state, severity, group_id FROM alerts ORDER BY rowid").fetchall()
    migrate(old, silent)
    with Store.open(old) as store:
        alerts = store.query("SELECT alert_id, state, severity, incident_id FROM alerts ORDER BY rowid")
        incidents = store.query("SELECT incident_id, state, severity, members, component FROM incidents")
        kinds = store.query("SELECT DISTINCT kind FROM shifts")
        opened = store.query("SELECT incident_id, state FROM incidents_open")

    assert [row[:3] for row in alerts] == [row[:3] for row in groups]
    assert [row[3] for row in alerts] == [
        None if state == "noted" else incident_id_of(group) for _, state, _, group in groups
    ]
    last = {alert_id: state for alert_id, state, *_ in groups if state != "noted"}
    assert {alert for row in incidents for alert in json.loads(row[3])} == set(last)
    assert [state for _, state in opened] == [state for state in last.values() if state in ("open", "acknowledged")]
    assert kinds == [("shift",)]


def test_a_migrated_store_is_one_of_this_version(old: Path, tmp_path: Path) -> None:
    with duckdb.connect(str(old), read_only=True) as con:
        created = con.execute("SELECT created_at FROM store").fetchall()[0][0]
    migrate(old, silent)
    Store.open(tmp_path / "new.duckdb", create=True).close()
    catalogs = []
    for path in (old, tmp_path / "new.duckdb"):
        with duckdb.connect(str(path), read_only=True) as con:
            catalogs.append(
                con.execute(
                    """SELECT schema_name, table_name, column_name, data_type, "comment" FROM duckdb_columns()
                        WHERE NOT internal ORDER BY ALL"""
                ).fetchall()
            )
    assert catalogs[0] == catalogs[1]
    assert {table for schema, table, *_ in catalogs[0] if schema == "internal"} == INTERNAL_TABLES
    with Store.open(old) as store:
        assert store.id == f"{created:%Y-%m-%dT%H:%M:%S.%f}Z"  # alerts that were sent name it


COMMANDS = {
    "alerts": ("add5bcb4d0", "acknowledged"),
    "explain add5bcb4d0": ("parses", "acknowledged"),
    "rates --per all": ("answer_parses", "lookup_finds"),
    "gaps --metric lookup_finds --limit 3": ("t003", "output is present"),
    "gaps --trace t00355": ("Where is parcel", "answer_parses"),
    "ledger": ("balanced",),
    "dead-letters": ("missing_field", "not_json"),
    "judge agreement": ("mini", "large"),
    "history SELECT*FROM@verdicts@WHERE@overridden": ("the caller copes",),
    "snapshot": ("s.duckdb.snapshots",),
    "annotate hello": ("noted",),
    "override traces.jsonl/0/400/0/answer_parses --outcome pass --why seen": ("pass",),
}


def test_every_command_reads_a_migrated_store(old: Path) -> None:
    migrate(old, silent)
    for command, texts in COMMANDS.items():
        done = gapwatch(*(word.replace("@", " ") for word in command.split()), "--store", old)
        assert done.status == 0, (command, done.err)
        assert [text for text in texts if text not in done.out + done.err] == [], command


@pytest.mark.slow
def test_the_text_of_old_samples_becomes_readable_by_any_duckdb(old: Path) -> None:
    migrate(old, silent)
    with duckdb.connect(str(old), read_only=True) as con:
        texts = con.execute("""SELECT "text"->>'$.spans[0].input' FROM failing_traces WHERE pipeline = 'support'""")
        found = [text for (text,) in texts.fetchall() if text is not None]
    assert len(found) > 50
    assert all(text.startswith("Where is parcel") for text in found)


@pytest.mark.parametrize("command", ["rates", "alerts", "annotate hello", "ledger"])
def test_an_old_store_names_the_command_that_migrates_it(old: Path, command: str) -> None:
    done = gapwatch(*command.split(), "--store", old)
    assert done.status == 2
    assert f"run `gapwatch migrate --store {old}`" in done.err


def test_a_second_migration_does_nothing(old: Path) -> None:
    migrate(old, silent)
    before = old.read_bytes()
    done = gapwatch("migrate", "--store", old)
    assert (done.status, done.out) == (0, f"{old} has version {SCHEMA_VERSION} already; nothing to do\n")
    assert old.read_bytes() == before


def test_a_store_in_use_is_not_migrated(old: Path) -> None:
    before = old.read_bytes()
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(old)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        done = gapwatch("migrate", "--store", old)
        holder.communicate("")
    assert done.status == 2
    assert f"held by another process, pid {holder.pid}" in done.err
    assert old.read_bytes() == before
    assert names_in(old.parent) == ["s.duckdb"]


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("UPDATE store SET schema_version = 2", "from before the first release"),
        ("UPDATE store SET schema_version = 99", "upgrade Gapwatch"),
        ("UPDATE store SET program = 'other'", "another program"),
        ("DROP TABLE store", "another program"),
    ],
)
def test_what_cannot_be_migrated_is_refused_and_left_alone(old: Path, statement: str, said: str) -> None:
    with duckdb.connect(str(old)) as con:
        con.execute(statement)
    before = old.read_bytes()
    done = gapwatch("migrate", "--store", old)
    assert done.status == 2
    assert said in done.err
    assert old.read_bytes() == before
    assert names_in(old.parent) == ["s.duckdb"]


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    (tmp_path / "s.duckdb").write_bytes(b"hello\n" * 10_000)
    for name, said in (("s.duckdb", "not a DuckDB file"), ("none.duckdb", "there is no store"), (".", "a directory")):
        done = gapwatch("migrate", "--store", tmp_path / name)
        assert (done.status, said in done.err) == (2, True), done.err


def test_the_address_of_a_running_process_is_refused() -> None:
    done = gapwatch("migrate", "--store", "http://127.0.0.1:9")
    assert (done.status, "name the file of its store" in done.err) == (2, True), done.err


def test_without_room_on_the_disk_nothing_is_written(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(10**9, 10**9, 5 * 2**20))
    done = gapwatch("migrate", "--store", old)
    assert done.status == 1
    assert "MiB of free disk" in done.err
    assert names_in(old.parent) == ["s.duckdb"]


def test_an_interrupt_leaves_the_old_store(old: Path) -> None:
    before = old.read_bytes()

    def interrupt(table: str, copied: int, total: int) -> None:
        if table == "ticks":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        migrate(old, interrupt)
    assert old.read_bytes() == before
    assert names_in(old.parent) == ["s.duckdb"]


KILL = """
import os, pathlib, sys
from gapwatch.sinks.commands import migrate as migrate_command
from gapwatch.sinks.migration import migrating
path, where = pathlib.Path(sys.argv[1]), sys.argv[2]
if where == "copying":
    migrating.migrate(path, lambda table, copied, total: table == "ticks" and os._exit(9))
back_up = migrating._back_up
def die(*arguments):
    back_up(*arguments)
    os._exit(9)
migrating._back_up = die
migrating.migrate(path, lambda *_: None)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("where", "left"), [("copying", 2), ("backed up", 3)])
def test_a_killed_migration_leaves_the_old_store_and_a_second_one_cleans_up(old: Path, where: str, left: int) -> None:
    before = old.read_bytes()
    killed = subprocess.run([sys.executable, "-c", KILL, str(old), where], cwd=ROOT, check=False)
    assert killed.returncode == 9
    assert old.read_bytes() == before
    assert len([name for name in names_in(old.parent) if not name.endswith((".wal", ".tmp"))]) == left
    assert migrate(old, silent).backup == old.with_name("s.duckdb.v3.backup")
    assert names_in(old.parent) == ["s.duckdb", "s.duckdb.v3.backup"]


@pytest.mark.slow
def test_a_store_that_changes_meanwhile_is_not_replaced(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def converting(path: Path, new: Path, progress: Any) -> dict[str, int]:
        rows = convert(path, new, progress)
        with duckdb.connect(str(path)) as con:
            con.execute("INSERT INTO annotations VALUES (NULL, NULL, 'written meanwhile', NULL)")
        return rows

    monkeypatch.setattr(migrating, "convert", converting)
    with pytest.raises(StoreError, match="another process wrote it during its migration"):
        migrate(old, silent)
    assert ("written meanwhile",) in [row[2:3] for row in rows_of(old)["annotations"]]


@pytest.mark.slow
def test_the_write_ahead_log_of_a_killed_process_is_migrated_too(old: Path) -> None:
    code = f"""
import duckdb, os
con = duckdb.connect({str(old)!r})
con.execute("INSERT INTO annotations VALUES (NULL, NULL, 'only in the log', NULL)")
os._exit(0)
"""
    subprocess.run([sys.executable, "-c", code], check=True)
    assert old.with_name("s.duckdb.wal").stat().st_size > 0
    migrate(old, silent)
    assert "only in the log" in {row[2] for row in rows_of(old)["annotations"]}
    assert names_in(old.parent) == ["s.duckdb", "s.duckdb.v3.backup"]


def test_a_link_stays_a_link_and_the_mode_stays(old: Path, tmp_path: Path) -> None:
    old.chmod(0o640)
    link = tmp_path / "link.duckdb"
    link.symlink_to(old)
    migrate(link, silent)
    assert link.is_symlink()
    assert stat.S_IMODE(old.stat().st_mode) == 0o640


@pytest.mark.slow
def test_earlier_backups_stay(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_links(source: Path, target: Path) -> None:
        raise OSError("no hard links here")

    monkeypatch.setattr(os, "link", no_links)
    old.with_name("s.duckdb.v3.backup").write_text("mine")
    before = old.read_bytes()
    assert migrate(old, silent).backup == old.with_name("s.duckdb.v3.backup.1")
    assert old.with_name("s.duckdb.v3.backup").read_text() == "mine"
    assert old.with_name("s.duckdb.v3.backup.1").read_bytes() == before


def test_a_full_disk_is_an_error_of_the_job(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, new: Path, progress: Any) -> dict[str, int]:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(migrating, "convert", full)
    with pytest.raises(JobError, match=r"is as it was.*No space left"):
        migrate(old, silent)
