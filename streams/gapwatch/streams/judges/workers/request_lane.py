"""One lane of a judging process: a reader of its own in the topic, workers of its own, what it has done committed.

Each lane is a group of the topic and reads all of it, passing over what others judge: how far it is done is noted for
itself, so that the requests of a provider that is down wait in the topic and hold nothing up.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence

from gapwatch.scorers.judges.judgement import Judgement
from gapwatch.scorers.judges.request import JudgeRequest, OversizeRequest, read_request
from gapwatch.streams.judges.calls.judging import Judging
from gapwatch.streams.judges.calls.pool import JudgePool
from gapwatch.streams.judges.workers.request_topic import RequestPlace, RequestTopic, TopicRequest

log = logging.getLogger("gapwatch.judges")

#: Requests fetched at once at least.
FETCHED = 50


class RequestLane:
    """For one event loop.

    Args:
        name: Of the lane.
        topic: Of a group of its own.
        judging: Judges.
        workers: Requests under way at once.
        look_up: Makes the portfolio of a request known to `judging`, where there is one.
        send: Sends judgements; returns when they are in the topic of verdicts.
        takes_strays: Whether this lane answers for requests that name no judge, such as those that were too large.
    """

    def __init__(
        self,
        name: str,
        topic: RequestTopic,
        judging: Judging,
        workers: int,
        look_up: Callable[[JudgeRequest], Awaitable[None]],
        send: Callable[[Sequence[Judgement]], Awaitable[None]],
        takes_strays: bool,
    ) -> None:
        self.topic = topic
        self.pool = JudgePool(judging, name, workers, self._next, self._deliver)
        self.name = name
        self._judging = judging
        self._look_up, self._send = look_up, send
        self._takes_strays = takes_strays
        self._places: dict[str, list[RequestPlace]] = {}

    async def _next(self) -> tuple[str, JudgeRequest]:
        while True:
            came = await self.topic.next()
            request = await self._mine(self._read(came))
            if request is None:
                await self.topic.done([came.place])
                continue
            self._places.setdefault(came.id, []).append(came.place)
            if isinstance(request, OversizeRequest):
                reason = f"request_too_large: {request.bytes} bytes are more than the topic takes"
                await self._deliver([Judgement(came.id, "error", reason=reason)])
                continue
            return came.id, request

    def _read(self, came: TopicRequest) -> JudgeRequest | OversizeRequest | None:
        try:
            return read_request(came.value)
        except ValueError:
            if self._takes_strays:
                log.warning("%s/%s holds no request; left out", *came.place)
            return None

    async def _mine(self, request: JudgeRequest | OversizeRequest | None) -> JudgeRequest | OversizeRequest | None:
        """Return a request that this lane answers; None for those of other lanes and of other keepers."""
        if not isinstance(request, JudgeRequest):
            return request if self._takes_strays else None
        if not self._judging.knows(request):
            await self._look_up(request)
        return request if self._judging.knows(request, self.name) else None

    async def _deliver(self, batch: Sequence[Judgement]) -> None:
        """Send judgements; their requests are done when the topic has them."""
        await self._send(batch)
        places = [place for judgement in batch for place in self._places.pop(judgement.id, ())]
        await self.topic.done(places)
