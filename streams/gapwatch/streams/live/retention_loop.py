"""Deletes expired records in small transactions between slice commits."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

from gapwatch.sinks.store.store import Store
from gapwatch.sinks.upkeep.retention import expire_step, moment_before
from gapwatch.streams.alerting.incidents.wording import span_text

log = logging.getLogger("gapwatch.run")

#: Most seconds between two checks for expired records ...
LOOK_SECONDS = 3600.0
# ... and most of the time for which they are kept: with 30 minutes they would else stay for up to 90.
_LOOK_SHARE = 0.1
#: Pause after a step, as a multiple of its time: retention takes at most a fifth of the writer thread.
_PAUSE = 4.0


async def expire(store: Store, keep: timedelta, on_store_thread: Callable[..., Awaitable[Any]]) -> None:
    """Delete records that were stored longer ago than `keep`, until cancelled.

    Args:
        store: Open for writing.
        keep: Age of the oldest records to keep, more than 0.
        on_store_thread: Runs a function with its arguments on the writer thread.

    Raises:
        JobError: The store cannot be written.
    """
    loop = asyncio.get_running_loop()
    while True:
        records, before, began = 0, moment_before(keep), loop.time()
        while (done := await on_store_thread(expire_step, store, before)) is not None:
            records += done.records
            await asyncio.sleep(_PAUSE * (loop.time() - began))
            began = loop.time()
        if records:
            age = span_text(round(keep.total_seconds()))
            log.info("retention: deleted the rows of %d records that were stored more than %s ago", records, age)
        await asyncio.sleep(min(LOOK_SECONDS, _LOOK_SHARE * keep.total_seconds()))
