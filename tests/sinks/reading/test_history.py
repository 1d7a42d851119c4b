from __future__ import annotations

import csv
import io
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow.parquet
import pytest

from gapwatch.scorers.errors import UsageError
from gapwatch.sinks.reading.history import answering
from gapwatch.sinks.store.store import Store
from tests.builders import KEPT_AT, scored_slice, whole_slice
from tests.gapwatch_command import Ran, gapwatch
from tests.paths import ROOT
from tests.sinks.query_attacks import ATTACKS, SECRET


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("history")
    for name in ("secret.txt", "secret.csv"):
        (folder / name).write_text(f"a,b\n{SECRET},2\n")
    with duckdb.connect(str(folder / "other.duckdb")) as con:
        con.execute(f"CREATE TABLE x AS SELECT '{SECRET}' AS secret")
    with Store.open(folder / "s.duckdb", create=True) as store:
        store.write_slice(whole_slice(0, 30), KEPT_AT)
    return folder


@pytest.fixture(scope="module")
def live(folder: Path) -> Iterator[Store]:
    """Yield a store that is open for writing."""
    with Store.open(folder / "live.duckdb", create=True) as store:
        store.write_slice(whole_slice(0, 30), KEPT_AT)
        yield store


def history(folder: Path, sql: str, *arguments: object) -> Ran:
    return gapwatch("history", sql, "--store", folder / "s.duckdb", *arguments)


@pytest.mark.parametrize("attack", ATTACKS)
def test_what_is_not_reading_is_refused_from_the_command_line(folder: Path, attack: str) -> None:
    files = {file.name: file.stat().st_size for file in folder.iterdir()}
    ran = history(folder, attack.replace("@", str(folder)))

    assert ran.status == 2
    assert ran.err.startswith("gapwatch: the query is refused: ")
    assert "Traceback" not in ran.err
    assert SECRET not in ran.out + ran.err
    assert {file.name: file.stat().st_size for file in folder.iterdir()} == files


@pytest.mark.parametrize("attack", ATTACKS)
def test_what_is_not_reading_is_refused_beside_the_keeper(folder: Path, live: Store, attack: str) -> None:
    cursor = live.cursor()
    with pytest.raises(UsageError), answering(cursor, attack.replace("@", str(folder))) as answer:
        assert SECRET not in str(list(answer.rows))
    assert cursor.execute("SELECT count(*) FROM gaps").fetchall() == [(30,)]
    cursor.close()
    assert not list(folder.glob("stolen*"))


def test_the_keeper_goes_on_after_attacks(live: Store) -> None:
    position = live.position("live", "traces", 0)
    assert position is not None
    live.write_slice(whole_slice(position.to_offset, position.to_offset + 3), KEPT_AT)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(*) FROM gaps",
        "select count(*) from gaps;",
        "-- how many\nSELECT count(*) FROM gaps",
        "WITH x AS (SELECT * FROM gaps) SELECT count(*) FROM x",
        "FROM gaps SELECT count(*)",
        "(SELECT count(*) FROM gaps)",
        "SELECT count(*) FROM verdicts",
        "VALUES (30)",
        "SELECT n FROM (PIVOT (SELECT 30 AS n, 'a' AS k) ON k IN ('a') USING count(*))",
    ],
)
def test_what_reads_is_answered(folder: Path, sql: str) -> None:
    ran = history(folder, sql, "--format", "csv")
    assert (ran.status, ran.out.split("\n")[1]) == (0, "30")


@pytest.mark.parametrize("sql", ["SHOW TABLES", "DESCRIBE gaps", "SUMMARIZE gaps", "SELECT * FROM rates"])
def test_the_store_can_be_explored(folder: Path, sql: str) -> None:
    assert history(folder, sql).status == 0


