"""Worker pool of one lane: answers many judge requests at once, and delivers the judgements in batches.

A lane has the requests of one entry of `providers`, and workers of its own. A vendor that is down or slow therefore
blocks only its own workers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

from gapwatch.scorers.judges.judgement import Judgement
from gapwatch.sinks.verdicts.open_requests import WaitingRequest
from gapwatch.streams.judges.calls.judging import Judging
from gapwatch.streams.judges.calls.patience import LeftPending, Patience, WorkPlaces

#: Most judgements of a batch, and most seconds that the first of them waits for the others.
BATCH_JUDGEMENTS, BATCH_SECONDS = 1_000, 0.5
#: Seconds between two checks for further judgements.
_LOOK_SECONDS = 0.05

#: Waits for the next request and returns it; None at the end.
NextRequest = Callable[[], Awaitable[WaitingRequest | None]]
Deliver = Callable[[Sequence[Judgement]], Awaitable[None]]


class JudgePool:
    """Answers the requests of one lane, many at once; for one event loop.

    Args:
        judging: Answers one request.
        lane: Entry of `providers`.
        calls: Most calls at once. So many requests, or several for each call where a call has several items, are in
            work at once, those that wait for an outage to end not counted.
        next_request: Returns the next request.
        deliver: Takes a batch of judgements; calls do not overlap.
        give_up_seconds: How long a request waits for outages, since it was stored; then it ends as an error.
        patience_seconds: How long a request waits for outages if it stays pending after that; None: it ends.
    """

    def __init__(
        self,
        judging: Judging,
        lane: str,
        calls: int,
        next_request: NextRequest,
        deliver: Deliver,
        give_up_seconds: float,
        patience_seconds: float | None = None,
    ) -> None:
        self._judging, self._next_request, self._deliver = judging, next_request, deliver
        self._lane, self._calls, self._places = lane, calls, WorkPlaces(calls)
        self._give_up_seconds, self._patience_seconds = give_up_seconds, patience_seconds
        self._finished: asyncio.Queue[Judgement | None] = asyncio.Queue(maxsize=4 * BATCH_JUDGEMENTS)
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        """Cancel all requests in work; finished judgements are still delivered."""
        self._stopping.set()

    async def run(self) -> None:
        """Answer requests until there are no more, or `stop`; raises errors of `deliver`."""
        working = asyncio.create_task(self._work())
        delivering = asyncio.create_task(self._deliver_all())
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            done, _ = await asyncio.wait({working, delivering, stopping}, return_when=asyncio.FIRST_COMPLETED)
            for task in done - {stopping}:
                _raise_error(task)  # a failure of the store, or a defect
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)
            if not delivering.done():
                await self._finished.put(None)
            await delivering
        finally:
            tasks = (working, delivering, stopping)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _work(self) -> None:
        """Answer requests, each by a task of its own; a defect of one ends all."""
        async with asyncio.TaskGroup() as answers:
            # The place last: held while nothing comes, it would be missed by a request whose outage has ended.
            while (request := await self._next_request()) is not None:
                self._places.widen(self._calls * self._judging.most_items(self._lane))
                await self._places.take()
                answers.create_task(self._answer(request))

    async def _answer(self, waiting: WaitingRequest) -> None:
        characters = sum(len(text) for text in waiting.request.inputs.values() if text)
        if self._patience_seconds is None:
            patience = Patience(self._give_up_seconds, waiting.asked_at, places=self._places, characters=characters)
        else:
            patience = Patience(self._patience_seconds, stays_pending=True, places=self._places, characters=characters)
        try:
            await self._finished.put(await self._judging.judge(waiting.id, waiting.request, patience))
        except LeftPending:
            return
        finally:
            self._places.leave()

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


class RequestPool(Protocol):
    """Protocol of what answers the requests of one lane."""

    async def run(self) -> None:
        """Answer requests until there are no more, or `stop`."""
        ...

    def stop(self) -> None:
        """Stop soon."""
        ...


async def run_all(pools: Sequence[RequestPool]) -> None:
    """Run pools until all have ended; an exception of one ends all."""
    running = [asyncio.create_task(pool.run()) for pool in pools]
    try:
        await asyncio.gather(*running)
    finally:
        for pool in pools:
            pool.stop()
        await asyncio.gather(*running, return_exceptions=True)


def _raise_error(task: asyncio.Task[Any]) -> None:
    """Raise the error of a task that has ended; of several errors of a group the first."""
    try:
        task.result()
    except BaseExceptionGroup as group:
        raise group.exceptions[0] from None
