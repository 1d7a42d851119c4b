"""Pairs of outcomes that agreement is computed from: copies of one answer count once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import duckdb
import pytest

from gapwatch.sinks.verdicts.agreement import HUMAN, pairs_of


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    """The columns of the view `verdicts` that agreement reads."""
    with duckdb.connect() as opened:
        opened.execute("""CREATE TABLE verdicts (lane TEXT, source_topic TEXT, source_partition INT,
            source_offset BIGINT, span_index INT, metric TEXT, metric_version TEXT, judge TEXT,
            scored_outcome TEXT, overridden BOOLEAN, outcome TEXT, judge_input_sha TEXT, row_evidence TEXT)""")
        yield opened


def add(con: duckdb.DuckDBPyConnection, offset: int, judge: str, said: str, text: str, *, copy: bool = False,
        human: str | None = None) -> None:  # fmt: skip
    evidence = '{"cached": true}' if copy else "{}"
    con.execute(
        "INSERT INTO verdicts VALUES ('live', 't', 0, ?, 0, 'polite', 'v', ?, ?, ?, ?, ?, ?)",
        [offset, judge, said, human is not None, human or said, text, evidence],
    )


def test_copies_of_one_answer_are_one_pair_of_judges(con: duckdb.DuckDBPyConnection) -> None:
    for offset in range(10):  # ten equal texts: one answer of each judge, and nine copies
        add(con, offset, "a", "pass", "same", copy=offset > 0)
        add(con, offset, "b", "pass", "same", copy=offset > 0)
    add(con, 10, "a", "pass", "other")
    add(con, 10, "b", "fail", "other")

    assert pairs_of(con) == {("polite", "a", "b"): Counter({("pass", "pass"): 1, ("pass", "fail"): 1})}


def test_an_answer_that_was_asked_again_counts(con: duckdb.DuckDBPyConnection) -> None:
    for offset, said in ((0, "pass"), (1, "fail")):
        add(con, offset, "a", "pass", "same", copy=offset > 0)
        add(con, offset, "b", said, "same")

    assert sum(pairs_of(con)["polite", "a", "b"].values()) == 2


def test_a_person_who_reviews_copies_reviews_one_answer(con: duckdb.DuckDBPyConnection) -> None:
    for offset in range(3):
        add(con, offset, "a", "pass", "same", copy=offset > 0, human="fail")
    for offset in (3, 4):  # only copies were reviewed
        add(con, offset, "a", "pass", "other", copy=True, human="pass")

    assert pairs_of(con) == {("polite", "a", HUMAN): Counter({("pass", "fail"): 1, ("pass", "pass"): 1})}
