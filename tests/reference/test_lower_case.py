"""Lower case of the reference equals DuckDB's, code point by code point."""

from __future__ import annotations

import duckdb
import pytest

from tests.reference.lower_case import lower


@pytest.mark.slow
def test_lower_is_duckdbs_for_every_code_point() -> None:
    every = [chr(code) for code in range(1, 0x110000) if not 0xD800 <= code < 0xE000]
    with duckdb.connect() as connection:
        rows = connection.execute("SELECT t, lower(t) FROM (SELECT unnest(?::VARCHAR[]) AS t)", [every]).fetchall()

    differing = {text: (lowered, lower(text)) for text, lowered in rows if lowered != lower(text)}
    assert len(rows) == len(every)
    assert differing == {}


@pytest.mark.parametrize(
    ("text", "lowered"),
    [("İ", "i"), ("ΟΣ", "οσ"), ("ẞ", "ß"), ("K", "k"), ("ǅ", "ǆ"), ("straße", "straße"), ("a\x00B", "a\x00b")],
)
def test_lower_has_no_context(text: str, lowered: str) -> None:
    with duckdb.connect() as connection:
        row = connection.execute("SELECT lower(?)", [text]).fetchone()

    assert row == (lowered,)
    assert lower(text) == lowered
