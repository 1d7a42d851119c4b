"""Takes snapshots of a store in use, one at a time, in a thread; a snapshot is cancelled if its client disconnects."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable
from pathlib import Path

import duckdb

from gapwatch.sinks.api.query import BusyError
from gapwatch.sinks.reading.snapshot import Snapshot, take_snapshot

log = logging.getLogger("gapwatch.snapshot")

#: Seconds that `close` waits for a running snapshot to stop.
_CLOSE_SECONDS = 2.0


class LiveSnapshots:
    """Takes snapshots for the thread of one event loop.

    Args:
        cursor: Returns a new connection to the store; this class closes it.
        store: File of the store.
    """

    def __init__(self, cursor: Callable[[], duckdb.DuckDBPyConnection], store: Path) -> None:
        self._cursor, self._store = cursor, store
        self._thread: threading.Thread | None = None
        self._under_way = False
        self._unwanted = threading.Event()

    async def take(self, name: str | None) -> Snapshot:
        """Take a snapshot.

        Args:
            name: Name of its folder; None for the time, in UTC.

        Raises:
            BusyError: Another snapshot is running.
            UsageError, JobError: As for `take_snapshot`.
        """
        if self._under_way:
            raise BusyError("another snapshot is being taken; try again when it is done")
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Snapshot] = loop.create_future()
        unwanted = self._unwanted = threading.Event()
        con = self._cursor()

        def finish(taken: Snapshot | None, error: BaseException | None) -> None:
            self._under_way = False
            if done.done():
                return
            if error is not None:
                done.set_exception(error)
            elif taken is not None:
                done.set_result(taken)

        def work() -> None:
            taken, error = None, None
            try:
                taken = take_snapshot(con, self._store, name, lambda: not unwanted.is_set())
                log.info("wrote snapshot %s: commit %d, %d bytes", taken.path, taken.seq, taken.bytes)
            except BaseException as caught:
                error = caught
            with contextlib.suppress(duckdb.Error):
                con.close()
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(finish, taken, error)

        # A daemon thread, not a pool: the process must be able to end while the thread waits for a disk.
        self._under_way = True
        self._thread = threading.Thread(target=work, name="snapshot", daemon=True)
        self._thread.start()
        try:
            return await done
        except asyncio.CancelledError:
            unwanted.set()
            raise

    async def close(self) -> None:
        """Cancel the running snapshot."""
        self._unwanted.set()
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join, _CLOSE_SECONDS)
