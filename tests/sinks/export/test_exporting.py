"""An export has each row of its stores once, whatever happened in between, and answers as the stores do."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from gapwatch.sinks.commands.options import reading
from gapwatch.sinks.export.delta_place import DeltaPlace, delta_message
from gapwatch.sinks.export.exported_tables import BY_COMMIT, EXPORTED, WHOLE
from gapwatch.sinks.export.exporting import Exported, export_store
from gapwatch.sinks.store.store import Store
from gapwatch.sinks.upkeep.compaction import Compaction
from gapwatch.sinks.upkeep.retention import expire_step
from gapwatch.sinks.upkeep.tick_joining import join_step
from tests.builders import KEPT_AT, NOON, scored_slice, whole_slice
from tests.gapwatch_command import gapwatch
from tests.live_store import Kept, airline_portfolio, airline_slices
from tests.paths import ROOT
from tests.sinks.export.meddled_reader import MeddledReader

RATES = "SELECT metric, hour, units, bad, rate, lower, upper FROM rates ORDER BY ALL"
TICKS = """SELECT lane, metric, bucket, level, facet, value, outcome, sum(n)::BIGINT AS n FROM ticks
    GROUP BY ALL ORDER BY ALL"""


def export(store: Path, folder: Path) -> Exported:
    with reading(store) as con:
        return export_store(con, DeltaPlace(str(folder)), lambda *_: None)


def asked(place: Any, *queries: str) -> list[list[Any]]:
    with reading(place) as con:
        return [con.execute(query).fetchall() for query in queries]


def contents(place: Any) -> dict[str, list[Any]]:
    """Return the rows of all exported tables in the columns of the store."""
    more = {"ticks": "keeper, hour"}
    left_out = {
        name: f"EXCLUDE ({more.get(name, 'keeper')})" if isinstance(place, DeltaPlace) else "" for name in EXPORTED
    }
    queries = [f"SELECT * {left_out[name]} FROM {name} ORDER BY ALL" for name in EXPORTED]
    return dict(zip(EXPORTED, asked(place, *queries), strict=True))


def versions(folder: Path) -> dict[str, int]:
    return {path.name: DeltaTable(str(path)).version() for path in sorted(folder.iterdir())}


def fill(path: Path, slices: int = 4, first: int = 0, partition: int = 0) -> None:
    with Store.open(path, create=True) as store:
        store.register(airline_portfolio(), [])
        for number in range(first, first + slices):
            store.write_slice(whole_slice(10 * number, 10 * number + 10, partition=partition), KEPT_AT)


def hourly(from_offset: int, hour: int, n: int = 1) -> Any:
    """A slice of ticks in one hour of event time; more of an hour that was exported are late data."""
    bucket = NOON + timedelta(hours=hour)
    ledger = [{"state": "read", "n": n}, {"metric": "answer_parses", "state": "pass", "n": n}]
    ticks = [
        {"bucket": bucket, "fold_bucket": bucket, "outcome": "good", "n": n},
        {"bucket": bucket, "fold_bucket": bucket, "level": "span", "outcome": "pass", "n": n},
    ]
    return scored_slice(from_offset, from_offset + n, ticks=ticks, ledger=ledger)


def test_an_export_has_what_the_store_has(tmp_path: Path) -> None:
    fill(tmp_path / "s.duckdb")
    place = DeltaPlace(str(tmp_path / "history"))

    done = export(tmp_path / "s.duckdb", tmp_path / "history")

    stored = contents(tmp_path / "s.duckdb")
    assert contents(place) == stored
    assert done.rows == {name: len(rows) for name, rows in stored.items()}
    assert done.rows["gaps"] == 40
    assert asked(place, RATES) == asked(tmp_path / "s.duckdb", RATES) != [[]]
    views = ("verdicts", "rates_by", "component_rates", "failing_traces", "costs", "alerts_open", "incidents_open")
    counts = [f"SELECT '{view}', count(*) FROM {view}" for view in views]
    assert asked(place, *counts) == asked(tmp_path / "s.duckdb", *counts)


def test_histograms_and_evidence_of_real_traces_are_exported(tmp_path: Path) -> None:
    path, folder = tmp_path / "s.duckdb", tmp_path / "history"
    with Store.open(path, create=True) as store:
        store.register(airline_portfolio(), [])
        for scored in airline_slices(60):
            store.write_slice(scored, KEPT_AT)

    export(path, folder)

    stored = contents(path)
    assert contents(DeltaPlace(str(folder))) == stored
    assert asked(path, "SELECT count(*) > 0 FROM ticks WHERE histogram IS NOT NULL") == [[(True,)]]
    for sql in (RATES, "SELECT metric, outcome, expected, count(*) FROM verdicts GROUP BY ALL ORDER BY ALL"):
        assert asked(DeltaPlace(str(folder)), sql) == asked(path, sql)


def test_a_second_export_writes_what_is_new(tmp_path: Path) -> None:
    path, folder = tmp_path / "s.duckdb", tmp_path / "history"
    fill(path)
    export(path, folder)
    before = versions(folder)

    assert set(export(path, folder).rows.values()) == {0}
    assert versions(folder) == before
    fill(path, 2, first=4)
    done = export(path, folder)

    assert done.rows["gaps"] == 20
    assert contents(DeltaPlace(str(folder))) == contents(path)


def test_late_data_and_joined_ticks_replace_their_hour(tmp_path: Path) -> None:
    path, folder = tmp_path / "s.duckdb", tmp_path / "history"
    with Store.open(path, create=True) as store:
        for number, hour in enumerate([0, 0, 1, 2]):
            store.write_slice(hourly(number, hour), KEPT_AT)
    export(path, folder)
    with Store.open(path) as store:
        assert join_step(store, "live", 4) is not None
        store.write_slice(hourly(4, 0), KEPT_AT)  # late
    stored = contents(path)

    done = export(path, folder)

    assert contents(DeltaPlace(str(folder))) == stored
    assert done.rows["ticks"] == 4  # hour 0: two joined rows, and two late ones
    assert sum(row[-1] for row in asked(DeltaPlace(str(folder)), TICKS)[0]) == 10


def test_expired_rows_stay_in_the_export(tmp_path: Path) -> None:
    path, folder = tmp_path / "s.duckdb", tmp_path / "history"
    old, new = KEPT_AT - timedelta(days=40), datetime.now(UTC)
    with Store.open(path, create=True) as store:
        for number, hour in enumerate([0, 0, 1]):
            store.write_slice(hourly(number, hour), old)
        store.write_slice(hourly(3, 1), new)
    export(path, folder)
    before = asked(path, TICKS)[0]
    with Store.open(path) as store:
        assert expire_step(store, (new - timedelta(days=1)).replace(tzinfo=None)) is not None
        assert store.query("SELECT sum(n)::BIGINT FROM ticks") == [(2,)]
    export(path, folder)

    assert asked(DeltaPlace(str(folder)), TICKS)[0] == before
    with Store.open(path) as store:
        store.write_slice(hourly(4, 1, n=5), new)  # late, in an hour of which some rows have expired
        store.write_slice(hourly(9, 0, n=7), new)  # late, in one of which all have
    done = export(path, folder)

    got = asked(DeltaPlace(str(folder)), "SELECT hour, level, sum(n)::BIGINT FROM ticks GROUP BY ALL ORDER BY ALL")[0]
    assert got == [
        ("2026-03-22T12", "span", 9), ("2026-03-22T12", "unit", 9),
        ("2026-03-22T13", "span", 7), ("2026-03-22T13", "unit", 7),
    ]  # fmt: skip
    assert done.lost_until == 0
    assert asked(DeltaPlace(str(folder)), "SELECT count(*), sum(records)::BIGINT FROM offsets") == [[(6, 16)]]
    ledger = "SELECT sum(n)::BIGINT FROM ledger WHERE metric IS NULL"
    assert asked(DeltaPlace(str(folder)), ledger) == [[(16,)]]


def test_commits_that_expired_unexported_are_named(tmp_path: Path) -> None:
    path, folder = tmp_path / "s.duckdb", tmp_path / "history"
    fill(path)
    with Store.open(path) as store:
        assert expire_step(store, datetime.now(UTC).replace(tzinfo=None)) is not None
        store.write_slice(whole_slice(40, 50), KEPT_AT)

    ran = gapwatch("export", "--store", path, "--to", folder)

    assert ran.status == 0
    assert "commits up to 4 had expired before they were exported" in ran.err
    assert asked(DeltaPlace(str(folder)), "SELECT count(*) FROM gaps") == [[(10,)]]


def test_beside_a_process_that_writes_all_is_exported(tmp_path: Path) -> None:
    path, folder = tmp_path / "s.duckdb", tmp_path / "history"
    hour = datetime.now(UTC).replace(tzinfo=None, minute=0, second=0, microsecond=0)
    now_hour = round((hour - NOON) / timedelta(hours=1))
    with Kept(path, portfolios=[]) as kept:
        kept.write_slice(whole_slice(0, 10))
        kept.write_slice(hourly(10, now_hour))
        for offset, store in ((11, path), (12, kept.server.url)):
            ran = gapwatch("export", "--store", store, "--to", folder)
            assert ran.status == 0, ran.err
            assert contents(DeltaPlace(str(folder))) == contents(path)
            kept.write_slice(hourly(offset, now_hour))
    export(path, folder)

    assert contents(DeltaPlace(str(folder))) == contents(path)


#: Exports again and again; each child is killed before or after its n-th write.
KILLED = """
import os, signal, sys
from pathlib import Path
from gapwatch.sinks.commands.options import reading
from gapwatch.sinks.export import delta_tables
from gapwatch.sinks.export.delta_place import DeltaPlace, delta_message
from gapwatch.sinks.export.exporting import export_store

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

