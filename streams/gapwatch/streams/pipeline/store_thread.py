"""`StoreThread`: a store and its writer thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from gapwatch.sinks.store.ledger import imbalance
from gapwatch.sinks.store.store import Store

Result = TypeVar("Result")


class StoreThread:
    """Runs work on the writer thread of a store.

    Args:
        store: Open for writing; from now on only this thread writes it.

    Attributes:
        executor: The writer thread.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self.executor = ThreadPoolExecutor(1, "writer")

    async def run(self, work: Callable[..., Result], *arguments: Any) -> Result:
        """Run a function on the writer thread, after all earlier calls."""
        return await asyncio.get_running_loop().run_in_executor(self.executor, work, *arguments)

    async def mark_relayed(self, seqs: dict[str, int]) -> None:
        """Store the last commit that each relay has sent."""
        await self.run(self.store.mark_relayed, seqs)

    async def imbalance(self) -> int:
        """Return the difference between the sums of the ledger; 0 if it balances."""
        return await self.run(self._imbalance)

    def stored_offsets(self, lane: str, topic: str, partitions: Iterable[int]) -> dict[int, int | None]:
        """Return the next offset of each partition in the store, None for new ones of the given; for any thread."""
        found: dict[int, int | None] = dict.fromkeys(partitions)
        for (its_lane, its_topic, number), position in self.store.positions().items():
            if (its_lane, its_topic) == (lane, topic):
                found[number] = position.to_offset
        return found

    def close(self, wait: bool = True) -> None:
        """End the thread.

        Args:
            wait: First wait for its current work.
        """
        self.executor.shutdown(wait=wait, cancel_futures=True)

    def _imbalance(self) -> int:
        cursor = self.store.cursor()
        try:
            return imbalance(cursor)
        finally:
            cursor.close()