def test_json_is_an_array_of_objects_with_times_in_z_and_json_nested(folder: Path) -> None:
    sql = """SELECT TIMESTAMP '2026-03-22 12:00:01.5' AS t, TIMESTAMPTZ '2026-03-22 12:00:00+02' AS tz,
        DATE '2026-03-22' AS d, '{"code": ["a.py:1"], "n": NaN}'::JSON AS evidence, NULL::JSON AS nothing,
        'nan'::DOUBLE AS nan, '-inf'::DOUBLE AS inf, 0.1 AS x, 2::BIGINT ** 3 AS y, true AS b,
        170141183460469231731687303715884105727::HUGEINT AS huge, 1.50::DECIMAL(9, 2) AS money,
        MAP {1: 2} AS histogram, {'a': [1, NULL]} AS nested, ['[1]'::JSON] AS list,
        'ü"\n' AS text, '\\xFF'::BLOB AS raw,
        INTERVAL 90 SECONDS AS span, 1 AS same, 2 AS same"""
    ran = history(folder, sql, "--format", "json")

    assert ran.status == 0
    assert ran.json() == [
        {
            "t": "2026-03-22T12:00:01.500000Z",
            "tz": "2026-03-22T10:00:00Z",
            "d": "2026-03-22",
            "evidence": {"code": ["a.py:1"], "n": None},
            "nothing": None,
            "nan": None,
            "inf": None,
            "x": 0.1,
            "y": 8.0,
            "b": True,
            "huge": 170141183460469231731687303715884105727,
            "money": 1.5,
            "histogram": {"1": 2},
            "nested": {"a": [1, None]},
            "list": [[1]],
            "text": 'ü"\n',
            "raw": "ff",
            "span": 90.0,
            "same": 1,
            "same_1": 2,
        }
    ]


@pytest.mark.parametrize(
    "value",
    [
        "'infinity'::TIMESTAMP",
        "'290000-01-01'::TIMESTAMP",
        "'-infinity'::DATE",
        "'0101-01-01 (BC)'::TIMESTAMP",
        "TIME '24:00:00'",
        "uuid()",
        "'101'::BIT",
        "union_value(k := 1)",
        "MAP {[1]: 2}",
        "MAP {TIMESTAMP '2026-01-01': 1}",
        "{'deep': [MAP {'k': 1e400::DOUBLE}]}",
        "1.5::DECIMAL(38, 10)",
        "[340282366920938463463374607431768211455::UHUGEINT]",
        "chr(27) || chr(155) || chr(0)",
        "'{\"a\": 1e999}'::JSON",
    ],
)
def test_any_value_becomes_json_that_any_reader_takes(folder: Path, value: str) -> None:
    ran = history(folder, f"SELECT {value} AS v", "--format", "json")

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    rows = json.loads(ran.out, parse_constant=refuse)
    assert list(rows[0]) == ["v"]
    assert not any((ord(c) < 32 and c != "\n") or 127 <= ord(c) < 160 for c in ran.out)


def test_json_of_no_rows_is_an_empty_array(folder: Path) -> None:
    assert history(folder, "SELECT 1 WHERE false", "--format", "json").json() == []


def test_a_large_answer_is_whole(folder: Path) -> None:
    ran = history(folder, "SELECT range AS i FROM range(12345)", "--format", "json")
    assert [row["i"] for row in ran.json()] == list(range(12345))


def test_csv_is_read_back_as_it_was(folder: Path) -> None:
    ran = history(
        folder, """SELECT 'a,"b"\nc' AS t, NULL AS n, TIMESTAMP '2026-03-22 12:00' AS at""", "--format", "csv"
    )
    assert list(csv.DictReader(io.StringIO(ran.out))) == [{"t": 'a,"b"\nc', "n": "", "at": "2026-03-22T12:00:00Z"}]


def test_parquet_needs_a_file(folder: Path, tmp_path: Path) -> None:
    assert history(folder, "SELECT 1", "--format", "parquet").status == 2
    ran = history(folder, "SELECT * FROM gaps", "--format", "parquet", "--output", tmp_path / "g.parquet")

    table = pyarrow.parquet.read_table(tmp_path / "g.parquet")
    assert (ran.status, ran.out, ran.err) == (0, "", f"30 rows in {tmp_path / 'g.parquet'}\n")
    assert table.num_rows == 30
    assert table.column("event_at").to_pylist()[0].isoformat() == "2026-03-22T12:00:00"


@pytest.mark.parametrize("form", ["csv", "json", "parquet"])
def test_an_output_file_is_there_whole_or_not_at_all(folder: Path, tmp_path: Path, form: str) -> None:
    path = tmp_path / "out"
    path.write_text("before")
    sql = "SELECT CASE WHEN range < 200000 THEN 1 ELSE error('late')::INTEGER END AS x FROM range(200001)"
    ran = history(folder, sql, "--format", form, "--output", path)

    assert ran.status == 2
    assert "late" in ran.err
    assert path.read_text() == "before"
    assert [file.name for file in tmp_path.iterdir()] == ["out"]


def test_an_output_in_no_folder_is_refused(folder: Path, tmp_path: Path) -> None:
    ran = history(folder, "SELECT 1", "--format", "csv", "--output", tmp_path / "no" / "x.csv")
    assert ran.status == 2
    assert "No such file or directory" in ran.err


