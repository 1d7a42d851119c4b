"""Rows are inserted by column name, and only complete ones."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from gapwatch.sinks.store.row_inserts import insert_row, insert_rows
from gapwatch.sinks.store.schema import ROW_TABLES, qualified
from gapwatch.sinks.store.store import Store
from gapwatch.sinks.store.store_reader import StoreReader

AT = datetime(2026, 11, 1)


@pytest.fixture
def con(tmp_path: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    with Store.open(tmp_path / "s.duckdb", create=True) as store:
        yield store.cursor()


def test_every_table_is_declared_as_the_engine_has_it(con: duckdb.DuckDBPyConnection) -> None:
    for name, schema in ROW_TABLES.items():
        columns = con.execute(f"DESCRIBE {qualified(name)}").fetchall()
        assert schema.names == [column[0] for column in columns], name
        empty = con.sql(f"SELECT * FROM {qualified(name)}").to_arrow_table()
        types = [str(kind).replace("extension<arrow.json>", "string") for kind in empty.schema.types]
        assert [str(field.type) for field in schema] == [
            kind.replace("extension<arrow.bool8>", "bool") for kind in types
        ]


def test_columns_may_come_in_any_order(con: duckdb.DuckDBPyConnection) -> None:
    insert_row(con, "annotations", {"by": "maria", "text": "deploy", "at": AT, "pipeline": None})
    insert_rows(con, "annotations", ("text", "by", "at", "pipeline"), [("a", None, AT, "p"), ("b", "x", AT, "q")])
    assert con.execute("FROM annotations").fetchall() == [
        (AT, None, "deploy", "maria"), (AT, "p", "a", None), (AT, "q", "b", "x"),
    ]  # fmt: skip


def test_a_column_too_few_or_too_many_is_refused(con: duckdb.DuckDBPyConnection) -> None:
    with pytest.raises(ValueError, match="relayed has the columns topic, seq"):
        insert_row(con, "relayed", {"topic": "alerts"})
    with pytest.raises(ValueError, match="relayed"):
        insert_rows(con, "relayed", ("topic", "seq", "more"), [])
    assert con.execute("FROM internal.relayed").fetchall() == []


def test_a_value_that_does_not_fit_is_the_engines_error_and_nothing_is_written(con: duckdb.DuckDBPyConnection) -> None:
    with pytest.raises(duckdb.ConversionException):
        insert_rows(con, "relayed", ("topic", "seq"), [("alerts", 1), ("alerts", "much")])
    assert con.execute("FROM internal.relayed").fetchall() == []


def test_a_column_of_nothing_keeps_its_type(con: duckdb.DuckDBPyConnection) -> None:
    columns = ROW_TABLES["outbox"].names
    insert_rows(con, "outbox", columns, [(1, "i", "alerts", None, b"\x00", "{}")])
    assert con.execute("FROM internal.outbox").fetchall() == [(1, "i", "alerts", None, b"\x00", "{}")]
    assert ROW_TABLES["outbox"].field("value").type == pa.binary()


def test_an_engines_connection_is_a_reader_of_a_store(con: StoreReader) -> None:
    assert con.execute("SELECT count(*) FROM alerts").fetchall() == [(0,)]
