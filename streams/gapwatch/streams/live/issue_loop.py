"""Sets fixed issues to regressed while a run lasts, when an alert finds what they watch for."""

from __future__ import annotations

import asyncio
import logging
from contextlib import closing

from gapwatch.sinks.issues.records import IssueRecords
from gapwatch.sinks.issues.regressions import regressed_issues
from gapwatch.streams.pipeline.store_thread import StoreThread

log = logging.getLogger("gapwatch.run")

#: Seconds between two looks.
_LOOK_SECONDS = 5.0


async def watch_issues(thread: StoreThread) -> None:
    """Look until cancelled."""
    seen = -1
    while True:
        if thread.store.seq != seen:
            seen = thread.store.seq
            records = await asyncio.to_thread(_found, thread)
            if records is not None:
                await thread.run(records.at_rest, thread.store)
                for row in records.rows["issues"]:
                    log.warning("issue %s has regressed: %s", row["issue_id"], row["why"])
        await asyncio.sleep(_LOOK_SECONDS)


def _found(thread: StoreThread) -> IssueRecords | None:
    with closing(thread.store.cursor()) as con:
        return regressed_issues(con)
