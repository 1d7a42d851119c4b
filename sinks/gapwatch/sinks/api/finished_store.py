"""Store that no process writes, opened to show it: whatever would be written stays in memory."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path

import duckdb

from gapwatch.sinks.store.opening import MEMORY, ReaderCursors, open_for_reading
from gapwatch.sinks.store.positions import Position, SourceKey
from gapwatch.sinks.store.store import Store
from gapwatch.sinks.store.transaction import Step


class FinishedStore(Store):
    """Store that is open for reading. Other processes may read it meanwhile; none can write it."""

    def __init__(self, path: Path, con: duckdb.DuckDBPyConnection) -> None:  # without the statements of a writer
        self.path, self._con = path, con
        self._broken = self._closed = False
        self._readers = ReaderCursors()
        self._positions: dict[SourceKey, Position] = {}
        self._seq = 0
        self._load_positions()

    @classmethod
    def open(cls, path: str | Path, create: bool = False, memory: str = MEMORY, log_size: str = "") -> FinishedStore:
        """Open a store for reading.

        Args:
            path: The DuckDB file.
            create: Not used: a store that is shown exists.
            memory: Not used: a reader has DuckDB's own limit.
            log_size: Not used: a reader has no log.

        Raises:
            StoreError: The file is missing, not a store, or in use by a process that writes it.
        """
        return cls(Path(path), open_for_reading(Path(path)))

    def lanes(self) -> list[str]:
        """Return the lanes of the store: `live` first, then the one stored last."""
        sql = "SELECT lane FROM offsets GROUP BY lane ORDER BY lane = 'live' DESC, max(seq) DESC"
        return [lane for (lane,) in self.query(sql)]

    def apply(self, steps: Sequence[tuple[str, Step]], doing: str = "writing") -> None:
        """Do nothing: detectors that are restored from the store would write their state."""

    def close(self) -> None:
        """Close the connection. A second call does nothing."""
        self._closed = True
        with contextlib.suppress(duckdb.Error):
            self._con.close()
