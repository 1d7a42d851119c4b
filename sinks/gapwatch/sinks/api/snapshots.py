"""Takes snapshots beside the keeper, one at a time, each in a thread of its own; it ends when nobody waits for it."""

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

#: Seconds that `close` waits for one under way to notice.
_CLOSE_SECONDS = 2.0


class LiveSnapshots:
    """For the thread of one event loop.

    Args:
        cursor: Makes a connection that sees the store, which is closed here.
        store: The file of the store.
    """

    def __init__(self, cursor: Callable[[], duckdb.DuckDBPyConnection], store: Path) -> None:
        self._cursor, self._store = cursor, store
        self._thread: threading.Thread | None = None
        self._under_way = False
        self._unwanted = threading.Event()

    async def take(self, name: str | None) -> Snapshot:
        """Take one.

        Raises:
            BusyError: One is under way.
            UsageError, JobError: As `take_snapshot`.
        """
        if self._under_way:
            raise BusyError("a snapshot is being taken; come again when it is done")
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
                log.info("snapshot %s, commit %d, %d bytes", taken.path, taken.seq, taken.bytes)
            except BaseException as caught:
                error = caught
            with contextlib.suppress(duckdb.Error):
                con.close()
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(finish, taken, error)

        # No thread of a pool: the process must be able to end while one waits for a disk.
        self._under_way = True
        self._thread = threading.Thread(target=work, name="snapshot", daemon=True)
        self._thread.start()
        try:
            return await done
        except asyncio.CancelledError:
            unwanted.set()
            raise

    async def close(self) -> None:
        """Give up what is under way."""
        self._unwanted.set()
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join, _CLOSE_SECONDS)