store, folder, at, when = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4]
write, count = delta_tables.DeltaTables.write, 0

def mortal(self, table, batches, *more):
    global count
    count += 1
    if count == at and when == "before":
        die()
    if count == at and when == "within":
        batches = (batch if number == 0 else die() for number, batch in enumerate([*batches, None]))
    write(self, table, batches, *more)
    if count == at and when == "after":
        die()

delta_tables.DeltaTables.write = mortal
with reading(store) as con:
    export_store(con, DeltaPlace(folder), lambda *_: None)
"""


@pytest.mark.slow
def test_an_export_that_is_killed_is_repeated_without_a_row_lost_or_doubled(tmp_path: Path) -> None:
    path, folder = tmp_path / "s.duckdb", tmp_path / "history"
    deaths, points = 0, [(at, when) for at in (1, 2, 4) for when in ("before", "within", "after")]
    for first, (at, when) in enumerate(points):
        fill(path, 1, first=first)
        command = [sys.executable, "-c", KILLED, str(path), str(folder), str(at), when]
        status = subprocess.run(command, cwd=ROOT, timeout=120, check=False).returncode
        assert status in (0, -9)
        deaths += status == -9
    export(path, folder)

    assert deaths >= 7
    assert contents(DeltaPlace(str(folder))) == contents(path)


LOOP = """
import sys
from pathlib import Path
from tests.builders import KEPT_AT, whole_slice
from tests.sinks.export.test_exporting import export, fill

