"""The API as programs and people use it, while the writer thread writes the store."""

from __future__ import annotations

import json
import os
import socket
import stat
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.ipc
import pyarrow.parquet
import pytest

from gapwatch.scorers.errors import UsageError
from gapwatch.sinks.api.access import ApiOptions
from gapwatch.sinks.api.endpoint_note import ApiNote, note_path, read_note, write_note
from gapwatch.sinks.api.query import QueryLimits
from gapwatch.sinks.api.server import ApiServer
from gapwatch.sinks.api.service import RunService, api_options
from gapwatch.sinks.metrics.health import RunHealth
from gapwatch.sinks.metrics.live_metrics import LiveMetrics
from gapwatch.sinks.metrics.source_state import SourceState
from gapwatch.sinks.store.decisions import Decisions
from gapwatch.sinks.store.store import Store
from tests.builders import KEPT_AT, whole_slice
from tests.gapwatch_command import gapwatch
from tests.http_client import get, post
from tests.live_store import Kept, until

ENDLESS = "SELECT sum(a.range * b.range) AS n FROM range(10000000000) a, range(100000) b"
GREEDY = "SELECT list(a.range * 1.5) AS l FROM range(100000) a, range(100000) b"


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kept]:
    with Kept(tmp_path_factory.mktemp("api") / "s.duckdb", portfolios=[]) as opened:
        opened.write_slice(whole_slice(0, 30))
        yield opened


def small(folder: Path, **limits: Any) -> Kept:
    options = ApiOptions(port=0, limits=QueryLimits(**limits))
    opened = Kept(folder / "small.duckdb", options, portfolios=[])
    opened.write_slice(whole_slice(0, 30))
    return opened


def query(kept: Kept, sql: str, **more: Any) -> Any:
    return post(kept.server.url, "/v1/query", {"sql": sql, **more})


# --- answers


def test_a_select_is_answered_as_json_csv_and_arrow(kept: Kept) -> None:
    sql = "SELECT outcome, count(*) AS n FROM gaps WHERE outcome IN (SELECT unnest(?)) GROUP BY ALL ORDER BY ALL"
    parameters = [["fail", "pass"]]
    as_json, as_csv, as_arrow = (query(kept, sql, parameters=parameters, format=f) for f in ("json", "csv", "arrow"))

    assert as_json.json() == [{"outcome": "fail", "n": 10}, {"outcome": "pass", "n": 20}]
    assert as_csv.body == b"outcome,n\nfail,10\npass,20\n"
    assert pyarrow.ipc.open_stream(as_arrow.body).read_all().to_pylist() == as_json.json()
    assert [got.headers["Gapwatch-Rows"] for got in (as_json, as_csv, as_arrow)] == ["2", "2", "2"]
    assert as_json.headers["Content-Type"] == "application/json"


def test_get_asks_the_same(kept: Kept) -> None:
    got = get(kept.server.url, "/v1/query", sql="SELECT 1 AS one", format="csv")
    assert (got.status, got.body) == (200, b"one\n1\n")


def test_a_query_sees_each_commit_as_soon_as_it_is_made(tmp_path: Path) -> None:
    with small(tmp_path) as kept:
        for offset in range(30, 34):
            kept.write_slice(whole_slice(offset, offset + 1))
            assert query(kept, "SELECT count(*) AS n FROM gaps").json() == [{"n": offset + 1}]


@pytest.mark.parametrize("form", ["json", "csv", "arrow"])
def test_rows_are_limited_and_that_is_told(tmp_path: Path, form: str) -> None:
    with small(tmp_path, rows=500, arrow_rows=500) as kept:
        cut = query(kept, "SELECT range AS i FROM range(100000)", format=form)
        whole = query(kept, "SELECT range AS i FROM range(500)", format=form)
        fewer = query(kept, "SELECT range AS i FROM range(500)", format=form, rows=7)

    assert (cut.headers["Gapwatch-Rows"], cut.headers["Gapwatch-Truncated"]) == ("500", "rows")
    assert (whole.headers["Gapwatch-Rows"], "Gapwatch-Truncated" in whole.headers) == ("500", False)
    assert (fewer.headers["Gapwatch-Rows"], fewer.headers["Gapwatch-Truncated"]) == ("7", "rows")
    if form == "json":
        assert len(cut.json()) == 500


