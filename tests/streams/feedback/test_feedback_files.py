"""Feedback of files: joined to replayed traces in whatever order they come, each once, or counted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb
import pytest

from gapwatch.sinks.feedback import intake as intake_module
from tests.gapwatch_command import Ran, gapwatch
from tests.streams.replayed import PORTFOLIO, is_balanced, replay, trace, written

THUMBS = """- name: thumbs
  scope: trace
  claim: {form: feedback}
  alert: {severity: ticket}
- {name: stars, scope: trace, claim: {form: feedback, pass_at: 4}}
"""


def feedback(number: int, value: Any = "down", **more: Any) -> str:
    id_ = json.loads(trace(number))["trace_id"]
    return json.dumps({"id": f"f{number}", "trace_id": id_, "value": value, "at": "2026-03-22T10:00:00Z", **more})


@pytest.fixture
def store(tmp_path: Path) -> Path:
    (tmp_path / "shop.yaml").write_text(PORTFOLIO + THUMBS)
    return tmp_path / "s.duckdb"


def given(store: Path, *lines: str) -> Ran:
    path = written(store.parent / "feedback.jsonl", lines)
    return gapwatch("feedback", path, "--store", store)


def rows(store: Path, sql: str) -> list[tuple[Any, ...]]:
    with duckdb.connect(str(store), read_only=True) as con:
        return con.execute(sql).fetchall()


def states(store: Path) -> dict[str, int]:
    sql = "SELECT state, sum(n)::BIGINT FROM span_ledger WHERE item = 'feedback' GROUP BY ALL HAVING sum(n) <> 0"
    return dict(rows(store, sql))


def test_feedback_before_its_trace_after_it_and_twice_is_joined_once(store: Path) -> None:
    replay(store, written(store.parent / "a.jsonl", [trace(n) for n in range(4)]))

    first = given(store, feedback(1, "up"), feedback(2, "down", comment="wrong city"), feedback(7))
    second = given(store, feedback(2, "down", comment="wrong city"), feedback(3, 4.5))
    assert "3 read: 2 joined to a trace, 1 wait for theirs, 0 were there already" in first.out
    assert "2 read: 1 joined to a trace, 0 wait for theirs, 1 were there already" in second.out
    assert states(store) == {"consumed": 5, "joined": 3, "pending": 1, "duplicate": 1}

    replay(store, written(store.parent / "b.jsonl", [trace(n) for n in range(7, 9)]))
    assert "1 were there already" in given(store, feedback(7)).out  # opening the store joins what waited
    assert states(store) == {"consumed": 6, "joined": 4, "duplicate": 2}
    thumbs = rows(
        store, "SELECT trace_id, outcome, label, observed, source_offset FROM gaps WHERE metric = 'thumbs' ORDER BY ALL"
    )
    assert [one[1:] for one in thumbs] == [
        ("pass", "up", "up", 1), ("fail", "down", "wrong city", 2), ("pass", "4.5", "4.5", 3),
        ("fail", "down", "down", 0),
    ]  # fmt: skip
    assert is_balanced(store)


def test_feedback_is_a_series_with_a_rate_of_its_own(store: Path) -> None:
    replay(store, written(store.parent / "a.jsonl", [trace(n, environment="eu", release="v2") for n in range(20)]))
    given(store, *(feedback(n, "down" if n % 4 == 0 else "up") for n in range(20)))

    found = gapwatch("rates", "--store", store, "--metric", "thumbs", "--per", "all", "--format", "json").json()
    assert [(one["environment"], one["units"], one["bad"], one["rate"]) for one in found] == [("eu", 20, 5, 0.25)]
    by = gapwatch(
        "rates", "--store", store, "--metric", "thumbs", "--by", "release", "--per", "all", "--format", "json"
    )
    assert [(one["value"], one["units"]) for one in by.json()] == [("v2", 20)]
    stars = gapwatch("rates", "--store", store, "--metric", "stars", "--per", "all", "--format", "json").json()
    assert stars[0]["bad"] == 20  # a thumb up is 1, and 4 stars pass


def test_feedback_without_its_trace_is_an_orphan_after_a_day(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replay(store, written(store.parent / "a.jsonl", [trace(0)]))
    given(store, feedback(5))

    monkeypatch.setattr(intake_module, "WAIT", -intake_module.WAIT)
    given(store, feedback(0))
    assert states(store) == {"consumed": 2, "joined": 1, "orphan": 1}
    replay(store, written(store.parent / "b.jsonl", [trace(5)]))
    given(store, feedback(5))
    assert states(store) == {"consumed": 3, "joined": 1, "orphan": 1, "duplicate": 1}
    told = gapwatch("ledger", "--store", store).out
    assert "orphan" in told and "feedback" in told and "balanced" in told


def test_comments_are_redacted_and_names_of_pipelines_hold(store: Path) -> None:
    replay(store, written(store.parent / "a.jsonl", [trace(0), trace(1)]))
    given(store, feedback(0, comment="mail me at jo@example.org"), feedback(1, pipeline="another"))

    assert rows(store, "SELECT comment FROM feedback WHERE comment IS NOT NULL") == [("mail me at [redacted]",)]
    assert states(store) == {"consumed": 2, "joined": 1, "pending": 1}


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("nope", "line 2: not JSON"),
        ("[]", "line 2: feedback is one JSON object"),
        ('{"value": "up"}', "needs `trace_id`"),
        ('{"trace_id": "t", "value": "good"}', 'must be "up", "down", true, false or a number'),
        ('{"trace_id": "t", "value": 1e400}', "line 2"),
        ('{"trace_id": "t", "value": "up", "at": "noon"}', "not a time"),
        ('{"trace_id": "t", "value": "up", "score": 1}', "no field 'score'"),
    ],
)
def test_a_wrong_line_is_named_and_nothing_is_stored(store: Path, line: str, told: str) -> None:
    replay(store, written(store.parent / "a.jsonl", [trace(0)]))

    ran = given(store, feedback(0), line)
    assert ran.status == 2
    assert told in ran.err
    assert states(store) == {}


def test_a_store_from_before_gets_the_tables_when_it_is_opened(store: Path) -> None:
    replay(store, written(store.parent / "a.jsonl", [trace(0)]))
    with duckdb.connect(str(store)) as con:
        con.execute("DROP TABLE feedback; DROP TABLE feedback_joins")
        for column in ("source_offset", "environment", '"release"'):
            con.execute(f"ALTER TABLE internal.trace_ids DROP COLUMN {column}")

    given(store, feedback(0))
    assert states(store) == {"consumed": 1, "joined": 1}
    assert rows(store, "SELECT source_topic FROM gaps WHERE metric = 'thumbs'") == [("joined-feedback",)]
    replay(store, written(store.parent / "b.jsonl", [trace(1)]))
    given(store, feedback(1))
    assert is_balanced(store)


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ("claim: {form: feedback}, when: {field: tier, present: true}", "no such key"),
        ("claim: {form: feedback}, sample: {rate: 0.5}", "no such key"),
        ("claim: {form: feedback}, per_trace: max", "a feedback cannot use max"),
        ("claim: {form: feedback, pass_at: high}", "pass_at"),
    ],
)
def test_keys_without_an_effect_are_refused(tmp_path: Path, changed: str, told: str) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(PORTFOLIO + f"- {{name: thumbs, scope: trace, {changed}}}\n")
    ran = gapwatch("check", path)
    assert ran.status != 0
    # A long path wraps the line.
    assert told in " ".join((ran.out + ran.err).split())
