"""Searches what a run leaves behind for the key of a provider: files byte by byte, stores also row by row."""

from __future__ import annotations

import base64
from pathlib import Path

import duckdb

KEY = "sk-fault-Zq8wV3nT6yRb1LxA"
#: Its halves, its base64, its hexadecimal digits.
_FORMS = (KEY[:12], KEY[12:], base64.b64encode(KEY.encode())[:16].decode(), KEY.encode().hex())


def places_of_the_key(*folders: Path) -> list[str]:
    """Return the files below folders, and the tables of the stores among them, that hold the key or a half of it.

    DuckDB compresses texts: the bytes of a store of 200,000 rows do not show a key that 28,000 of them hold.
    """
    files = [file for folder in folders for file in sorted(folder.rglob("*")) if file.is_file()]
    found = [file.name for file in files if _is_in_bytes(file)]
    return found + [table for file in files if file.suffix == ".duckdb" for table in _tables_with_the_key(file)]


def _is_in_bytes(file: Path) -> bool:
    data = file.read_bytes()
    return any(form.encode() in data for form in _FORMS)


def _tables_with_the_key(store: Path) -> list[str]:
    with duckdb.connect(str(store), read_only=True) as con:
        names = con.execute('SELECT format(\'"{}"."{}"\', schema_name, table_name) FROM duckdb_tables()').fetchall()
        held = " OR ".join("contains(CAST(one AS VARCHAR), ?)" for _ in _FORMS)
        return [
            f"{store.name}: {name}"
            for (name,) in names
            if con.execute(f"SELECT count(*) FROM {name} AS one WHERE {held}", _FORMS).fetchall() != [(0,)]
        ]