path, partition = Path(sys.argv[1]), int(sys.argv[3])
for number in range(6):
    fill(path, 1, first=number, partition=partition)
    export(path, Path(sys.argv[2]))
"""


@pytest.mark.slow
def test_two_processes_export_into_one_place(tmp_path: Path) -> None:
    folder = tmp_path / "history"
    paths = [tmp_path / f"{name}.duckdb" for name in "ab"]
    running = [
        subprocess.Popen([sys.executable, "-c", LOOP, str(path), str(folder), str(partition)], cwd=ROOT)
        for partition, path in enumerate(paths)
    ]
    assert [one.wait(240) for one in running] == [0, 0]

    one, other = (contents(path) for path in paths)
    both = contents(DeltaPlace(str(folder)))
    for name in EXPORTED:
        assert sorted(both[name], key=repr) == sorted(one[name] + other[name], key=repr), name
    assert asked(DeltaPlace(str(folder)), "SELECT count(DISTINCT keeper) FROM gaps") == [[(2,)]]
    assert asked(DeltaPlace(str(folder)), "SELECT sum(units)::BIGINT FROM rates") == [[(120,)]]


@pytest.mark.slow
def test_two_exports_of_one_store_at_the_same_time_double_nothing(tmp_path: Path) -> None:
    path, folder = tmp_path / "s.duckdb", tmp_path / "history"
    fill(path, 20)
    program = "import sys; from pathlib import Path; from tests.sinks.export.test_exporting import export\n"
    program += "export(Path(sys.argv[1]), Path(sys.argv[2]))"
    command = [sys.executable, "-c", program, str(path), str(folder)]
    running = [subprocess.Popen(command, cwd=ROOT) for _ in range(3)]

    assert [one.wait(240) for one in running] == [0, 0, 0]
    assert contents(DeltaPlace(str(folder))) == contents(path)


def test_reading_commands_take_an_export(tmp_path: Path) -> None:
    path, folder = tmp_path / "s.duckdb", tmp_path / "history"
    fill(path)
    export(path, folder)
    for command in (["rates"], ["gaps"], ["dead-letters"], ["history", "SELECT count(*) FROM gaps"]):
        there, here = (gapwatch(*command, "--store", store) for store in (f"delta:{folder}", path))
        assert (there.status, there.out) == (0, here.out), (command, there.err)
    refused = gapwatch("history", "SELECT * FROM read_text('/etc/hostname')", "--store", f"delta:{folder}")
    assert refused.status == 2
    refused_commands = (
        ["annotate", "x"],
        ["snapshot"],
        ["export", "--to", tmp_path / "other"],
        ["alerts"],
        ["explain", "a1"],
    )
    for command in refused_commands:
        ran = gapwatch(*command, "--store", f"delta:{folder}")
        assert ran.status == 2, command
        assert "export" in ran.err
    hint = re.search(r"gapwatch history '(.*)' --store (\S+)", gapwatch("alerts", "--store", f"delta:{folder}").err)
    assert hint is not None
    assert gapwatch("history", hint[1], "--store", hint[2]).status == 0


def test_a_wrong_place_is_refused_in_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "s.duckdb"
    fill(path, 1)

    def says(place: object, status: int, words: str) -> None:
        ran = gapwatch("export", "--store", path, "--to", place)
        assert (ran.status, words in ran.err) == (status, True), ran.err
        assert "Traceback" not in ran.err

    says("gs://bucket/x", 2, "give a folder, or s3://BUCKET/PREFIX")
    says("s3://key:secret@bucket/x", 2, "a place has no key in it")
    says("", 2, "names no folder")
    says(tmp_path / "100%25", 2, "with % in its path")
    says("/proc/none/here", 1, "cannot be written")
    (tmp_path / "a_file").write_text("x")
    says(tmp_path / "a_file", 1, "cannot be")
    foreign = tmp_path / "foreign"
    write_deltalake(str(foreign / "store"), pa.table({"x": [1]}))
    says(foreign, 2, "is a table of another program")
    other = tmp_path / "other"
    (other / "store").mkdir(parents=True)
    (other / "store" / "notes.txt").write_text("x")
    says(other, 2, "is not a table of Gapwatch")
    newer = tmp_path / "newer"
    export(path, newer)
    log = newer / "store" / "_delta_log" / "00000000000000000000.json"
    log.write_text(log.read_text().replace("schema version 7", "schema version 8"))
    says(newer, 2, "has schema version 8")
    assert gapwatch("history", "SELECT 1", "--store", f"delta:{tmp_path / 'nothing'}").status == 2
    copy = shutil.copy(path, tmp_path / "copy.duckdb")
    fill(path, 1, first=1)
    export(path, tmp_path / "history")
    ran = gapwatch("export", "--store", copy, "--to", tmp_path / "history")
    assert (ran.status, "it is an older copy" in ran.err) == (1, True), ran.err
    monkeypatch.setitem(sys.modules, "deltalake", None)
    says(tmp_path / "history", 2, "pip install 'gapwatch[export]'")


def test_a_full_disk_is_told_on_one_line_with_what_to_do() -> None:
    nested = (
        "Generic LocalFileSystem error\n          ↳ Unable to copy data to file\n           ↳ No space left on device"
    )

    assert delta_message(OSError(nested)) == (
        "Generic LocalFileSystem error: Unable to copy data to file: No space left on device; make room and export "
        "again, it continues where it was"
    )


def test_the_file_of_the_store_is_replaced_during_an_export(tmp_path: Path) -> None:
    path, place = tmp_path / "s.duckdb", DeltaPlace(str(tmp_path / "history"))
    with Kept(path, portfolios=[]) as kept:
        for number in range(6):
            kept.write_slice(whole_slice(10 * number, 10 * number + 10))
        replaced = 0

        def compact() -> None:
            nonlocal replaced
            copy = Compaction(kept.store)
            copy.begin()
            copy.copy_rows()
            assert copy.finish() is not None
            copy.end()
            replaced += 1  # not told by the inode, whose number a later file may have again

        with reading(path) as con:
            export_store(MeddledReader(con, every=9, meddle=compact), place, lambda *_: None)
        assert replaced > 2
        assert contents(place) == contents(path)


def test_no_key_is_in_a_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "s.duckdb"
    fill(path, 1)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key-of-the-test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret-of-the-test")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9/secret-of-the-test")
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    monkeypatch.setenv("AWS_REGION", "us-east-1")

    ran = gapwatch("export", "--store", path, "--to", "s3://bucket/history")

    assert ran.status == 1
    assert "s3://bucket/history cannot be" in ran.err
    assert "of-the-test" not in ran.err + ran.out


def test_texts_and_internal_tables_are_not_exported() -> None:
    assert {"samples", "outbox", "trace_ids", "judge_requests"} & set(EXPORTED) == set()
    assert len(set(EXPORTED)) == len(WHOLE) + len(BY_COMMIT) + 1
