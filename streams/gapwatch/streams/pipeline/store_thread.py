"""A store and the one thread on which it is written."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from gapwatch.sinks.store.ledger import imbalance
from gapwatch.sinks.store.store import Store

Result = TypeVar("Result")


class StoreThread:
    """Runs work on the thread of a store.

    Args:
        store: Open for keeping; from now on it is written on this thread alone.

    Attributes:
        executor: The thread.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self.executor = ThreadPoolExecutor(1, "keeper")

    async def run(self, work: Callable[..., Result], *arguments: Any) -> Result:
        """Run a function on the thread, after what was asked before."""
        return await asyncio.get_running_loop().run_in_executor(self.executor, work, *arguments)

    async def mark_relayed(self, seqs: dict[str, int]) -> None:
        """Record up to which commit each relay has sent what belongs to it."""
        await self.run(self.store.mark_relayed, seqs)

    async def imbalance(self) -> int:
        """Return by how much the sums of the store disagree; 0 is good."""
        return await self.run(self._imbalance)

    def stored_offsets(self, lane: str, topic: str, partitions: Iterable[int]) -> dict[int, int | None]:
        """Return by partition the offset at which the store goes on; None where it has nothing; on any thread."""
        found = {number: self.store.position(lane, topic, number) for number in partitions}
        return {number: position.to_offset if position else None for number, position in found.items()}

    def close(self, wait: bool = True) -> None:
        """Let go of the thread; with `wait`, after what it is at."""
        self.executor.shutdown(wait=wait, cancel_futures=True)

    def _imbalance(self) -> int:
        cursor = self.store.cursor()
        try:
            return imbalance(cursor)
        finally:
            cursor.close()
