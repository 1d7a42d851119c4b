"""Bad input through `gapwatch replay`: the message says what, where and what to do, and nothing stored is lost."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import socket
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
import yaml
import zstandard

from gapwatch.sinks.store.schema import SCHEMA_VERSION
from tests.contracts.envelope_cases import envelope_cases
from tests.gapwatch_command import Ran, gapwatch
from tests.streams.replayed import PORTFOLIO, contents, is_balanced, mixed_lines, portfolio, replay, trace, written

LINES = mixed_lines(100)
SQL = "'); DROP TABLE gaps; COPY (SELECT 1) TO 'stolen'; ATTACH 'stolen'; --"


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a portfolio, traces, and the store that they made."""
    folder = tmp_path_factory.mktemp("filled")
    assert replay(folder / "s.duckdb", written(folder / "before.jsonl", LINES)).status == 0
    return folder


@pytest.fixture
def store(filled: Path, tmp_path: Path) -> Path:
    """A store that holds something already."""
    shutil.copytree(filled, tmp_path, dirs_exist_ok=True)
    return tmp_path / "s.duckdb"


@pytest.fixture
def nothing_lost(store: Path) -> Iterator[None]:
    """Hold the store against what it was before the test."""
    before = contents(store)
    yield
    assert contents(store) == before
    assert is_balanced(store)


def refused(ran: Ran, *said: str) -> None:
    """Assert that a command was refused in one line that says all of this, and did nothing."""
    assert (ran.status, ran.out) == (2, "")
    assert ran.err.startswith("gapwatch: ") and ran.err.count("\n") == 1
    for words in said:
        assert words in ran.err


# Records


def test_every_dead_letter_of_the_contract_costs_itself_and_is_told_by_cause(store: Path, tmp_path: Path) -> None:
    cases = [case for case in envelope_cases() if case.is_line and b"\n" not in case.record and case.record.strip()]
    portfolio_of_p = yaml.safe_load(PORTFOLIO)
    portfolio_of_p["pipeline"] = "p"
    cases_portfolio = written(tmp_path / "p.yaml", [yaml.dump(portfolio_of_p, Dumper=yaml.CSafeDumper)])
    good = trace(1, "p").encode()
    path = tmp_path / "cases.jsonl"
    path.write_bytes(b"".join(case.record + b"\n" + good + b"\n" for case in cases))

    ran = replay(store, path, options=["--portfolio", cases_portfolio])

    becomes = Counter(case.becomes for case in cases)
    found = ran.json()
    assert ran.status == 0  # dead letters are no failure of the job
    assert (found["dead_letters"], found["foreign"]) == (becomes["dead_letter"], becomes["foreign"])
    assert found["read"] == becomes["read"] + len(cases)
    assert found["ledger_imbalance"] == 0 and is_balanced(store)
    dead = gapwatch("dead-letters", "--store", store, "--lane", "file:cases.jsonl", "--format", "json").json()
    assert sum(group["records"] for group in dead) == becomes["dead_letter"]
    causes = {group["cause"] for group in dead}
    assert causes >= {"too_large", "not_utf8", "not_json", "not_object", "missing_field", "bad_spans"}
    with duckdb.connect(str(store), read_only=True) as con:
        kept = con.execute(
            "SELECT source_offset, cause, size FROM dead_letters WHERE lane = 'file:cases.jsonl' ORDER BY 1"
        ).fetchall()
    expected = [(2 * n, case) for n, case in enumerate(cases) if case.becomes == "dead_letter"]
    assert [(offset, size) for offset, _, size in kept] == [(n, len(case.record)) for n, case in expected]
    assert all(cause in case.causes for (_, cause, _), (_, case) in zip(kept, expected, strict=True))