@pytest.mark.parametrize("form", ["json", "csv", "arrow"])
def test_bytes_are_limited_and_that_is_told(tmp_path: Path, form: str) -> None:
    with small(tmp_path, bytes=20_000) as kept:
        got = query(kept, "SELECT md5(range::VARCHAR) AS i FROM range(50000)", format=form)

    assert got.headers["Gapwatch-Truncated"] == "bytes"
    assert len(got.body) < 1_000_000
    if form == "json":
        assert len(got.json()) == int(got.headers["Gapwatch-Rows"])


def test_arrow_has_numbers_that_any_reader_knows(kept: Kept) -> None:
    sql = "SELECT sum(x) AS s, -x::HUGEINT AS h, NULL::HUGEINT AS n FROM (VALUES (7), (8)) t(x) GROUP BY x ORDER BY x"
    answers = pyarrow.ipc.open_stream(query(kept, sql, format="arrow").body).read_all().to_pylist()
    assert answers == [{"s": 7, "h": -7, "n": None}, {"s": 8, "h": -8, "n": None}]


def test_an_answer_of_no_rows_has_its_columns(kept: Kept) -> None:
    assert query(kept, "SELECT 1 AS x WHERE false").json() == []
    assert query(kept, "SELECT 1 AS x WHERE false", format="csv").body == b"x\n"
    assert pyarrow.ipc.open_stream(query(kept, "SELECT 1 AS x WHERE false", format="arrow").body).schema.names == ["x"]


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({}, "send the query as `sql`"),
        ({"sql": 1}, "send the query as `sql`"),
        ({"sql": "SELECT 1", "format": "xml"}, "format must be one of"),
        ({"sql": "SELECT 1", "format": ["json"]}, "format must be one of"),
        ({"sql": "SELECT 1", "parameters": {"a": 1}}, "parameters must be a list"),
        ({"sql": "SELECT 1", "rows": "many"}, "rows must be a whole number"),
        ({"sql": "SELECT ?"}, "the query is refused"),
        ({"sql": "SELECT " + "1" * 200_000}, "characters"),
        ([], "one JSON object"),
        (b"{", "one JSON object"),
        (b"[" * 100_000, "one JSON object"),
    ],
)
def test_a_question_that_is_none_is_told_why(kept: Kept, asked: Any, why: str) -> None:
    got = post(kept.server.url, "/v1/query", asked)
    assert got.status == 400
    assert why in got.json()["error"]


def test_a_request_beyond_all_measure_is_refused(kept: Kept) -> None:
    assert post(kept.server.url, "/v1/query", b'"' + b"x" * 2_000_000 + b'"').status == 413
    assert get(kept.server.url, "/no/such/page").status == 404


# --- limits


def test_a_query_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    with small(tmp_path, seconds=0.3) as kept:
        got = query(kept, ENDLESS)
        until(lambda: query(kept, "SELECT 1").status == 200)

    assert got.status == 422
    assert got.json()["limit"] == "time"


def test_a_query_that_takes_too_much_memory_is_ended_and_the_keeper_goes_on(tmp_path: Path) -> None:
    with small(tmp_path, memory_bytes=100 << 20, seconds=60) as kept:
        got = query(kept, GREEDY)
        kept.write_slice(whole_slice(30, 33))

    assert got.status == 422
    assert got.json()["limit"] == "memory"


def test_one_more_than_may_be_at_once_is_told_to_come_again(tmp_path: Path) -> None:
    with small(tmp_path, at_once=1, seconds=60) as kept, ThreadPoolExecutor(1) as other:
        under_way = other.submit(query, kept, ENDLESS)
        until(lambda: kept.server._queries is not None and kept.server._queries.running == 1)
        assert query(kept, "SELECT 1").status == 503
        assert get(kept.server.url, "/metrics").status == 200
        kept.server.stop()
        assert under_way.result().status == 500


def test_a_query_ends_when_the_one_who_asked_has_gone(tmp_path: Path) -> None:
    with small(tmp_path, seconds=600) as kept:
        host, port = kept.server.url.removeprefix("http://").split(":")
        body = json.dumps({"sql": ENDLESS}).encode()
        with socket.create_connection((host, int(port))) as line:
            line.sendall(
                b"POST /v1/query HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
                + f"Content-Length: {len(body)}\r\n\r\n".encode() + body
            )  # fmt: skip
            queries = kept.server._queries
            assert queries is not None
            until(lambda: queries.running == 1)
        until(lambda: queries.running == 0)
        assert queries.outcomes["cancelled"] == 1


