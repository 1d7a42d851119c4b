"""Many requests judged at once: takes them from wherever they wait, hands over what came of them in batches.

A pool is a lane: it has the requests of one entry of `providers`, and workers of its own. A vendor that is dead or slow
keeps its own workers waiting, and nobody else's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from gapwatch.scorers.judges.judgement import Judgement
from gapwatch.scorers.judges.request import JudgeRequest
from gapwatch.streams.judges.calls.judging import Judging

#: Judgements handed over at once at most, and how long the first of them waits for the others.
BATCH_JUDGEMENTS, BATCH_SECONDS = 1_000, 0.5
#: Between two looks for the others.
_LOOK_SECONDS = 0.05

#: Returns the next request with its id, when there is one; None at the end.
NextRequest = Callable[[], Awaitable[tuple[str, JudgeRequest] | None]]
Deliver = Callable[[Sequence[Judgement]], Awaitable[None]]


class JudgePool:
    """As many requests under way as the providers of a lane take; for one event loop.

    Args:
        judging: Judges each.
        lane: Of `JudgeSettings.lane`.
        workers: Requests under way at once.
        next_request: Where they come from.
        deliver: Takes what came of them; it is not called again by this pool before it has returned.
        patience_seconds: How long an outage of a provider is waited out; None: for ever.
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
        """Begin nothing more and give up what is under way; what is finished is handed over still."""
        self._stopping.set()

    async def run(self) -> None:
        """Judge until there is no more, an outage lasts too long, or `stop`; raises what `deliver` raises."""
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
                task.result()  # a failed store, or a defect, ends the run
            if self._patience_seconds is not None and self._judging.outage_seconds(self._lane) > self._patience_seconds:
                return  # what waits stays pending

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
        """Add to a batch until it is full or late; return None at the end of all."""
        while len(batch) < BATCH_JUDGEMENTS:
            left = end - asyncio.get_running_loop().time()
            try:
                # What is there is taken at once: waiting with a limit costs a task and a timer each time.
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
    """Run pools until all have ended; what one of them raises ends them all."""
    running = [asyncio.create_task(pool.run()) for pool in pools]
    try:
        await asyncio.gather(*running)
    finally:
        for pool in pools:
            pool.stop()
        await asyncio.gather(*running, return_exceptions=True)
