"""Opening a store that another process may hold for a moment: a command that reads it while no run keeps it."""

from __future__ import annotations

import logging
import time
from pathlib import Path

from gapwatch.scorers.errors import StoreHeldError
from gapwatch.sinks.store.store import Store

log = logging.getLogger("gapwatch.run")

#: Seconds that a starting run waits. Longer: a second run on one store, a mistake, is told later.
HELD_SECONDS = 10.0
_BETWEEN_SECONDS = 0.1


def open_when_free(path: Path, memory: str, seconds: float = HELD_SECONDS) -> Store:
    """Open a store for writing, created if there is none; wait while another process holds it.

    Args:
        path: The file.
        memory: Memory limit of DuckDB, such as `128MB`.
        seconds: Longest wait.

    Raises:
        StoreHeldError: It is still held after that time.
        StoreError: It cannot be opened.
    """
    until, is_told = time.monotonic() + seconds, False
    while True:
        try:
            return Store.open(path, create=True, memory=memory)
        except StoreHeldError as held:
            if time.monotonic() >= until:
                raise
            if not is_told:
                log.warning("%s; waiting up to %.0f s for it", held, seconds)
                is_told = True
            time.sleep(_BETWEEN_SECONDS)
