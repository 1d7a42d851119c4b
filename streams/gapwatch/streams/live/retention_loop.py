"""Retention beside the stream: what is old is forgotten in steps, and between two of them slices are kept."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

from gapwatch.sinks.store.retention import expire_step, moment_before
from gapwatch.sinks.store.store import Store

log = logging.getLogger("gapwatch.run")

#: Seconds between two looks for what is old.
LOOK_SECONDS = 3600.0
#: By how much longer than a step took the keeper has peace after it.
_PEACE = 4.0


async def expire(store: Store, keep: timedelta, on_store_thread: Callable[..., Awaitable[Any]]) -> None:
    """Forget what was kept longer ago than `keep`, until it is cancelled.

    Args:
        store: Open for keeping.
        keep: More than 0.
        on_store_thread: Runs a function with its arguments on the keeper's thread.

    Raises:
        JobError: The store could not be written.
    """
    loop = asyncio.get_running_loop()
    while True:
        records, before, began = 0, moment_before(keep), loop.time()
        while (done := await on_store_thread(expire_step, store, before)) is not None:
            records += done.records
            await asyncio.sleep(_PEACE * (loop.time() - began))
            began = loop.time()
        if records:
            log.info("forgot %d records, kept longer ago than %s", records, keep)
        await asyncio.sleep(LOOK_SECONDS)