def test_dead_letters_are_shown_with_where_they_stand(store: Path) -> None:
    ran = gapwatch("dead-letters", "--store", store)

    assert ran.status == 0
    rows = [line.split() for line in ran.out.splitlines()[1:]]
    assert [row[:6] for row in rows] == [
        ["missing_field", "file:before.jsonl", "before.jsonl", "2", "0:43", "0:93"],
        ["not_json", "file:before.jsonl", "before.jsonl", "2", "0:13", "0:63"],
        ["not_object", "file:before.jsonl", "before.jsonl", "2", "0:29", "0:79"],
    ]


# Files


@pytest.mark.usefixtures("nothing_lost")
@pytest.mark.parametrize(
    ("name", "said"), [("none.jsonl", "no such file"), ("folder", "is a directory; give the files in it")]
)
def test_what_is_no_file_is_refused(store: Path, tmp_path: Path, name: str, said: str) -> None:
    (tmp_path / "folder").mkdir()

    refused(replay(store, tmp_path / name), str(tmp_path / name), said)
    refused(replay(tmp_path / "new.duckdb", tmp_path / name), said)
    assert not (tmp_path / "new.duckdb").exists()


@pytest.mark.usefixtures("nothing_lost")
def test_a_file_that_must_not_be_opened_is_refused(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path / "t.jsonl", LINES)
    path.chmod(0)
    if os.access(path, os.R_OK):  # the superuser may read all files, but opens no socket
        path.unlink()
        monkeypatch.chdir(tmp_path)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path.name)

    refused(replay(store, path), str(path), "cannot be opened: ")


def test_an_empty_file_is_refused_before_there_is_a_store(tmp_path: Path) -> None:
    path, store = tmp_path / "empty.jsonl", tmp_path / "new.duckdb"
    path.touch()

    ran = replay(store, path)

    assert (ran.status, ran.out) == (1, "")
    assert ran.err == f"gapwatch: {path} is empty: it holds no record; write traces into it first\n"
    assert not store.exists()


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_a_cut_off_file_is_told_and_goes_on_when_it_is_whole(store: Path, tmp_path: Path, suffix: str) -> None:
    whole = "".join(f"{line}\n" for line in LINES).encode()
    compressed = gzip.compress(whole) if suffix == ".gz" else zstandard.compress(whole)
    path = tmp_path / f"t.jsonl{suffix}"
    path.write_bytes(compressed[:-20])
    before = contents(store)

    refused(replay(store, path), str(path), "is damaged or cut off: ", "Replace the file by a complete one and run")

    assert contents(store) == before and is_balanced(store)
    path.write_bytes(compressed)
    assert replay(store, path).json()["records"] == sum(bool(line.strip()) for line in LINES)


# Portfolios


@pytest.mark.usefixtures("nothing_lost")
@pytest.mark.parametrize(
    ("metric", "key", "said"),
    [
        (
            "{name: m, component: agent, purpos: x, claim: {form: check, field: output, present: true}}",
            "metrics[7].purpos",
            "no such key; write purpose",
        ),
        ("{name: m, component: agent, claim: {form: check, field: ouput, present: true}}", "claim.field", "output"),
        ("{name: m, component: agent, claim: {form: check, field: output, matches: '(a'}}", "claim.matches", "missing"),
        (
            "{name: m, component: agent, claim: {form: check, field: output, range: {max: 1}}}",
            "claim",
            "output#",
        ),
        ("{name: m, component: nobody, claim: {form: check, field: output, present: true}}", "component", "nobody"),
        ("!!python/object/apply:os.system ['touch stolen']", "metrics[7]", "YAML tags are not supported"),
        ("{name: m, component: agent, claim: &c {form: check, x: *c}}", "claim", "inside its own anchor"),
    ],
    ids=["wrong key", "unknown field", "bad regex", "number of a text", "unknown component", "tag", "recursion"],
)
def test_a_bad_portfolio_is_refused_with_file_line_and_key(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, metric: str, key: str, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    traces = written(tmp_path / "new.jsonl", LINES)
    bad = written(tmp_path / "bad.yaml", [f"{PORTFOLIO}- {metric}"])
    line = PORTFOLIO.count("\n") + 1

    ran = gapwatch("replay", traces, "--portfolio", bad, "--store", store, "--json")

    refused(ran, f"{bad}:{line}: ", key, said)
    assert not (tmp_path / "stolen").exists()


@pytest.mark.usefixtures("nothing_lost")
def test_a_yaml_bomb_is_refused(store: Path, tmp_path: Path) -> None:
    levels = [f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 40)]
    bomb = written(tmp_path / "bomb.yaml", ["a0: &a0 [x, x]", *levels])

    ran = gapwatch("replay", tmp_path / "before.jsonl", "--portfolio", bomb, "--store", store)

    assert (ran.status, ran.out) == (2, "")
    assert ran.err.startswith(f"gapwatch: {bomb}") and len(ran.err) < 50_000


