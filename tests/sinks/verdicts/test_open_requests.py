"""Open requests come in pages, each once, whatever is closed or requested between two pages."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from gapwatch.sinks.store.store import Store
from gapwatch.sinks.verdicts import open_requests
from gapwatch.sinks.verdicts.open_requests import OpenRequests, WaitingRequest
from tests.scorers.judges.test_request import WRITTEN


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open(tmp_path / "s.duckdb", create=True)


def ask(store: Store, seq: int, *ids: str) -> None:
    def insert(con: duckdb.DuckDBPyConnection) -> None:
        con.executemany(
            "INSERT INTO internal.judge_requests VALUES (?, ?, 't', ?)", [[seq, id_, WRITTEN] for id_ in ids]
        )

    store.change("asking", insert)


def close(store: Store, *ids: str) -> None:
    def insert(con: duckdb.DuckDBPyConnection) -> None:
        con.executemany("INSERT INTO internal.judge_closed VALUES (9, ?, 'pass', 1.0, 1.0)", [[id_] for id_ in ids])

    store.change("closing", insert)


def ids_of(page: list[WaitingRequest]) -> list[str]:
    return [waiting.id for waiting in page]


@pytest.mark.parametrize(("page", "ids"), [(2, 3), (3, 2), (1, 1), (10, 10)])
def test_each_request_comes_once_in_the_order_of_asking(
    store: Store, monkeypatch: pytest.MonkeyPatch, page: int, ids: int
) -> None:
    monkeypatch.setattr(open_requests, "PAGE_REQUESTS", page)
    monkeypatch.setattr(open_requests, "_IDS", ids)
    ask(store, 1, "d", "c")
    ask(store, 2, "b", "a", "z")
    close(store, "z")
    pages = OpenRequests(store.cursor)
    found = [id_ for one in iter(pages.read, []) for id_ in ids_of(one)]
    ask(store, 3, "e")

    assert found == ["c", "d", "a", "b"]
    assert ids_of(pages.read()) == ["e"]
    assert pages.read() == []


def test_what_is_closed_between_two_pages_is_left_out(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_requests, "PAGE_REQUESTS", 1)
    ask(store, 1, "a", "b", "c", "d")
    pages = OpenRequests(store.cursor)
    first = pages.read()
    close(store, "b", "c")

    assert (ids_of(first), ids_of(pages.read()), pages.read()) == (["a"], ["d"], [])
