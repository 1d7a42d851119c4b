"""Budget of one worker: reserves the highest possible cost before each call, and returns the unspent part at once.

A worker has one lease for each portfolio and week, or for each metric with a cap of its own. Calls reserve parts of it
and put back what they did not cost. When it does not suffice, it is settled and another one is asked for.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from time import monotonic
from typing import Protocol

from gapwatch.sinks.verdicts.budget_leases import LEASES_OF_THE_REST, Grant, JudgeMoney, Lease, Settlements, week_of

#: Number of calls whose cost a worker leases at once.
CALLS_A_LEASE = 8
#: Seconds for which a lease without calls is kept. Longer: other workers wait for it at the cap.
_IDLE_SECONDS = 1.0
#: Seconds for which requests are refused without asking again. Longer: money that comes back is noticed late.
_REFUSED_SECONDS = 2.0
#: Seconds after which a lease is settled, and after which one is asked for again at the cap.
_RENEW_SECONDS, _ASK_SECONDS = 60.0, 0.25


class Lender(Protocol):
    """Source of leases: the store of this process, or that of another process over its API."""

    async def lease(
        self, portfolio: str, metric: str, least: float, wanted: float, settled: Settlements, id_: str, keeps: bool
    ) -> Grant:
        """Settle leases and return one of at least `least` US dollars, if the cap allows it."""
        ...

    async def settle(self, settled: Settlements) -> None:
        """End leases."""
        ...


class ThreadLender:
    """Leases from the store of this process.

    Args:
        money: Lends, on the writer thread.
        store_thread: The writer thread.
    """

    def __init__(self, money: JudgeMoney, store_thread: Executor) -> None:
        self._money, self._store_thread = money, store_thread

    async def lease(
        self, portfolio: str, metric: str, least: float, wanted: float, settled: Settlements, id_: str, keeps: bool
    ) -> Grant:
        """Return a lease that is committed to the store, if the cap allows it."""
        asked = (portfolio, metric, least, wanted, datetime.now(UTC), settled, id_, keeps)
        return await asyncio.get_running_loop().run_in_executor(self._store_thread, self._money.lease, *asked)

    async def settle(self, settled: Settlements) -> None:
        """End leases."""
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._store_thread, self._money.settle, settled, datetime.now(UTC))


@dataclass
class _Purse:
    """Money of one week for one portfolio, or for one metric with a cap of its own."""

    leases: list[Lease] = field(default_factory=list)
    left: float = 0.0
    #: What the cap had left behind the last lease.
    rest: float = 0.0
    reserved: float = 0.0
    calls: int = 0
    since: float = field(default_factory=monotonic)
    used_at: float = field(default_factory=monotonic)
    is_closed: bool = False
    is_returning: bool = False
    asking: asyncio.Lock = field(default_factory=asyncio.Lock)
    news: asyncio.Event = field(default_factory=asyncio.Event)

    def settlements(self, in_reserve: bool = True) -> list[tuple[Lease, float]]:
        """Return the leases and what is not spent of each, newest first; `in_reserve` includes what is reserved."""
        unspent, settled = self.left + (self.reserved if in_reserve else 0.0), []
        for lease in reversed(self.leases[1:]):
            part = min(max(unspent, 0.0), lease.usd)
            settled.append((lease, part))
            unspent -= part
        return [*settled, *((lease, unspent) for lease in self.leases[:1])]


@dataclass(frozen=True)
class Reservation:
    """Money set aside for one call, US dollars."""

    purse: _Purse
    usd: float


class Wallet:
    """Leases of one worker; for one event loop.

    Args:
        lender: Source of leases.
        now: Returns the time, with a time zone.
    """

    def __init__(self, lender: Lender, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._lender = lender
        self._now = now
        #: Metrics with caps of their own, as leases have shown; all others share the purse of their portfolio.
        self._owners: dict[tuple[str, str], str] = {}
        self._purses: dict[tuple[str, str, str], _Purse] = {}
        #: What was refused last, by portfolio and metric: US dollars, and until when nothing as dear is asked for.
        self._refused: dict[tuple[str, str], tuple[float, float]] = {}
        self._returns: set[asyncio.Task[None]] = set()

    async def reserve(self, portfolio: str, metric: str, listed: float, most: float) -> Reservation | None:
        """Reserve the cost of one call; None if the cap does not allow it.

        Args:
            portfolio: Name of the portfolio that pays.
            metric: Metric of that portfolio.
            listed: Highest cost by the price list, US dollars. It is reserved while the cap has so much left that it
                pays higher bills of all calls under way: the reservations of a killed worker count as spent.
            most: Highest cost by the bills so far, US dollars; it is reserved near the cap.
        """
        refused, until = self._refused.get((portfolio, metric), (0.0, 0.0))
        if monotonic() < until and most >= refused:
            return None
        while True:
            week = week_of(self._now())
            owner = self._owners.get((portfolio, metric), metric)
            purse = self._purses.setdefault((portfolio, owner, week), _Purse())
            async with purse.asking:
                while not purse.is_closed:
                    is_ample = purse.rest >= LEASES_OF_THE_REST * (purse.calls + CALLS_A_LEASE) * most
                    usd = listed if is_ample else most
                    if purse.left >= usd and monotonic() - purse.since < _RENEW_SECONDS:
                        purse.left -= usd
                        purse.reserved += usd
                        purse.calls += 1
                        return Reservation(purse, usd)
                    grant = await self._renew(purse, portfolio, metric, usd)
                    if grant.lease is not None and grant.lease.metric != owner:
                        self._join(portfolio, metric, purse, grant.lease)
                    elif grant.lease is None and not await self._may_hope(purse, grant):
                        self._refused[portfolio, metric] = usd, monotonic() + _REFUSED_SECONDS
                        return None

    async def _renew(self, purse: _Purse, portfolio: str, metric: str, usd: float) -> Grant:
        """Settle the leases of a purse, and lease what its calls under way and another one need."""
        left, reserved, keeps = purse.left, purse.reserved, purse.calls > 0
        # The first lease of a metric shows whether it has a cap of its own. It pays one call: with thirty metrics that
        # share a purse, thirty leases come together in it, and a killed worker loses them all.
        calls = CALLS_A_LEASE if (portfolio, metric) in self._owners else 1
        grant = await self._lender.lease(
            portfolio, metric, reserved + usd, reserved + calls * usd, purse.settlements(),
            secrets.token_hex(8), keeps,
        )  # fmt: skip
        # Calls may have ended meanwhile: what they put back is theirs on top of the new lease.
        if grant.lease is not None:
            self._owners.setdefault((portfolio, metric), grant.lease.metric)
            purse.leases = [grant.lease]
            purse.left += grant.lease.usd - reserved - left
            purse.rest = grant.rest
            purse.since = monotonic()
        elif not keeps:
            purse.leases = []
            purse.left -= left
        return grant

    def _join(self, portfolio: str, metric: str, purse: _Purse, lease: Lease) -> None:
        """Move the first lease of a metric into the purse that it shares with others."""
        self._owners[portfolio, metric] = lease.metric
        shared = self._purses.setdefault((portfolio, lease.metric, lease.week), _Purse())
        shared.leases.append(lease)
        shared.left += lease.usd - purse.reserved
        shared.rest = purse.rest
        self._close_purse(purse)
        self._return_when_idle(shared)

    async def _may_hope(self, purse: _Purse, grant: Grant) -> bool:
        """Wait for money that comes back; return False if none can."""
        if purse.calls:
            purse.news.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_IDLE_SECONDS):
                    await purse.news.wait()
            return True
        if grant.may_wait:
            await asyncio.sleep(_ASK_SECONDS)
        return grant.may_wait

    def put_back(self, reservation: Reservation, spent: float) -> None:
        """Return the unspent part of a reservation; `spent` is the cost of the call in US dollars, also beyond it."""
        purse = reservation.purse
        purse.left += reservation.usd - spent
        purse.reserved -= reservation.usd
        purse.calls -= 1
        purse.used_at = monotonic()
        purse.news.set()
        self._return_when_idle(purse)

    def _return_when_idle(self, purse: _Purse) -> None:
        if purse.calls == 0 and not purse.is_closed and not purse.is_returning:
            purse.is_returning = True
            task = asyncio.get_running_loop().create_task(self._return(purse))
            self._returns.add(task)
            task.add_done_callback(self._returns.discard)

    async def _return(self, purse: _Purse) -> None:
        """Settle a purse that nothing is paid from for a while; other workers may wait for it."""
        while (rest := purse.used_at + _IDLE_SECONDS - monotonic()) > 0:
            await asyncio.sleep(rest)
        async with purse.asking:
            purse.is_returning = False
            if purse.calls == 0 and not purse.is_closed:
                settled = purse.settlements()
                self._close_purse(purse)
                await self._lender.settle(settled)

    def _close_purse(self, purse: _Purse) -> None:
        purse.is_closed = True
        self._purses = {key: other for key, other in self._purses.items() if other is not purse}

    async def close(self) -> None:
        """Settle all leases; what calls under way have reserved counts as spent."""
        for task in self._returns:
            task.cancel()
        await asyncio.gather(*self._returns, return_exceptions=True)
        purses = [*self._purses.values()]
        for purse in purses:
            settled = purse.settlements(in_reserve=False)
            self._close_purse(purse)
            await self._lender.settle(settled)
