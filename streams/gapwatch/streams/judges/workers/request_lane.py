"""One lane of a judge process, with a consumer group and workers of its own.

Each lane reads the whole topic and skips the requests of other lanes. Its offsets are its own, so the requests of a
provider that is down wait in the topic and delay no other lane.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence

from gapwatch.scorers.judges.judgement import Judgement
from gapwatch.scorers.judges.request import JudgeRequest, OversizeRequest, read_request
from gapwatch.sinks.verdicts.open_requests import WaitingRequest
from gapwatch.streams.judges.calls.judging import Judging
from gapwatch.streams.judges.calls.pool import JudgePool
from gapwatch.streams.judges.workers.request_topic import RequestPlace, RequestTopic, TopicRequest

log = logging.getLogger("gapwatch.judges")

#: Fewest requests of one fetch.
FETCHED = 50


class RequestLane:
    """Answers the requests of one lane; for one event loop.

    Args:
        name: Name of the lane.
        topic: Reader of the requests, with a consumer group of its own.
        judging: Answers one request.
        workers: Most requests at once.
        look_up: Loads the portfolio of a request into `judging`, if there is one.
        send: Sends judgements; returns when Kafka has acknowledged them.
        takes_strays: True if this lane answers requests that name no judge, such as those that were too large.
        give_up_seconds: How long a request waits for outages before it ends as an error.
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
        give_up_seconds: float,
    ) -> None:
        self.topic = topic
        self.pool = JudgePool(judging, workers, self._next, self._deliver, give_up_seconds)
        self.name = name
        self._judging = judging
        self._look_up, self._send = look_up, send
        self._takes_strays = takes_strays
        self._places: dict[str, list[RequestPlace]] = {}

    async def _next(self) -> WaitingRequest:
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
            return WaitingRequest(came.id, request, came.asked_at)

    def _read(self, came: TopicRequest) -> JudgeRequest | OversizeRequest | None:
        try:
            return read_request(came.value)
        except ValueError:
            if self._takes_strays:
                log.warning("skipping %s/%s: not a judge request", *came.place)
            return None

    async def _mine(self, request: JudgeRequest | OversizeRequest | None) -> JudgeRequest | OversizeRequest | None:
        """Return the request if this lane answers it; None for those of other lanes and other stores."""
        if not isinstance(request, JudgeRequest):
            return request if self._takes_strays else None
        if not self._judging.knows(request):
            await self._look_up(request)
        return request if self._judging.knows(request, self.name) else None

    async def _deliver(self, batch: Sequence[Judgement]) -> None:
        """Send judgements; then mark their requests as answered."""
        await self._send(batch)
        places = [place for judgement in batch for place in self._places.pop(judgement.id, ())]
        await self.topic.done(places)
