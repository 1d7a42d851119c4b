"""Late spans in the store: bounded, once each, with the quiet time that would have caught them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gapwatch.sinks.spans import late_spans
from gapwatch.sinks.spans.late_spans import LateSpanRow, insert_late_spans
from gapwatch.sinks.store.ledger import LateBalance, read_balance
from gapwatch.sinks.store.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store.open(tmp_path / "s.duckdb", create=True)
    yield opened
    opened.close()


def _rows(count: int, first: int = 0) -> list[LateSpanRow]:
    """Spans that came 1, 2, 3, ... s after the closing, and 10 s more after the last span in time."""
    return [
        LateSpanRow(f"{n:032x}", f"{n:016x}", "web" if n % 4 else "search", n + 1.0, n + 11.0)
        for n in range(first, first + count)
    ]


def test_the_ledger_says_how_late_and_what_would_have_caught_them(store: Store) -> None:
    insert_late_spans(store, "traces", _rows(100))
    insert_late_spans(store, "traces", _rows(3))  # written again after a kill
    (found,) = read_balance(store.cursor()).late
    up_to = {"1": 1, "5": 5, "10": 10, "30": 30, "60": 60, "300": 100}
    assert found == LateBalance("traces", 100, up_to, {"web": 75, "search": 25}, 109.0)


def test_a_store_without_a_late_span_has_none(store: Store) -> None:
    insert_late_spans(store, "traces", [])
    assert read_balance(store.cursor()).late == []


def test_the_oldest_are_deleted(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(late_spans, "KEPT_ROWS", 20)
    monkeypatch.setattr(late_spans, "_MORE_ROWS", 5)
    for number in range(4):
        insert_late_spans(store, "traces", _rows(10, 10 * number))
    kept = store.cursor().execute("SELECT min(delay), count(*) FROM late_spans").fetchone()
    assert kept == (21.0, 20)


def test_a_store_from_before_the_table_was_added_is_read(store: Store) -> None:
    store.change("dropping a table", lambda con: con.execute("DROP TABLE late_spans"))
    assert read_balance(store.cursor()).late == []
