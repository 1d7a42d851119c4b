"""What one worker may spend: reserved before a call at its worst price, settled after it at its real one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Protocol

from sinks.judge_money import Lease, week_of

#: How many calls' worth of money a worker leases at once.
CALLS_A_LEASE = 50


class Lender(Protocol):
    """Where leases come from: the keeper of this process, or that of another over its interface."""

    async def lease(self, portfolio: str, metric: str, least: float, wanted: float) -> Lease | None:
        """Return a lease of at least `least` US dollars, or None."""
        ...

    async def give_back(self, lease: Lease, usd: float) -> None:
        """Return what was not spent."""
        ...


class Wallet:
    """Leases by metric; for one event loop."""

    def __init__(self, lender: Lender, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._lender = lender
        self._now = now
        self._balances: dict[tuple[str, str], tuple[Lease, float]] = {}
        self._locks: dict[tuple[str, str], asyncio.Lock] = {}

    async def reserve(self, portfolio: str, metric: str, usd: float) -> Lease | None:
        """Set aside the worst price of one call; None where the cap does not allow it."""
        key = (portfolio, metric)
        async with self._locks.setdefault(key, asyncio.Lock()):
            held = self._balances.get(key)
            if held is not None and held[0].week == week_of(self._now()) and held[1] >= usd:
                self._balances[key] = (held[0], held[1] - usd)
                return held[0]
            if held is not None:
                del self._balances[key]
                await self._lender.give_back(*held)
            lease = await self._lender.lease(portfolio, metric, usd, usd * CALLS_A_LEASE)
            if lease is None:
                return None
            self._balances[key] = (lease, lease.usd - usd)
            return lease

    async def settle(self, lease: Lease, reserved: float, spent: float) -> None:
        """Put back what a call did not cost."""
        rest = max(reserved - spent, 0.0)
        key = (lease.portfolio, lease.metric)
        held = self._balances.get(key)
        if held is not None and held[0].id == lease.id:
            self._balances[key] = (lease, held[1] + rest)
        elif rest > 0:
            await self._lender.give_back(lease, rest)

    async def close(self) -> None:
        """Give back everything."""
        while self._balances:
            _, (lease, usd) = self._balances.popitem()
            await self._lender.give_back(lease, usd)
