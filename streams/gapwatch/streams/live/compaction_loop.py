"""Gives free space of the store's file back while slices are stored."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from gapwatch.scorers.errors import JobError
from gapwatch.sinks.store.store import Store
from gapwatch.sinks.upkeep.compaction import Compaction, FileSpace, file_space

log = logging.getLogger("gapwatch.run")

#: Seconds between two looks at the space of the file.
LOOK_SECONDS = 60.0
# Seconds until the next attempt after one that failed, such as on a full disk.
_RETRY_SECONDS = 3600.0
# While queries go on, the copy is put in place at the next chance: number of attempts, and seconds between them. More:
# expired rows stay longer. Fewer: a page that is asked again and again may keep the free space.
_ATTEMPTS, _READERS_SECONDS = 60, 5.0


async def compact(
    store: Store,
    on_store_thread: Callable[..., Awaitable[Any]],
    show: Callable[[str, Mapping[tuple[str, ...], float]], None],
) -> None:
    """Show the space in use, and copy the file when much of it is free, until cancelled.

    Args:
        store: Open for writing.
        on_store_thread: Runs a function with its arguments on the writer thread.
        show: Sets a gauge on `/metrics`.

    Raises:
        JobError: The store could not be opened again after the copy was put in place.
    """
    while True:
        space: FileSpace = await on_store_thread(file_space, store)
        show("gapwatch_store_live_bytes", {(): float(space.live_bytes)})
        seconds = LOOK_SECONDS
        if space.is_wasteful and not await _compact(store, on_store_thread, space):
            seconds = _RETRY_SECONDS
        await asyncio.sleep(seconds)


async def _compact(store: Store, on_store_thread: Callable[..., Awaitable[Any]], before: FileSpace) -> bool:
    """Copy the file once; return whether the copy is in place."""
    compaction, began = Compaction(store), time.monotonic()
    try:
        await on_store_thread(compaction.begin)
        for _ in range(_ATTEMPTS):
            await asyncio.to_thread(compaction.copy_rows)
            stopped = time.monotonic()
            after: FileSpace | None = await on_store_thread(compaction.finish)
            if after is not None:
                break
            await asyncio.sleep(_READERS_SECONDS)
    except JobError as error:
        if store.is_broken:
            raise
        log.warning("free space of the store was not given back: %s", error)
        return False
    finally:
        compaction.cancel()
        await asyncio.shield(asyncio.ensure_future(on_store_thread(compaction.end)))
    if after is None:
        log.warning("free space of the store was not given back: queries went on; the next attempt is in an hour")
        return False
    log.info(
        "gave free space of the store back: %.1f MB are %.1f MB now, in %.1f s; slices waited %.2f s",
        before.file_bytes / 1e6, after.file_bytes / 1e6, time.monotonic() - began, time.monotonic() - stopped,
    )  # fmt: skip
    return True
