"""`gapwatch gaps`, `rates` and `dead-letters` on a store of known content."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import zstandard

from gapwatch.sinks.store.store import Store
from tests.builders import KEPT_AT, NOON, scored_slice
from tests.gapwatch_command import gapwatch
from tests.terminal import on_terminal

RECORD = {"trace_id": "t1", "spans": [{"output": "Sure! ü \x1b[31m", "input": "x" * 50}]}
SOON = datetime.now(UTC).replace(tzinfo=None, microsecond=0) - timedelta(minutes=30)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("reading") / "s.duckdb"
    gaps = [
        {"source_offset": 0, "trace_id": "t0", "outcome": "pass", "p_kept": 0.02},
        {"source_offset": 1, "trace_id": "t1", "observed": "Sure! Here is", "event_at": NOON + timedelta(minutes=1)},
        {
            "source_offset": 1, "trace_id": "t1", "span_index": -1, "component": None, "metric": "cost",
            "outcome": "warn", "score": 0.123456789, "observed": None, "event_at": NOON + timedelta(minutes=1),
        },
        {"source_offset": 2, "trace_id": "t2", "component": "tool", "outcome": "unknown", "reason": "no_time",
         "observed": None, "event_at": None},
        {"source_offset": 3, "trace_id": "t3", "component": "tool", "metric": "judged", "judge": "strict",
         "label": "bad", "observed": None, "event_at": SOON, "evidence": '{"justification": "it says nothing"}'},
    ]  # fmt: skip
    dead = [
        {"source_offset": 7, "cause": "not_json", "detail": "line 1: expected a value", "size": 12},
        {"source_offset": 5, "cause": "not_json", "detail": "the first", "size": 90},
        {"source_offset": 6, "cause": "too_large", "detail": None, "size": 12_000_000},
    ]
    record = zstandard.compress(json.dumps(RECORD).encode())
    ticks = [
        {"outcome": "bad", "n": 1, "p": 0.5}, {"outcome": "good", "n": 9, "p": 0.5},
        {"outcome": "unknown", "n": 10, "p": 1.0}, {"bucket": NOON + timedelta(days=1), "outcome": "good", "n": 5},
        {"component": "tool", "metric": "judged", "judge": "strict", "bucket": SOON, "outcome": "bad", "n": 2},
    ]  # fmt: skip
    with Store.open(path, create=True) as store:
        store.write_slice(
            scored_slice(
                0, 8, gaps=gaps, dead_letters=dead, ticks=ticks,
                samples=[{"source_offset": 1, "trace_id": "t1", "record": record}],
            ),
            KEPT_AT,
        )  # fmt: skip
        cursor = store.cursor()
        cursor.execute(
            """INSERT INTO metrics VALUES ('sha-1', 'answer_parses', '0123456789ab', 'check', 'reliability',
                'output is JSON', '{"code": ["src/agent.py:61"]}', NULL, NULL)"""
        )
        cursor.execute(
            """INSERT INTO overrides VALUES ('o1', 'live', 'traces', 0, 3, 0, 'judged', '0123456789ab', 'strict',
                'pass', NULL, 'good', 'it does say', 'ann', TIMESTAMP '2026-03-23')"""
        )
        cursor.close()
    return path


def traces(path: Path, *arguments: str) -> list[tuple[str, str]]:
    ran = gapwatch("gaps", "--store", path, "--format", "json", *arguments)
    assert ran.status == 0
    return [(row["trace_id"], row["outcome"]) for row in ran.json()]


def test_gaps_are_what_diverged_newest_first_with_the_last_word_counting(path: Path) -> None:
    assert traces(path) == [("t1", "warn"), ("t1", "fail")]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--outcome", "fail"], [("t1", "fail")]),
        (["--outcome", "pass", "--outcome", "unknown"], [("t3", "pass"), ("t0", "pass"), ("t2", "unknown")]),
        (["--outcome", "all", "--component", "tool"], [("t3", "pass"), ("t2", "unknown")]),
        (["--metric", "cost"], [("t1", "warn")]),
        (["--outcome", "all", "--since", "2h"], [("t3", "pass")]),
        (["--since", "2026-03-22T12:01Z"], [("t1", "warn"), ("t1", "fail")]),
        (["--since", "2026-03-22T12:02Z"], []),
        (["--outcome", "all", "--limit", "1"], [("t3", "pass")]),
    ],
)
def test_gaps_can_be_narrowed(path: Path, arguments: list[str], expected: list[tuple[str, str]]) -> None:
    assert traces(path, *arguments) == expected


@pytest.mark.parametrize("command", ["gaps", "rates"])
@pytest.mark.parametrize(
    ("option", "name", "says"),
    [
        ("--lane", "liv", "the store has no such lane; did you mean live?"),
        ("--component", "agnt", "the store has no such component; did you mean agent?"),
        ("--metric", "answer_parse", "the store has no such metric; did you mean answer_parses?"),
        ("--component", "x' OR true --", "the store has no such component; there are agent, tool"),
    ],
)
def test_a_name_that_the_store_does_not_have_is_refused(
    path: Path, command: str, option: str, name: str, says: str
) -> None:
    ran = gapwatch(command, "--store", path, option, name)

    assert (ran.status, ran.out, ran.err) == (2, "", f"gapwatch: {option} {name}: {says}\n")


def test_the_list_of_gaps_says_what_was_seen_and_expected(path: Path) -> None:
    ran = gapwatch("gaps", "--store", path, "--outcome", "all")
    lines = [" ".join(line.split()) for line in ran.out.split("\n")]
    assert lines[0] == "event time trace component metric outcome observed"
    assert "2026-03-22 12:01:00Z t1 the trace cost warn 0.123457" in lines
    assert "2026-03-22 12:01:00Z t1 agent answer_parses fail Sure! Here is" in lines
    assert "- t2 tool answer_parses unknown no_time" in lines
    assert "answer_parses output is JSON" in lines
    assert "are a sample" in ran.err


def test_a_list_that_is_cut_says_so(path: Path) -> None:
    ran = gapwatch("gaps", "--store", path, "--limit", "1")
    assert "the newest 1 of 2 rows" in ran.err


def test_one_trace_is_told_in_full(path: Path) -> None:
    ran = gapwatch("gaps", "--store", path, "--trace", "t1")
    assert ran.status == 0
    assert ran.out.startswith("trace t1, airline-agent (production), release r1, live traces [0] at 1\n")
    assert re.search(r"trace +the trace +cost +warn +0\.123457", ran.out)
    assert re.search(r"0 +agent +answer_parses +fail +Sure! Here is", ran.out)
    assert "sample at 1, redacted, stored for: fail\n" in ran.out
    assert '      "output": "Sure! ü \\u001b[31m",' in ran.out


def test_one_trace_as_json_holds_its_rows_and_its_record(path: Path) -> None:
    found = gapwatch("gaps", "--store", path, "--trace", "t1", "--format", "json").json()
    assert [row["metric"] for row in found["rows"]] == ["cost", "answer_parses"]
    assert found["rows"][1]["evidence"] == {"code": ["src/agent.py:61"]}
    assert found["samples"][0]["record"] == RECORD


def test_who_overruled_a_judge_and_what_it_had_said_is_told(path: Path) -> None:
    ran = gapwatch("gaps", "--store", path, "--trace", "t3")
    assert "judged (strict)" in ran.out
    assert "judged: ann says pass, not fail: it does say" in ran.out
    assert "it says nothing" in ran.out
    assert "no sample of its text is stored" in ran.err


def test_a_trace_that_is_not_there_is_said_so(path: Path) -> None:
    ran = gapwatch("gaps", "--store", path, "--trace", "t999")
    assert (ran.status, ran.out) == (0, "")
    assert "no row and no sample of trace t999" in ran.err


def test_rates_are_given_by_hour_with_interval_and_what_is_unknown(path: Path) -> None:
    ran = gapwatch("rates", "--store", path, "--component", "agent")
    lines = [" ".join(line.split()) for line in ran.out.split("\n")]
    assert lines[0].startswith("lane live, pipeline airline-agent, environment production, metric_version")
    assert lines[1] == "component metric hour rate 95 % interval bad traces undecided"
    assert lines[2].startswith("agent answer_parses 03-22 12:00 10.0% 0.")
    assert lines[2].endswith(" 1 10 33.3%")
    assert lines[3].startswith("agent answer_parses 03-23 12:00 0% 0% - ")


@pytest.mark.parametrize(("per", "rows"), [("hour", 3), ("day", 3), ("all", 2)])
def test_rates_can_be_taken_over_longer_times(path: Path, per: str, rows: int) -> None:
    found = gapwatch("rates", "--store", path, "--per", per, "--format", "json").json()
    assert len(found) == rows
    assert sum(row["units"] for row in found) == 17
    assert all(row["lower"] <= row["rate"] <= row["upper"] for row in found)
    assert gapwatch("rates", "--store", path, "--per", per).status == 0


def test_rates_can_be_narrowed(path: Path) -> None:
    def names(*arguments: str) -> list[str]:
        found = gapwatch("rates", "--store", path, "--per", "all", "--format", "json", *arguments).json()
        return [row["metric"] for row in found]

    assert names("--metric", "judged") == ["judged"]
    assert names("--since", "2h") == ["judged"]


def test_dead_letters_are_grouped_by_cause(path: Path) -> None:
    ran = gapwatch("dead-letters", "--store", path)
    assert [" ".join(line.split()) for line in ran.out.split("\n")[:-1]] == [
        "cause lane source records first last largest bytes example",
        "not_json live traces 2 0:5 0:7 90 the first",
        "too_large live traces 1 0:6 0:6 12000000 -",
    ]


def test_dead_letters_as_json(path: Path) -> None:
    [first, second] = gapwatch("dead-letters", "--store", path, "--format", "json").json()
    assert (first["cause"], first["records"], first["first"]) == ("not_json", 2, {"partition": 0, "offset": 5})
    assert second["example"] is None
    assert gapwatch("dead-letters", "--store", path, "--lane", "file:x", "--format", "json").json() == []


@pytest.mark.parametrize("command", ["gaps", "rates"])
def test_a_since_that_is_no_time_is_status_2(path: Path, command: str) -> None:
    assert gapwatch(command, "--store", path, "--since", "soon").status == 2


@pytest.mark.parametrize(
    "arguments",
    [
        ["gaps", "--outcome", "all"],
        *(
            pytest.param(arguments, marks=pytest.mark.slow)  # a process each
            for arguments in (["gaps", "--trace", "t1"], ["rates"], ["ledger"], ["dead-letters"])
        ),
        ["history", "SELECT * FROM gaps"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_no_line_is_wider_than_the_terminal_and_no_number_is_lost(path: Path, arguments: list[str]) -> None:
    status, seen = on_terminal(100, *arguments, "--store", path)
    shown = re.sub(r"\x1b\[[0-9;]*m", "", seen.replace("\r\n", "\n"))
    assert status in (0, 1)
    assert shown.strip()
    assert max(len(line) for line in shown.split("\n")) <= 100
    if arguments[0] == "history":
        assert "p_evaluated" in shown
