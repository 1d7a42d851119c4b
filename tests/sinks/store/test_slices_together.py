"""Several slices in one transaction: the same rows as one after the other, all of them or none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gapwatch.scorers.errors import JobError
from gapwatch.sinks.store.schema import KEPT_TABLES, qualified
from gapwatch.sinks.store.store import Store
from gapwatch.sinks.store.transaction import StoreTransaction
from tests.builders import KEPT_AT, whole_slice

SLICES = [whole_slice(0, 12), whole_slice(0, 9, partition=1), whole_slice(12, 20), whole_slice(5, 8, partition=2)]


def rows(store: Store) -> dict[str, list[Any]]:
    names = [*KEPT_TABLES, "outbox", "offsets"]
    return {name: sorted(store.query(f"SELECT * FROM {qualified(name)}"), key=repr) for name in names}


def test_the_store_is_that_of_the_slices_written_alone(tmp_path: Path) -> None:
    noted: list[tuple[int, int]] = []

    def note(transaction: StoreTransaction) -> None:
        noted.append((transaction.seq, transaction.scored.partition))

    with Store.open(tmp_path / "together", create=True) as together, Store.open(tmp_path / "alone", create=True) as one:
        last = together.write_slices([(scored, [("note", note)]) for scored in SLICES], KEPT_AT)
        for scored in SLICES:
            one.write_slice(scored, KEPT_AT)

        assert rows(together) == rows(one)
        assert together.positions() == one.positions()
        assert last == together.seq == one.seq == len(SLICES)
    assert noted == [(1, 0), (2, 1), (3, 0), (4, 2)]


@pytest.mark.parametrize("broken", [whole_slice(21, 30), whole_slice(3, 30, partition=1)], ids=["hole", "overlap"])
def test_a_slice_that_does_not_continue_its_partition_refuses_all(tmp_path: Path, broken: Any) -> None:
    with Store.open(tmp_path / "s", create=True) as store:
        with pytest.raises(JobError, match="is next"):
            store.write_slices([(one, []) for one in (*SLICES, broken)], KEPT_AT)
        assert not any(rows(store).values())
        assert store.positions() == {}


def test_a_step_that_fails_for_one_slice_leaves_nothing_of_any(tmp_path: Path) -> None:
    def fail(transaction: StoreTransaction) -> None:
        raise JobError(f"commit {transaction.seq} failed")

    with Store.open(tmp_path / "s", create=True) as store:
        with pytest.raises(JobError, match="commit 2 failed"):
            store.write_slices([(SLICES[0], []), (SLICES[1], [("fail", fail)])], KEPT_AT)
        assert not any(rows(store).values())
        assert (store.seq, store.positions()) == (0, {})

        assert store.write_slices([(one, []) for one in SLICES[:2]], KEPT_AT) == 2
