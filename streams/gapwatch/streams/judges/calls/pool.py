"""Worker pool of one lane: answers many judge requests at once, and delivers the judgements in batches.

A lane has the requests of one entry of `providers`, and workers of its own. A vendor that is down or slow therefore
blocks only its own workers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from gapwatch.scorers.judges.judgement import Judgement
from gapwatch.scorers.judges.request import JudgeRequest
from gapwatch.streams.judges.calls.judging import Judging

#: Most judgements of a batch, and most seconds that the first of them waits for the others.
BATCH_JUDGEMENTS, BATCH_SECONDS = 1_000, 0.5
#: Seconds between two checks for further judgements.
_LOOK_SECONDS = 0.05

#: Waits for the next request and returns it with its id; None at the end.
NextRequest = Callable[[], Awaitable[tuple[str, JudgeRequest] | None]]
Deliver = Callable[[Sequence[Judgement]], Awaitable[None]]


class JudgePool:
    """Answers the requests of one lane with several workers; for one event loop.

    Args:
        judging: Answers one request.
        lane: A lane of `JudgeSettings.lane`.
        workers: Most requests at once.
        next_request: Returns the next request.
        deliver: Takes a batch of judgements; calls do not overlap.
        patience_seconds: Longest outage of a provider to wait for; None: without limit.
    """

    def __init__(
        self,
        judging: Judging,
        lane: str,
        workers: int,
        next_request: NextRequest,
        deliver: Deliver,
        patience_seconds: float | None = None,
    ) -> None:
        self._judging, self._next_request, self._deliver = judging, next_request, deliver
        self._lane, self._workers = lane, workers
        self._patience_seconds = patience_seconds
        self._finished: asyncio.Queue[Judgement | None] = asyncio.Queue(maxsize=4 * BATCH_JUDGEMENTS)
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        """Cancel all requests in work; finished judgements are still delivered."""
        self._stopping.set()

    async def run(self) -> None:
        """Answer requests until there are no more, an outage lasts too long, or `stop`; raises errors of `deliver`."""
        workers = [asyncio.create_task(self._work()) for _ in range(self._workers)]
        delivering = asyncio.create_task(self._deliver_all())
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            await self._until_done({*workers}, delivering, stopping)
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
            if not delivering.done():
                await self._finished.put(None)
            await delivering
        finally:
            tasks = (*workers, delivering, stopping)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _until_done(
        self, workers: set[asyncio.Task[None]], delivering: asyncio.Task[None], stopping: asyncio.Task[Any]
    ) -> None:
        at_work = set(workers)
        while at_work:
            done, _ = await asyncio.wait(
                {*at_work, delivering, stopping}, timeout=1.0, return_when=asyncio.FIRST_COMPLETED
            )
            at_work -= done
            if stopping in done:
                return
            for task in done:
                task.result()  # raises a failure of the store, or a defect
            if self._patience_seconds is not None and self._judging.outage_seconds(self._lane) > self._patience_seconds:
                return  # the other requests stay pending

    async def _work(self) -> None:
        while (request := await self._next_request()) is not None:
            await self._finished.put(await self._judging.judge(*request))

    async def _deliver_all(self) -> None:
        loop = asyncio.get_running_loop()
        judgement = await self._finished.get()
        while judgement is not None:
            batch, end = [judgement], loop.time() + BATCH_SECONDS
            judgement = await self._gather(batch, end)
            await self._deliver(batch)
            if judgement is not None:
                judgement = await self._finished.get()

    async def _gather(self, batch: list[Judgement], end: float) -> Judgement | None:
        """Add judgements to a batch until it is full or late; return None after the last judgement of all."""
        while len(batch) < BATCH_JUDGEMENTS:
            left = end - asyncio.get_running_loop().time()
            try:
                # Not `wait_for`: that costs a task and a timer for each judgement.
                judgement = self._finished.get_nowait()
            except asyncio.QueueEmpty:
                if left <= 0:
                    break
                await asyncio.sleep(min(left, _LOOK_SECONDS))
                continue
            if judgement is None:
                return None
            batch.append(judgement)
        return batch[-1]


async def run_all(pools: Sequence[JudgePool]) -> None:
    """Run pools until all have ended; an exception of one ends all."""
    running = [asyncio.create_task(pool.run()) for pool in pools]
    try:
        await asyncio.gather(*running)
    finally:
        for pool in pools:
            pool.stop()
        await asyncio.gather(*running, return_exceptions=True)
