"""The ledger of spans in the store: it follows the counts of the assembly, and must balance."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from gapwatch.sinks.spans.span_counts import insert_span_counts
from gapwatch.sinks.store.ledger import read_balance
from gapwatch.sinks.store.store import Store
from tests.gapwatch_command import gapwatch

COUNTS = {
    ("span", "consumed", ""): 10,
    ("span", "assembled", "quiet"): 6,
    ("span", "dead_letter", "bad_id"): 1,
    ("span", "pending", ""): 3,
}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open(tmp_path / "s.duckdb", create=True)


def test_the_store_follows_the_counts_and_a_second_write_changes_nothing(store: Store) -> None:
    for _ in range(2):
        insert_span_counts(store, "traces", COUNTS)
    later = COUNTS | {("span", "assembled", "quiet"): 9, ("span", "pending", ""): 0}
    insert_span_counts(store, "traces", later)
    (balance,) = read_balance(store.cursor()).spans
    assert (balance.source, balance.item, balance.consumed) == ("traces", "span", 10)
    assert balance.states == {"assembled (quiet)": 9, "dead_letter (bad_id)": 1}
    assert balance.imbalance == 0
    store.close()


def test_any_counts_are_those_of_the_last_write(store: Store) -> None:
    chance = random.Random(5)
    for _ in range(12):
        counts = {key: chance.randint(0, 50) for key in COUNTS if chance.random() < 0.7}
        insert_span_counts(store, "traces", counts)
        found = {one.item: one for one in read_balance(store.cursor()).spans}
        total = sum(n for key, n in counts.items() if key[1] != "consumed")
        consumed = counts.get(("span", "consumed", ""), 0)
        assert found["span"].consumed == consumed
        assert sum(found["span"].states.values()) == total
        assert found["span"].imbalance == abs(consumed - total)
    store.close()


def test_the_command_shows_the_ledger_and_fails_where_a_span_was_lost(store: Store) -> None:
    insert_span_counts(store, "traces", COUNTS)
    store.close()
    shown = gapwatch("ledger", "--store", store.path)
    assert shown.status == 0
    assert [line.split() for line in shown.out.splitlines() if "quiet" in line] == [["assembled", "(quiet)", "6"]]

    again = Store.open(store.path)
    insert_span_counts(again, "traces", COUNTS | {("span", "pending", ""): 2})
    again.close()
    assert gapwatch("ledger", "--store", store.path).status == 1