def test_readers_and_a_keeper_do_not_disturb_each_other(tmp_path: Path) -> None:
    """Inserts, checkpoints and queries at once; each query sees whole commits."""
    with small(tmp_path, at_once=4) as kept:
        failed: list[BaseException] = []
        over = threading.Event()

        def write() -> None:
            try:
                for n in range(60):
                    kept.write_slice(whole_slice(30 + 10 * n, 40 + 10 * n))
                    if n % 20 == 10:
                        kept.store._con.execute("CHECKPOINT")
            except BaseException as error:
                failed.append(error)
            over.set()

        writer = threading.Thread(target=write)
        writer.start()
        answers = []
        while not over.is_set() or len(answers) < 20:
            sql = "SELECT (SELECT count(*) FROM gaps) AS rows, (SELECT sum(records) FROM offsets) AS records"
            got = query(kept, sql, format=("json", "arrow")[len(answers) % 2])
            assert got.status == 200
            if got.headers["Content-Type"] == "application/json":
                answers.append(got.json()[0])
            else:
                answers.append(pyarrow.ipc.open_stream(got.body).read_all().to_pylist()[0])
            assert get(kept.server.url, "/v1/ledger").json()["strays"] == 0
            assert get(kept.server.url, "/metrics").status == 200
        writer.join()

        assert not failed
        assert all(row["rows"] == row["records"] for row in answers)
        assert query(kept, "SELECT count(*) AS n FROM gaps").json() == [{"n": 630}]


# --- who may


def test_pages_of_the_web_may_not_ask(kept: Kept) -> None:
    url = kept.server.url
    assert get(url, "/metrics", {"Origin": "https://evil.example"}).status == 403
    assert get(url, "/v1/query", {"Sec-Fetch-Site": "cross-site"}, sql="SELECT 1").status == 403
    assert get(url, "/v1/query", {"Host": "evil.example:9464"}, sql="SELECT 1").status == 403  # a name led here by DNS
    assert post(url, "/v1/query", b"sql=SELECT 1", {"Content-Type": "text/plain"}).status == 400
    assert get(url, "/metrics", {"Host": "localhost:1"}).status == 200


def test_writing_needs_the_write_token(kept: Kept) -> None:
    for headers in ({}, {"Authorization": "Bearer "}, {"Authorization": f"Bearer {kept.server.options.read_token}"}):
        got = post(kept.server.url, "/v1/annotations", {"text": "deploy"}, headers)
        assert got.status == 401
    assert kept.decisions.waiting == 0


def test_beyond_this_machine_all_but_health_needs_a_token(tmp_path: Path) -> None:
    options = ApiOptions("0.0.0.0", 0, read_token="r" * 20, write_token="w" * 20)
    with Kept(tmp_path / "s.duckdb", options, portfolios=[]) as kept:
        url = kept.server.url.replace("0.0.0.0", "127.0.0.1")
        assert get(url, "/healthz").status == 200
        for path in ("/metrics", "/v1/ledger", "/v1/query"):
            assert get(url, path, sql="SELECT 1").status == 401
            assert get(url, path, {"Authorization": "Bearer " + "x" * 20}, sql="SELECT 1").status == 401
            assert get(url, path, {"Authorization": "Bearer " + "r" * 20}, sql="SELECT 1").status == 200
            assert get(url, path, {"Authorization": "Bearer " + "w" * 20}, sql="SELECT 1").status == 200
        annotation = {"text": "deploy"}
        assert post(url, "/v1/annotations", annotation, {"Authorization": "Bearer " + "r" * 20}).status == 401


@pytest.mark.parametrize(
    ("listen", "address", "port"),
    [
        ("127.0.0.1:9464", "127.0.0.1", 9464),
        ("9000", "127.0.0.1", 9000),
        ("[::1]:0", "::1", 0),
        ("0.0.0.0:1", "0.0.0.0", 1),
    ],
)
def test_where_to_listen_is_read(listen: str, address: str, port: int) -> None:
    options = api_options(listen, {"GAPWATCH_READ_TOKEN": "r", "GAPWATCH_WRITE_TOKEN": ""})
    assert options is not None
    assert (options.address, options.port, options.read_token) == (address, port, "r")
    assert len(options.write_token) > 20
    assert options.is_local == (address != "0.0.0.0")


