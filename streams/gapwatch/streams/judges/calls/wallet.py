"""Budget of one worker: reserves the highest possible cost before each call, and returns the unspent part."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

from gapwatch.sinks.verdicts.budget_leases import Lease, week_of

#: Number of calls whose cost a worker leases at once.
CALLS_A_LEASE = 50


class Lender(Protocol):
    """Source of leases: the store of this process, or that of another process over its API."""

    async def lease(self, portfolio: str, metric: str, least: float, wanted: float) -> Lease | None:
        """Return a lease of at least `least` US dollars; None if the cap does not allow it."""
        ...

    async def give_back(self, lease: Lease, usd: float) -> None:
        """Return unspent US dollars of a lease."""
        ...


class ThreadLender:
    """Leases from the store of this process.

    Args:
        lease, give_back: The methods of `Lender`, run on the writer thread.
        store_thread: The writer thread.
    """

    def __init__(
        self,
        lease: Callable[[str, str, float, float], Lease | None],
        give_back: Callable[[Lease, float], None],
        store_thread: Executor,
    ) -> None:
        self._lease, self._give_back, self._store_thread = lease, give_back, store_thread

    async def lease(self, portfolio: str, metric: str, least: float, wanted: float) -> Lease | None:
        """Return a lease that is committed to the store; None if the cap does not allow it."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._store_thread, self._lease, portfolio, metric, least, wanted)

    async def give_back(self, lease: Lease, usd: float) -> None:
        """Return unspent US dollars of a lease."""
        await asyncio.get_running_loop().run_in_executor(self._store_thread, self._give_back, lease, usd)


@dataclass
class _Purse:
    """One lease: the US dollars left, and the number of calls that have reserved a part."""

    lease: Lease
    left: float
    calls: int = 0


class Wallet:
    """Leases by portfolio and metric; for one event loop.

    Args:
        lender: Source of leases.
        now: Returns the time, with a time zone.
    """

    def __init__(self, lender: Lender, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._lender = lender
        self._now = now
        self._purses: dict[tuple[str, str], list[_Purse]] = {}
        self._locks: dict[tuple[str, str], asyncio.Lock] = {}

    async def reserve(self, portfolio: str, metric: str, usd: float) -> Lease | None:
        """Reserve the highest possible cost of one call in US dollars; None if the cap does not allow it."""
        key = (portfolio, metric)
        async with self._locks.setdefault(key, asyncio.Lock()):
            week = week_of(self._now())
            purses = self._purses.setdefault(key, [])
            purse = next((p for p in purses if p.left >= usd and p.lease.week == week), None)
            if purse is None:
                await self._give_back_idle(purses)
                lease = await self._lender.lease(portfolio, metric, usd, usd * CALLS_A_LEASE)
                if lease is None:
                    return None
                purse = _Purse(lease, lease.usd)
                purses.append(purse)
            purse.left -= usd
            purse.calls += 1
            return purse.lease

    async def _give_back_idle(self, purses: list[_Purse]) -> None:
        """Return leases that are too small for a call; reserved parts come back when their calls end."""
        for purse in [purse for purse in purses if purse.calls == 0]:
            purses.remove(purse)
            await self._lender.give_back(purse.lease, purse.left)

    async def put_back(self, lease: Lease, reserved: float, spent: float) -> None:
        """Return the unspent part of a reservation.

        Args:
            lease: Lease of the reservation.
            reserved: US dollars that were reserved.
            spent: Cost of the call in US dollars.
        """
        rest = max(reserved - spent, 0.0)
        purses = self._purses.get((lease.portfolio, lease.metric), [])
        purse = next((p for p in purses if p.lease.id == lease.id), None)
        if purse is not None:
            purse.left += rest
            purse.calls -= 1
        elif rest > 0:  # the wallet was closed before the call had ended
            await self._lender.give_back(lease, rest)

    async def close(self) -> None:
        """Return all unspent money."""
        while self._purses:
            _, purses = self._purses.popitem()
            for purse in purses:
                await self._lender.give_back(purse.lease, purse.left)
