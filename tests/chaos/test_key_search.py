"""The search for a key finds it where one leaked: in a file, and in a store that compresses its texts."""

from __future__ import annotations

import base64
from pathlib import Path

import duckdb
import pytest

from tests.chaos.key_search import KEY, places_of_the_key


@pytest.mark.parametrize("text", [KEY, KEY[12:], base64.b64encode(KEY.encode()).decode(), KEY.encode().hex()])
def test_a_key_is_found_in_files_and_in_compressed_texts(tmp_path: Path, text: str) -> None:
    with duckdb.connect(str(tmp_path / "store.duckdb")) as con:
        con.execute("CREATE SCHEMA internal; CREATE TABLE internal.bytes (data BLOB)")
        con.execute("CREATE TABLE said AS SELECT i, {'why': 'reason ' || i} AS evidence FROM range(3000) AS r(i)")
    (tmp_path / "err").write_text("said nothing")
    assert places_of_the_key(tmp_path) == []

    with duckdb.connect(str(tmp_path / "store.duckdb")) as con:
        con.execute("INSERT INTO said SELECT i, {'why': 'bad key ' || ? || i} FROM range(3000) AS r(i)", [text])
        con.execute("INSERT INTO internal.bytes VALUES (?)", [text.encode()])
    (tmp_path / "err").write_text(f"said {text}")

    found = places_of_the_key(tmp_path)
    assert {"err", 'store.duckdb: "main"."said"', 'store.duckdb: "internal"."bytes"'} <= {*found}
