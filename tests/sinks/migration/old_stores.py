"""A store of schema version 3, as the program of that version wrote it; tests/data/README.md says what it holds."""

from __future__ import annotations

from pathlib import Path

import zstandard

from tests.paths import ROOT

VERSION_3 = ROOT / "tests" / "data" / "store_v3.duckdb.zst"


def old_store(folder: Path) -> Path:
    """Unpack the store into a folder."""
    path = folder / "s.duckdb"
    path.write_bytes(zstandard.ZstdDecompressor().decompress(VERSION_3.read_bytes()))
    return path
