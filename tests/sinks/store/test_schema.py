"""The tables are those of the contract. Columns may be added, but not renamed or dropped."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from gapwatch.sinks.store.schema import sql_type
from gapwatch.sinks.store.store import Store
from tests.builders import KEPT_AT, NOON, scored_slice

SRC = "lane source_topic source_partition source_offset"
SERIES = "lane pipeline environment component metric metric_version judge epoch"
CONTRACT = {
    "gaps": f"""pipeline environment release session_id trace_id span_id component tier model metric metric_version
        portfolio_sha outcome score label band reason observed evidence judge judge_model_id judge_prompt_sha
        judge_sampling_params_sha judge_request_sha judge_input_sha p_evaluated p_kept stratum policy {SRC} span_index
        event_at kept_at""",
    "metrics": "portfolio_sha metric metric_version claim concern expected evidence direction",
    "ticks": f"""seq {SERIES} bucket fold_bucket level facet value outcome p n score_sum score_sum_squares histogram""",
    "session_ticks": f"seq {SERIES} bucket session_id p units bad",
    "ledger": "seq lane source_topic source_partition pipeline metric state n",
    "offsets": """seq lane source_topic source_partition from_offset to_offset records prefix_sha256 kept_at""",
    "policies": """policy lane source_topic source_partition from_offset portfolio_sha metric stratum p_evaluated p_kept
        cause recorded_at""",
    "portfolios": "portfolio_sha portfolio version pipeline yaml first_seen_at",
    "templates": "sha text",
    "shifts": f"""shift_id {SERIES} kind found_at change_at change_from change_to moved verdict question evidence_log10
        rate_before rate_after lower upper units""",
    "alerts": f"alert_id shift_id {SERIES} state severity at by why incident_id attribution",
    "incidents": """incident_id lane pipeline environment name kind state severity component since since_from since_to
        members at by why told""",
    "annotations": "at pipeline text by",
    "overrides": f"override_id {SRC} span_index metric metric_version judge outcome score label why by at",
    "samples": f"{SRC} trace_id cause p_kept record_sha256 record event_at kept_at",
    "dead_letters": f"{SRC} cause detail size sha256 kept_at",
    "outbox": "seq id topic key value headers",
    "relayed": "topic seq",
    "rates": f"{SERIES} hour units bad unknown effective_units rate lower upper",
    "verdicts": f"""pipeline environment trace_id span_id component metric metric_version outcome score label reason
        observed judge p_evaluated p_kept {SRC} span_index event_at claim concern expected evidence""",
}
TYPES = {
    "TIMESTAMP": r"(^|_)at$|bucket$|^hour$|^change_(from|to)$|^since",
    "BIGINT": r"^(seq|n|units|bad|unknown|records|size|from_offset|to_offset|source_offset)$",
    "INTEGER": r"^(source_partition|span_index)$",
    "DOUBLE": r"^(p|p_evaluated|score|lower|upper|rate|rate_before|rate_after|effective_units|evidence_log10)$",
    "JSON": r"^(evidence|direction|attribution|headers|members|told)$",
    "BLOB": r"^(record)$",
    "MAP(INTEGER, BIGINT)": r"^histogram$",
}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "s.duckdb", create=True) as opened:
        yield opened


def columns(store: Store, table: str) -> dict[str, str]:
    return dict(store.query("SELECT column_name, data_type FROM duckdb_columns() WHERE table_name = ?", [table]))


@pytest.mark.parametrize("table", CONTRACT)
def test_every_column_of_the_contract_is_there_with_its_type(store: Store, table: str) -> None:
    found = columns(store, table)
    wanted = CONTRACT[table].split()
    assert [name for name in wanted if name not in found] == []
    for name in wanted:
        for kind, pattern in TYPES.items():
            if re.search(pattern, name):
                assert found[name] == kind, name


def test_nothing_is_indexed_or_constrained(store: Store) -> None:
    assert store.query("SELECT * FROM duckdb_indexes()") == []
    assert store.query("SELECT * FROM duckdb_constraints()") == []


def test_a_type_that_no_column_has_is_refused() -> None:
    with pytest.raises(TypeError, match="no column type for date32"):
        sql_type(pa.date32())


OVERRIDE = """INSERT INTO overrides (override_id, lane, source_topic, source_partition, source_offset, span_index,
    metric, metric_version, judge, outcome, score, label, why, "by", "at")
    VALUES (?, 'live', 'traces', 0, ?, 0, ?, '0123456789ab', ?, ?, ?, NULL, 'looked', ?, ?)"""


def override(store: Store, *values: object) -> None:
    cursor = store.cursor()
    cursor.execute(OVERRIDE, list(values))
    cursor.close()


def test_the_last_word_is_a_persons_and_the_later_of_two(store: Store) -> None:
    gaps = [
        {"source_offset": 0, "outcome": "fail", "score": 0.1},
        {"source_offset": 1, "outcome": "fail", "judge": "strict", "score": 0.2},
        {"source_offset": 1, "outcome": "pass", "judge": "mild", "score": 0.9},
        {"source_offset": 2, "outcome": "fail"},
    ]
    store.write_slice(scored_slice(0, 3, gaps=gaps), KEPT_AT)
    override(store, "o1", 0, "answer_parses", None, "warn", 0.5, "ann", NOON)
    override(store, "o2", 0, "answer_parses", None, "pass", None, "bob", NOON.replace(hour=13))
    override(store, "o3", 1, "answer_parses", "strict", "pass", 1.0, "ann", NOON)
    override(store, "o4", 2, "another_metric", None, "pass", None, "ann", NOON)

    rows = store.query(
        """SELECT source_offset, judge, outcome, score, scored_outcome, override_by, overridden FROM verdicts
            ORDER BY source_offset, judge"""
    )
    assert rows == [
        (0, None, "pass", None, "fail", "bob", True),
        (1, "mild", "pass", 0.9, "pass", None, False),
        (1, "strict", "pass", 1.0, "fail", "ann", True),
        (2, None, "fail", None, "fail", None, False),
    ]


def test_a_verdict_says_what_the_metric_expects(store: Store) -> None:
    cursor = store.cursor()
    for sha, expected in (("sha-1", "is JSON"), ("sha-2", "is something else")):
        cursor.execute(
            """INSERT INTO metrics VALUES (?, 'answer_parses', '0123456789ab', 'check', 'reliability', ?,
                '{"code": ["a.py:1"]}', NULL, TIMESTAMP '2026-03-22')""",
            [sha, expected],
        )
    cursor.close()
    store.write_slice(scored_slice(gaps=[{"evidence": '{"why": 1}'}, {"metric": "unheard_of"}]), KEPT_AT)
    assert store.query("SELECT metric, claim, expected, evidence, row_evidence FROM verdicts ORDER BY metric") == [
        ("answer_parses", "check", "is JSON", '{"code": ["a.py:1"]}', '{"why": 1}'),
        ("unheard_of", None, None, None, None),
    ]