@pytest.mark.usefixtures("nothing_lost")
@pytest.mark.parametrize("name", ["none.yaml", "folder", "latin.yaml"])
def test_a_portfolio_that_cannot_be_read_is_refused(store: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "latin.yaml").write_bytes(PORTFOLIO.encode() + "# é\n".encode("latin-1"))

    ran = gapwatch("replay", tmp_path / "before.jsonl", "--portfolio", tmp_path / name, "--store", store)

    refused(ran, str(tmp_path / name))


def places_of_texts(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(node, str):
        yield path
    parts = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in parts:
        yield from places_of_texts(value, (*path, key))


#: Texts that may be anything at all, so that a portfolio with SQL in every one of them loads.
_FREE = """gapwatch: 1
portfolio: shop
version: 1
pipeline: SQL
goal: SQL
trace_url: "https://x/SQL{trace_id}"
runbook_url: "https://x/SQL{metric}"
redact: ["\\\\d{13}SQL"]
components:
- {id: SQL, name: SQL, kind: llm, files: [SQL], symbols: [SQL], tiers: [{id: SQL, by: llm}]}
facts: [{id: f, kind: scope, component: SQL, value: SQL, by: SQL, at: 2026-01-01}]
questions: [{id: q, component: SQL, text: SQL, why: SQL}]
metrics:
- {name: fixed, component: SQL, purpose: SQL, valid_when: SQL, evidence: [SQL],
   claim: {form: check, field: tier, one_of: [SQL, other]}}
- {name: key, component: SQL, claim: {form: check, field: "attributes.SQL", one_of: [SQL, other]}}
- {name: pointer, component: SQL, claim: {form: check, field: "output#/SQL", length: {min: 1}}}
- name: required
  component: SQL
  claim: {form: check, field: output, json: {required: ["/SQL"], types: {"/SQL": string}}}
- {name: regex, component: SQL, claim: {form: check, field: output, not_matches: 'xSQL'}}
- {name: labels, component: SQL, claim: {form: label, field: "attributes.SQL", labels: [SQL, b], bad: [b]}}
- {name: calls, scope: trace, claim: {form: measure, field: "trace.count(SQL)", unit: SQL}}
- {name: trace_key, scope: trace, claim: {form: check, field: "trace.attributes.SQL", one_of: [SQL, b]}}
- {name: when, component: SQL, when: {field: model, one_of: [SQL]}, claim: {form: check, field: name, present: true},
   sample: {rate: 0.5, strata: [{name: SQL, when: {field: model, one_of: [SQL]}, rate: 1.0}], keep: {pass: 1.0}}}
"""


@pytest.mark.usefixtures("nothing_lost")
def test_sql_in_every_text_of_a_portfolio_and_of_a_trace_stays_a_text(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    pattern = "".join("\\" + letter if letter in "();*'." else letter for letter in SQL)
    document = yaml.safe_load(_FREE.replace("2026-01-01", '"2026-01-01"'))
    for path in list(places_of_texts(document)):
        parent: Any = document
        for step in path[:-1]:
            parent = parent[step]
        in_pointer = "#/" in parent[path[-1]] or parent[path[-1]].startswith("/")
        is_regex = path[0] == "redact" or path[-1] == "not_matches"
        text = pattern if is_regex else SQL.replace("~", "~0").replace("/", "~1") if in_pointer else SQL
        parent[path[-1]] = parent[path[-1]].replace("SQL", text)
    for metric in document["metrics"]:
        if "types" in metric["claim"].get("json", {}):
            metric["claim"]["json"]["types"] = {f"/{SQL}": "string"}
    hostile = written(tmp_path / "hostile.yaml", [yaml.dump(document, Dumper=yaml.CSafeDumper)])
    span = {
        "span_id": SQL, "component": SQL, "parent_id": SQL, "name": SQL, "kind": SQL, "status": SQL, "error_type": SQL,
        "model": SQL, "tier": SQL, "input": SQL, "output": json.dumps({SQL: SQL}), "attributes": {SQL: SQL},
        "usage": {"cost_usd": SQL},
    }  # fmt: skip
    record = {
        "trace_id": SQL, "pipeline": SQL, "environment": SQL, "release": SQL, "session_id": SQL,
        "attributes": {SQL: SQL}, "spans": [span],
    }  # fmt: skip
    traces = written(tmp_path / f"{SQL.replace('/', '')}.jsonl", [json.dumps(record), json.dumps({SQL: SQL})])
    other = tmp_path / "other.duckdb"

    ran = gapwatch("replay", traces, "--portfolio", hostile, "--store", other, "--source", SQL, "--json")

    assert ran.status == 0, ran.err
    found = ran.json()
    assert (found["read"], found["dead_letters"], found["ledger_imbalance"]) == (1, 1, 0)
    assert {metric: states for metric, states in found["outcomes"].items() if states != {"pass": 1}} == {}
    assert len(found["outcomes"]) == len(document["metrics"])
    kept = contents(other)
    assert {row[0] for row in kept["ledger"]} == {f"file:{SQL}"}
    assert {row[3] for row in kept["ledger"]} == {None, SQL}
    for command in (["ledger"], ["rates"], ["gaps", "--outcome", "all"], ["gaps", "--trace", SQL], ["dead-letters"]):
        assert gapwatch(*command, "--store", other).status == 0
    assert gapwatch("check", hostile, "--against", traces, "--explain").status == 0
    assert not list(tmp_path.rglob("stolen*"))
    assert is_balanced(other)


# Stores


def test_a_store_of_another_program_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "other.duckdb"
    with duckdb.connect(str(path)) as con:
        con.execute("CREATE TABLE gaps AS SELECT 42 AS answer")
    before = path.read_bytes()

    refused(replay(path, written(tmp_path / "t.jsonl", LINES)), str(path), "another program")
    assert path.read_bytes() == before


@pytest.mark.parametrize("content", [b"\0" * 8_192, b"SQLite format 3\0" + bytes(4_000), b"{}\n"])
def test_what_is_no_store_at_all_is_refused_and_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "other.duckdb"
    path.write_bytes(content)

    refused(replay(path, written(tmp_path / "t.jsonl", LINES)), str(path))
    assert path.read_bytes() == content


def test_a_store_of_a_newer_version_is_refused_and_left_alone(store: Path, tmp_path: Path) -> None:
    with duckdb.connect(str(store)) as con:
        con.execute("UPDATE store SET schema_version = schema_version + 1")
    before = contents(store)

    refused(replay(store, tmp_path / "before.jsonl"), f"version {SCHEMA_VERSION + 1}", "upgrade Gapwatch")
    assert contents(store) == before


@pytest.mark.usefixtures("nothing_lost")
def test_a_store_in_a_folder_that_is_not_there_is_refused(store: Path, tmp_path: Path) -> None:
    portfolio(tmp_path)
    place = tmp_path / "none" / "s.duckdb"

    ran = gapwatch("replay", tmp_path / "before.jsonl", "--portfolio", tmp_path / "shop.yaml", "--store", place)

    refused(ran, "does not exist; make it first")
