"""Gathers requests of one question into calls with several items, and gives each request its own answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from gapwatch.scorers.judges.judgement import Judgement, PaidCall
from gapwatch.streams.judges.calls.patience import Patience

Q = TypeVar("Q")

#: Seconds for which the first request of a call waits for others. Longer: verdicts come later where traffic is low.
#: Shorter: calls go with fewer items.
GATHER_SECONDS = 0.5


@dataclass
class GroupedItem:
    """Request that waits to be asked together with others.

    Attributes:
        id: Id of the request.
        place: Place of its row.
        inputs: Redacted text by field.
        pinned: Parts of its judgement that are known before it is asked.
        patience: How long it waits for outages; None: not at all.
        answer: Set to its judgement, or to why it is asked again alone.
    """

    id: str
    place: str
    inputs: Mapping[str, str | None]
    pinned: dict[str, Any]
    patience: Patience | None
    answer: asyncio.Future[Judgement | AskAlone] = field(default_factory=lambda: _future())


@dataclass(frozen=True)
class AskAlone:
    """Item without an answer in a call of several.

    Attributes:
        reason: Why.
        calls: Calls that were paid, which the item has to book.
    """

    reason: str
    calls: tuple[PaidCall, ...] = ()


class ItemGroups(Generic[Q]):
    """Open groups by question; for one event loop.

    Args:
        ask: Asks about a group, and returns the answer to each item.
    """

    def __init__(self, ask: Callable[[Q, Sequence[GroupedItem]], Awaitable[Sequence[Judgement | AskAlone]]]) -> None:
        self._ask = ask
        self._open: dict[Hashable, tuple[Q, list[GroupedItem]]] = {}
        self._running: set[asyncio.Task[None]] = set()

    async def answer(self, key: Hashable, question: Q, item: GroupedItem, most: int) -> Judgement | AskAlone:
        """Ask about an item together with others of its question, and return its answer.

        Args:
            key: Identity of the question: its portfolio, metric and judge.
            question: The question.
            item: The item.
            most: Most items of a call.

        Raises:
            LeftPending: An outage has lasted too long, and the request stays pending.
        """
        _, group = self._open.setdefault(key, (question, []))
        group.append(item)
        if len(group) >= most:
            self._send(key, group)
        elif len(group) == 1:
            asyncio.get_running_loop().call_later(GATHER_SECONDS, self._send, key, group)
        return await item.answer

    def _send(self, key: Hashable, group: list[GroupedItem]) -> None:
        if key not in self._open or self._open[key][1] is not group:
            return  # it was full before its time
        question, _ = self._open.pop(key)
        waiting = [item for item in group if not item.answer.done()]  # others were cancelled
        if not waiting:
            return
        task = asyncio.get_running_loop().create_task(self._run(question, waiting))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        for item in waiting:
            item.answer.add_done_callback(lambda _: self._cancel_unless_awaited(task, waiting))

    def _cancel_unless_awaited(self, task: asyncio.Task[None], group: Sequence[GroupedItem]) -> None:
        if all(item.answer.cancelled() for item in group):
            task.cancel()

    async def _run(self, question: Q, group: Sequence[GroupedItem]) -> None:
        try:
            answers = await self._ask(question, group)
        except Exception as error:  # an outcome such as LeftPending, or a defect: each waiting request meets it
            for item in group:
                if not item.answer.done():
                    item.answer.set_exception(error)
            return
        for item, answer in zip(group, answers, strict=True):
            if not item.answer.done():
                item.answer.set_result(answer)


def _future() -> asyncio.Future[Judgement | AskAlone]:
    return asyncio.get_running_loop().create_future()
