"""Least-recently-used cache of verdicts by the hash of the request."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class VerdictCache(Generic[T]):
    """Caches good answers, and lets equal requests wait for one answer; for one event loop.

    Args:
        entries: Most answers in the cache; the least recently used is removed first. 0: no cache.

    Attributes:
        hits: Number of requests answered from the cache.
    """

    def __init__(self, entries: int) -> None:
        self._entries = entries
        self._answers: OrderedDict[str, T] = OrderedDict()
        self._under_way: dict[str, asyncio.Future[T]] = {}
        self.hits = 0

    async def get(self, key: str, ask: Callable[[], Awaitable[T]], is_good: Callable[[T], bool]) -> tuple[T, bool]:
        """Return the answer to a request, and True if it came from the cache.

        Args:
            key: Hash of the request.
            ask: Asks the model.
            is_good: Returns True if an answer may be cached.
        """
        if self._entries == 0:
            return await ask(), False
        while True:
            if key in self._answers:
                self._answers.move_to_end(key)
                self.hits += 1
                return self._answers[key], True
            waiting = self._under_way.get(key)
            if waiting is None:
                break
            # Then check again: the answer is cached, or it was not good and this caller asks itself.
            await asyncio.wait([waiting])
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._under_way[key] = future
        try:
            answer = await ask()
            if is_good(answer):
                self._remember(key, answer)
            return answer, False
        finally:
            del self._under_way[key]
            future.cancel()

    def _remember(self, key: str, answer: T) -> None:
        self._answers[key] = answer
        if len(self._answers) > self._entries:
            self._answers.popitem(last=False)

    def __len__(self) -> int:
        return len(self._answers)