def test_a_table_is_plain_where_it_is_piped_with_numbers_on_the_right(folder: Path) -> None:
    ran = history(folder, "SELECT outcome, count(*) AS n FROM gaps GROUP BY ALL ORDER BY ALL")
    assert ran.out == "outcome   n\nfail     10\npass     20\n"


def test_a_table_of_many_rows_says_that_it_is_cut(folder: Path) -> None:
    ran = history(folder, "SELECT range FROM range(5000)")
    assert ran.out.count("\n") == 1001
    assert "the first 1000 rows" in ran.err


def test_a_terminal_is_not_made_to_obey_what_a_model_wrote(tmp_path: Path) -> None:
    hostile = "\x1b[2J\x9b31m\u202eevil\r\nrow"
    with Store.open(tmp_path / "s.duckdb", create=True) as store:
        store.write_slice(
            scored_slice(0, 1, gaps=[{"observed": hostile, "trace_id": hostile, "component": hostile}]), KEPT_AT
        )
    for ran in (
        gapwatch("history", "SELECT * FROM gaps", "--store", tmp_path / "s.duckdb"),
        gapwatch("gaps", "--store", tmp_path / "s.duckdb"),
        gapwatch("gaps", "--store", tmp_path / "s.duckdb", "--trace", hostile),
    ):
        assert ran.status == 0
        assert "evil" in ran.out
        assert not set("\x1b\x9b\u202e\r") & set(ran.out)


@pytest.mark.parametrize("command", ["gaps", "rates", "ledger", "dead-letters", "history"])
def test_a_missing_store_is_status_2_for_every_command(tmp_path: Path, command: str) -> None:
    sql = ["SELECT 1"] if command == "history" else []
    ran = gapwatch(command, *sql, "--store", tmp_path / "no.duckdb")
    assert (ran.status, ran.out) == (2, "")
    assert "there is no store" in ran.err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("command", ["gaps", "rates", "ledger", "dead-letters", "history"])
@pytest.mark.parametrize("form", ["table", "json"])
def test_an_empty_store_answers_every_command(tmp_path: Path, command: str, form: str) -> None:
    Store.open(tmp_path / "s.duckdb", create=True).close()
    sql = ["SELECT * FROM gaps"] if command == "history" else []
    ran = gapwatch(command, *sql, "--store", tmp_path / "s.duckdb", "--format", form)
    assert ran.status == 0
    if form == "json":
        empty = {"imbalance": 0, "sources": [], "metrics": [], "strays": 0, "repeated": {}, "spans": [], "late": []}
        assert ran.json() in ([], empty)


@pytest.mark.parametrize(
    "form", ["table", *(pytest.param(form, marks=pytest.mark.slow) for form in ("csv", "json", "parquet"))]
)
def test_an_interrupt_ends_a_query_that_would_take_hours(folder: Path, tmp_path: Path, form: str) -> None:
    output = ["--output", str(tmp_path / "out")] if form != "table" else []
    code = (
        "import sys; from gapwatch.scorers import command_line; import gapwatch.sinks.commands.history; "
        "print('on', flush=True)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", f"{code}; command_line.main()", "history", ENDLESS, "--format", form,
         "--store", str(folder / "s.duckdb"), *output],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        try:
            process.stdout.readline()
            time.sleep(0.7)
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=300)
        finally:
            process.kill()
    assert process.returncode == 1
    assert err.strip() == "gapwatch: interrupted"
    assert not list(tmp_path.iterdir())


#: A program whose query begins only after the interrupt. A process of its own has the signals for itself.
INTERRUPTED_BEFORE = """
import os, signal, threading, time
import duckdb
from gapwatch.sinks.reading.query_answer import interruptible

class Reader:
    def __init__(self):
        self.con, self.is_interrupted = duckdb.connect(), threading.Event()

    def interrupt(self):
        self.con.interrupt()
        self.is_interrupted.set()

reader = Reader()

def query_later():
    time.sleep(0.2)  # until the main thread waits for the result
    os.kill(os.getpid(), signal.SIGINT)
    assert reader.is_interrupted.wait(60), "no interrupt"
    reader.con.execute({query!r})

try:
    interruptible(reader, query_later)
except KeyboardInterrupt:
    print("interrupted")
"""


def test_an_interrupt_that_comes_before_the_query_has_begun_ends_it_too() -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_BEFORE.format(query=ENDLESS)],
        cwd=ROOT, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip

    assert (done.returncode, done.stdout, done.stderr) == (0, "interrupted\n", "")


ENDLESS = "SELECT sum(a.range * b.range) AS n FROM range(10000000000) a, range(100000) b"
