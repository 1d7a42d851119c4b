"""Joins the ticks of stored slices in small transactions between slice commits."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from gapwatch.sinks.store.store import Store
from gapwatch.sinks.upkeep.tick_joining import join_step, joinable_until

log = logging.getLogger("gapwatch.run")

#: Seconds between two checks for ticks to join.
LOOK_SECONDS = 30.0
# Pause after a step, as a multiple of its time: joining takes at most a fifth of the writer thread.
_PAUSE = 4.0


async def join_ticks(
    store: Store, lane: str, on_store_thread: Callable[..., Awaitable[Any]], *, has_detectors: bool
) -> None:
    """Join the ticks of a lane that no restart folds again, until cancelled.

    Args:
        store: Open for writing.
        lane: Lane of the ticks.
        on_store_thread: Runs a function with its arguments on the writer thread.
        has_detectors: Detectors fold the lane, and their state is stored.

    Raises:
        JobError: The store cannot be written.
    """
    loop = asyncio.get_running_loop()
    while True:
        until = await on_store_thread(lambda: joinable_until(store, lane, has_detectors=has_detectors))
        began, rows, left = loop.time(), 0, 0
        while (done := await on_store_thread(join_step, store, lane, until)) is not None:
            rows, left = rows + done.rows, left + done.left
            await asyncio.sleep(_PAUSE * (loop.time() - began))
            began = loop.time()
        if rows:
            log.debug("joined %d rows of ticks to %d", rows, left)
        await asyncio.sleep(LOOK_SECONDS)
