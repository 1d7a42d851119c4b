from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gapwatch.sinks.store.ledger import imbalance, read_balance
from gapwatch.sinks.store.store import Store
from tests.builders import KEPT_AT, scored_slice, whole_slice
from tests.gapwatch_command import gapwatch


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "s.duckdb", create=True) as opened:
        yield opened


def balanced(store: Store) -> Store:
    store.write_slice(whole_slice(0, 10), KEPT_AT)
    store.write_slice(
        scored_slice(
            10,
            20,
            records=6,  # four blank lines
            ledger=[
                {"state": "read", "n": 3},
                {"state": "dead_letter", "n": 2, "pipeline": None},
                {"state": "foreign", "n": 1, "pipeline": "another"},
                {"state": "duplicate", "n": 5},
                {"metric": "judged", "state": "pending", "n": 2},
                {"metric": "judged", "state": "sampled_out", "n": 1},
            ],
        ),
        KEPT_AT,
    )
    store.write_slice(whole_slice(0, 7, lane="backfill:b"), KEPT_AT)
    return store


def test_a_store_that_accounts_for_everything_balances(store: Store) -> None:
    balance = read_balance(balanced(store).cursor())

    live = next(one for one in balance.sources if one.lane == "live")
    assert balance.imbalance == 0
    assert (live.consumed, live.read, live.dead_letters, live.foreign, live.duplicates) == (16, 13, 2, 1, 5)
    assert (live.from_offset, live.to_offset, live.slices, live.without_record) == (0, 20, 2, 4)


def test_a_verdict_closes_what_was_pending(store: Store) -> None:
    balanced(store)
    store.write_slice(
        scored_slice(
            0, 1, topic="scored", records=0,
            ledger=[{"metric": "judged", "state": state, "n": n} for state, n in (("pending", -2), ("fail", 2))],
            ticks=[{"metric": "judged", "level": "span", "outcome": "fail", "n": 2}],
        ),
        KEPT_AT,
    )  # fmt: skip
    judged = next(one for one in read_balance(store.cursor()).metrics if one.metric == "judged")
    assert judged.states == {"pending": 0, "sampled_out": 1, "fail": 2}
    assert imbalance(store.cursor()) == 0


TAMPERINGS = {
    "a record too few": ("UPDATE ledger SET n = n - 1 WHERE state = 'read' AND seq = 1", 1),
    "a record too many": ("INSERT INTO ledger SELECT * FROM ledger WHERE state = 'dead_letter'", 2),
    "a lost ledger": ("DELETE FROM ledger WHERE seq = 1 AND metric IS NULL", 10),
    "a span too many": ("UPDATE ledger SET n = n + 3 WHERE metric IS NOT NULL AND state = 'pass' AND seq = 1", 3),
    "lost ticks": ("DELETE FROM ticks WHERE seq = 1 AND level = 'span' AND outcome = 'fail'", 4),
    "a state below zero": ("UPDATE ledger SET n = -1 WHERE state = 'pending'", 1),
    "a hole": ("UPDATE offsets SET to_offset = 8 WHERE seq = 1", 2),
    "an overlap": ("UPDATE offsets SET from_offset = 7 WHERE seq = 2", 3),
    "a slice twice": ("INSERT INTO offsets SELECT * REPLACE (9 AS seq) FROM offsets WHERE seq = 1", 10 + 20),
    "a ledger without offsets": ("UPDATE ledger SET source_partition = 8 WHERE lane LIKE 'backfill%'", 14),
    "lost offsets": ("DELETE FROM offsets WHERE seq = 3", 7),
}


@pytest.mark.parametrize("name", TAMPERINGS)
def test_what_does_not_add_up_is_found_and_counted(store: Store, tmp_path: Path, name: str) -> None:
    balanced(store)
    sql, by = TAMPERINGS[name]
    cursor = store.cursor()
    cursor.execute(sql)
    cursor.close()
    found = imbalance(store.cursor())
    store.close()
    assert found == by

    for form in ("table", "json"):
        ran = gapwatch("ledger", "--store", tmp_path / "s.duckdb", "--format", form)
        assert ran.status == 1
        assert f"does not balance, by {by}:" in ran.err
    assert ran.json()["imbalance"] == by


def test_the_command_prints_the_balance(store: Store, tmp_path: Path) -> None:
    balanced(store).close()
    ran = gapwatch("ledger", "--store", tmp_path / "s.duckdb")

    lines = [" ".join(line.split()) for line in ran.out.split("\n")]
    assert ran.status == 0
    assert lines[:2] == ["Records", "lane and source offsets slices consumed read dead letters foreign imbalance"]
    assert lines[3] == "live traces [0] 0-20 2 16 13 2 1 0"
    assert "live airline-agent judged 0 0 1 2 3 0" in lines
    assert lines[-2].startswith("balanced:")


def test_trace_ids_that_come_again_are_counted_by_lane(store: Store) -> None:
    rows: list[dict[str, object]] = [{"trace_hash": h} for h in (1, 2, 2, 2, 3, 3)]
    rows += [{"trace_hash": 1, "pipeline": "another"}, {"trace_hash": 1, "lane": "file:x"}]
    store.write_slice(scored_slice(0, 6, ledger=[{"state": "read", "n": 6}], trace_ids=rows), KEPT_AT)
    assert read_balance(store.cursor()).repeated == {"live": 3, "file:x": 0}
