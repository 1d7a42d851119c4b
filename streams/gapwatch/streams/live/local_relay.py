"""Outbox of a run without Kafka: nobody reads its topics, so its messages count as sent, and may expire."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping

from gapwatch.sinks.store.outbox import last_seq
from gapwatch.sinks.store.topics import ALERTS_TOPIC, DEAD_LETTERS_TOPIC, JUDGE_REQUESTS_TOPIC
from gapwatch.sinks.store.transaction import Connection

_TOPICS = (ALERTS_TOPIC, JUDGE_REQUESTS_TOPIC, DEAD_LETTERS_TOPIC)
#: Seconds between two marks.
_MARK_SECONDS = 60.0


class LocalRelay:
    """Marks the messages of the outbox as sent until it is cancelled.

    Args:
        cursor: Returns a connection that reads the store.
        mark: Stores the last sent commit by topic.
    """

    waiting_for = ""
    missing: tuple[str, ...] = ()
    is_idle = True

    def __init__(self, cursor: Callable[[], Connection], mark: Callable[[dict[str, int]], Awaitable[None]]) -> None:
        self._cursor, self._mark = cursor, mark
        self._marked: dict[str, int] = {}

    @property
    def waiting(self) -> Mapping[str, int]:
        """Unsent messages by topic: none ever wait."""
        return {}

    def wake(self) -> None:
        """Do nothing: no message is urgent."""

    async def run(self) -> None:
        """Mark messages until cancelled; raises the errors of `mark`."""
        while True:
            await asyncio.sleep(_MARK_SECONDS)
            found = await asyncio.to_thread(self._last)
            if new := {topic: seq for topic, seq in found.items() if seq > self._marked.get(topic, 0)}:
                await self._mark(new)
                self._marked |= new

    async def close(self, seconds: float = 0.0) -> bool:
        """Return True: there is no connection to close."""
        return True

    def _last(self) -> dict[str, int]:
        with contextlib.closing(self._cursor()) as cursor:
            return {topic: last_seq(cursor, topic) for topic in _TOPICS}