def test_no_address_is_no_api_and_nonsense_is_refused() -> None:
    assert api_options("none", {}) is None
    for listen in ("", "localhost", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:99999", "a:-1"):
        with pytest.raises(UsageError):
            api_options(listen, {})


def test_a_taken_port_is_said_and_the_store_is_free_again(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, Store.open(tmp_path / "s.duckdb", create=True) as store:
        options = ApiOptions(port=taken.getsockname()[1])
        server = ApiServer(store, LiveMetrics([]), RunHealth(), Decisions(), options)
        with pytest.raises(UsageError, match="cannot listen"):
            server.start()
    assert not note_path(tmp_path / "s.duckdb").exists()
    assert gapwatch("history", "SELECT 1", "--store", tmp_path / "s.duckdb").status == 0


# --- the note beside the store


def test_the_note_is_the_owners_and_goes_with_the_process(tmp_path: Path) -> None:
    path = tmp_path / "s.duckdb"
    with Kept(path, portfolios=[]) as kept:
        note = read_note(path)
        assert note is not None
        assert (note.url, note.pid) == (kept.server.url, os.getpid())
        assert stat.S_IMODE(note_path(path).stat().st_mode) == 0o600
        assert kept.server.options.write_token not in repr(kept.server.options)
    assert not note_path(path).exists()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["s.duckdb"]


def test_a_note_that_a_killed_process_left_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "s.duckdb"
    Store.open(path, create=True).close()
    write_note(path, ApiNote("http://127.0.0.1:1", 2**22 + 1, "r", "w"))
    assert read_note(path) is None
    assert gapwatch("history", "SELECT 1 AS x", "--store", path, "--format", "csv").out == "x\n1\n"
    note_path(path).write_text("{")
    assert read_note(path) is None


# --- the commands on a store that is being kept


COMMANDS = [
    ["rates", "--per", "all"],
    ["rates", "--per", "hour", "--since", "2020-01-01", "--component", "agent", "--format", "json"],
    ["gaps", "--limit", "5"],
    ["gaps", "--outcome", "all", "--metric", "answer_parses", "--lane", "live", "--since", "2020-01-01"],
    ["gaps", "--trace", "t3"],
    ["gaps", "--trace", "t3", "--format", "json"],
    ["ledger"],
    ["ledger", "--format", "json"],
    ["dead-letters"],
    ["history", "SELECT * FROM gaps ORDER BY source_offset"],
    ["history", "SELECT * EXCLUDE (kept_at) FROM verdicts ORDER BY source_offset LIMIT 5", "--format", "json"],
    ["history", "SELECT * FROM ticks", "--format", "csv"],
    ["history", "SHOW TABLES"],
    ["history", "DESCRIBE gaps"],
    ["history", "SELECT unnest([1, 2]) AS x, {'a': [uuid()]}::VARCHAR LIKE '%a%' AS y", "--format", "json"],
    [
        "history",
        "SELECT MAP {1: 2} AS m, INTERVAL 90 SECONDS AS i, 2::HUGEINT AS h, '{}'::JSON AS j",
        "--format",
        "json",
    ],
    ["history", "DELETE FROM gaps"],
    ["history", "SELECT no_such_column FROM gaps"],
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_command_says_the_same_of_a_store_that_is_being_kept(kept: Kept, tmp_path: Path, command: list[str]) -> None:
    live = gapwatch(*command, "--store", kept.path)
    copy = tmp_path / kept.path.name
    with Store.open(copy, create=True) as store:
        store.write_slice(whole_slice(0, 30), datetime(2026, 1, 1, tzinfo=UTC))
    at_rest = gapwatch(*command, "--store", copy)

    assert live.status == at_rest.status
    assert live.err.splitlines()[:2] == at_rest.err.splitlines()[:2]
    if "kept_at" not in live.out and "samples" not in live.out:
        now = [line for line in live.out.splitlines() if "2026" not in line or "2026-03-22" in line]
        then = [line for line in at_rest.out.splitlines() if "2026" not in line or "2026-03-22" in line]
        assert now == then


def test_parquet_comes_out_of_a_store_that_is_being_kept(kept: Kept, tmp_path: Path) -> None:
    out = tmp_path / "g.parquet"
    ran = gapwatch("history", "SELECT * FROM gaps", "--store", kept.path, "--format", "parquet", "--output", out)
    assert (ran.status, ran.err) == (0, f"30 rows in {out}\n")
    assert pyarrow.parquet.read_table(out).num_rows == 30


def test_an_answer_that_is_too_long_is_an_error_and_no_file(tmp_path: Path) -> None:
    out = tmp_path / "x.csv"
    with small(tmp_path, arrow_rows=1_500) as kept:
        sql = "SELECT range FROM range(5000)"
        whole = gapwatch("history", sql, "--store", kept.path, "--format", "csv", "--output", out)
        table = gapwatch("history", sql, "--store", kept.path)

    assert whole.status == 1
    assert "too long" in whole.err
    assert not out.exists()
    assert (table.status, table.out.count("\n")) == (0, 1001)


def test_a_store_whose_api_does_not_answer_is_told_so(tmp_path: Path) -> None:
    path = tmp_path / "s.duckdb"
    with Store.open(path, create=True):
        without = gapwatch("rates", "--store", path)
        write_note(path, ApiNote("http://127.0.0.1:1", os.getpid(), "r", "w"))
        silent = gapwatch("rates", "--store", path)

    assert (without.status, silent.status) == (2, 2)
    assert "already open" in without.err
    assert "does not answer" in silent.err


# --- decisions


def test_an_annotation_is_in_the_store_when_the_command_returns(tmp_path: Path) -> None:
    with Kept(tmp_path / "s.duckdb", portfolios=[]) as kept, ThreadPoolExecutor(1) as other:
        said = other.submit(gapwatch, "annotate", "deploy v12", "--store", kept.path, "--pipeline", "p", "--by", "ann")
        until(lambda: kept.decisions.waiting == 1)
        assert not said.done()
        kept.write_slice(whole_slice(0, 3))  # the next transaction
        ran = said.result(timeout=60)
        assert (ran.status, ran.out, ran.err.strip()) == (0, "", "noted")
        assert kept.store.query('SELECT pipeline, "text", "by" FROM annotations') == [("p", "deploy v12", "ann")]

        said = other.submit(gapwatch, "annotate", "at rest", "--at", "2026-11-20T10:00+01:00", "--store", kept.path)
        until(lambda: kept.decisions.waiting == 1)
        kept.decisions.apply(kept.store)  # an idle keeper
        assert said.result(timeout=60).status == 0
        assert kept.store.query("""SELECT "at" FROM annotations WHERE "text" = 'at rest'""") == [
            (datetime(2026, 11, 20, 9, 0),)
        ]


def test_an_annotation_of_a_store_at_rest_needs_no_api(tmp_path: Path) -> None:
    Store.open(tmp_path / "s.duckdb", create=True).close()
    ran = gapwatch("annotate", 'it\'s "v12"; DROP TABLE gaps', "--store", tmp_path / "s.duckdb")
    assert ran.status == 0
    with Store.open(tmp_path / "s.duckdb") as store:
        assert store.query('SELECT "text" FROM annotations') == [('it\'s "v12"; DROP TABLE gaps',)]


@pytest.mark.parametrize(
    "arguments", [["  "], ["x" * 3_000], ["x", "--at", "yesterday"], ["x", "--pipeline", "p" * 3_000]]
)
def test_an_annotation_that_says_nothing_is_refused(kept: Kept, arguments: list[str]) -> None:
    ran = gapwatch("annotate", *arguments, "--store", kept.path)
    assert (ran.status, ran.out) == (2, "")
    assert kept.decisions.waiting == 0


def test_a_failed_transaction_gives_the_decision_back(tmp_path: Path) -> None:
    with Kept(tmp_path / "s.duckdb", portfolios=[]) as kept, ThreadPoolExecutor(1) as other:
        said = other.submit(gapwatch, "annotate", "deploy v12", "--store", kept.path)
        until(lambda: kept.decisions.waiting == 1)
        with pytest.raises(RuntimeError), kept.decisions.taken() as steps:
            assert len(steps) == 1
            raise RuntimeError
        assert (kept.decisions.waiting, said.done()) == (1, False)
        kept.write_slice(whole_slice(0, 3))
        assert said.result(timeout=60).status == 0


def test_who_decides_as_the_store_is_closed_is_told_that_it_was_not_kept(tmp_path: Path) -> None:
    kept = Kept(tmp_path / "s.duckdb", portfolios=[])
    with ThreadPoolExecutor(1) as other:
        said = other.submit(gapwatch, "annotate", "deploy v12", "--store", kept.path)
        until(lambda: kept.decisions.waiting == 1)
        kept.close()
        ran = said.result(timeout=60)
    assert ran.status != 0
    assert ran.err


# --- health, and the service as a run has it


def test_health_says_what_is_wrong() -> None:
    health = RunHealth()
    assert health.alive()[0]
    assert not health.ready()[0]

    health.source("connecting", "nobody listens on 127.0.0.1:9092")
    good, told = health.ready()
    assert health.alive()[0]
    assert not good
    assert "nobody listens" in told["because"][0]

    health.source("running")
    health.note("portfolio", "version 4 was refused: line 3")
    assert health.ready() == (
        True,
        {"status": "ready", "source": "running", "notes": {"portfolio": "version 4 was refused: line 3"}},
    )

    health.store_failed("no space left")
    assert not health.alive()[0]
    assert health.ready()[1]["because"] == ["store: no space left"]


def test_a_run_whose_broker_does_not_answer_is_alive_and_not_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    health, metrics = RunHealth(), LiveMetrics([])
    now = time.monotonic()
    clock = [now]
    for module in ("health", "live_metrics"):
        monkeypatch.setattr(f"gapwatch.sinks.metrics.{module}.time.monotonic", lambda: clock[0])

    def lag() -> tuple[float | None, float | None]:
        names = ("gapwatch_broker_answer_age_seconds", "gapwatch_lag_seconds")
        labels = ({}, {"topic": "t", "partition": "0"})
        return tuple(metrics.registry.get_sample_value(*one) for one in zip(names, labels, strict=True))  # type: ignore[return-value]

    def tell(silence: float | None) -> None:
        health.source("running", "", silence)
        metrics.source_state("running", {("t", 0): (5, 5)}, 0, silence)

    tell(None)
    assert (health.ready()[0], lag()) == (True, (None, 0.0))
    tell(2.0)
    assert (health.ready()[0], lag()) == (True, (2.0, 0.0))
    assert health.ready()[1]["broker_answered_seconds_ago"] == 2.0
    clock[0] += 10.0  # 12 s
    assert health.ready()[0]
    clock[0] += 4.0  # 16 s, which is longer than 15
    tell(16.0)
    good, told = health.ready()
    assert (good, told["because"]) == (False, ["source: no answer from Kafka for 16 s"])
    assert (health.alive()[0], lag()) == (True, (16.0, 16.0))
    tell(0.5)
    assert (health.ready()[0], lag()) == (True, (0.5, 0.0))


def test_a_loop_that_has_fallen_silent_is_not_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    health = RunHealth()
    health.source("running")
    now = time.monotonic()
    monkeypatch.setattr("gapwatch.sinks.metrics.health.time.monotonic", lambda: now + 60)
    good, told = health.alive()
    assert not good
    assert "has not reported for 60 s" in told["because"][0]


def test_a_run_is_served_from_its_start_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "s.duckdb"
    with Store.open(path, create=True) as store, ThreadPoolExecutor(1, "keeper") as store_thread:
        store_thread.submit(store.write_slice, whole_slice(0, 30), KEPT_AT).result()
        service = RunService(store, [], "traces", store_thread, ApiOptions(port=0))
        service.start()
        assert get(service.url, "/readyz").status == 503
        service.source_state(SourceState("running", positions={0: (30, 40, 50)}))
        assert get(service.url, "/readyz").json() == {"status": "ready", "source": "running"}
        assert b'gapwatch_lag_records{partition="0",topic="traces"} 20.0\n' in get(service.url, "/metrics").body
        assert gapwatch("annotate", "deploy v12", "--store", path).status == 0
        assert store.query("SELECT count(*) FROM annotations") == [(1,)]
        service.stop()
        service.stop()
    assert gapwatch("history", "SELECT 1", "--store", path).status == 0


def test_a_server_whose_loop_has_ended_can_be_stopped(tmp_path: Path) -> None:
    with small(tmp_path) as kept:
        server = kept.server
        assert server._loop is not None and server._stopping is not None and server._thread is not None
        server._loop.call_soon_threadsafe(server._stopping.set)
        server._thread.join(60.0)
        server.stop()
