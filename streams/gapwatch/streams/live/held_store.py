"""Opening a store that another process may hold for a moment: a command that reads it while no run keeps it."""

from __future__ import annotations

import logging
import time
from pathlib import Path

from gapwatch.scorers.errors import JobError, StoreHeldError
from gapwatch.sinks.api.endpoint_note import read_note
from gapwatch.sinks.store.opening import LIVE_LOG_SIZE
from gapwatch.sinks.store.store import Store

log = logging.getLogger("gapwatch.run")

#: Seconds that a starting run waits for another run. Longer: a second run on one store, a mistake, is told later.
HELD_SECONDS = 10.0
#: Seconds that it waits for commands: after a crash each of them reads the whole write-ahead log first, 20 s on a
#: machine under load. Shorter: somebody who asks what has happened keeps the monitoring from coming back.
READ_SECONDS = 120.0
_BETWEEN_SECONDS = 0.1


def open_when_free(path: Path, memory: str, seconds: float = READ_SECONDS) -> Store:
    """Open a store for writing, created if there is none; wait while another process holds it.

    Args:
        path: The file.
        memory: Memory limit of DuckDB, such as `128MB`.
        seconds: Longest wait; for another run `HELD_SECONDS`, if that is less.

    Raises:
        StoreHeldError: Another run still holds it after that time.
        JobError: A command still holds it after that time: a supervisor may start the run again.
        StoreError: It cannot be opened.
    """
    began, is_told = time.monotonic(), False
    while True:
        try:
            return Store.open(path, create=True, memory=memory, log_size=LIVE_LOG_SIZE)
        except StoreHeldError as held:
            is_of_a_run = read_note(path) is not None
            longest = min(seconds, HELD_SECONDS) if is_of_a_run else seconds
            if time.monotonic() - began >= longest:
                if is_of_a_run:
                    raise
                raise JobError(f"{held}; waited {longest:.0f} s for it") from held
            if not is_told:
                log.warning("%s; waiting up to %.0f s for it", held, longest)
                is_told = True
            time.sleep(_BETWEEN_SECONDS)
