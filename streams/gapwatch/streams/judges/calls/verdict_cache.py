"""Answers equal requests once: a bounded memory of verdicts by the hash of what was asked."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class VerdictCache(Generic[T]):
    """Remembers the last answers that were good, and lets equal questions wait for one answer; for one event loop.

    Args:
        entries: Remembered at most; the least lately used goes first. 0: nothing is remembered.
    """

    def __init__(self, entries: int) -> None:
        self._entries = entries
        self._answers: OrderedDict[str, T] = OrderedDict()
        self._under_way: dict[str, asyncio.Future[T]] = {}
        self.hits = 0

    async def get(self, key: str, ask: Callable[[], Awaitable[T]], is_good: Callable[[T], bool]) -> tuple[T, bool]:
        """Return the answer to a question and whether it was there already.

        Args:
            key: Hash of the question.
            ask: Asks it.
            is_good: Whether an answer may be given again; others are for this caller alone.
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
            # Whatever becomes of the other's answer, look again: it is remembered, or this caller asks by itself.
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
