"""Patience of a call during an outage, and the places of a pool that waiting requests give to others."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

#: Seconds that an outage lasts at least before requests that are older than their patience end. Shorter: an outage of a
#: minute ends a backlog of old requests. Longer: after a restart they end later.
GRACE_SECONDS = 600.0
#: Most requests of a pool that wait aside for an outage, and most characters of their inputs, which are in memory.
#: Fewer: requests for other providers of the lane wait behind them.
ASIDE_REQUESTS, ASIDE_CHARACTERS = 2_000, 64_000_000


class LeftPending(Exception):  # noqa: N818 - an outcome that every caller handles
    """The request stays pending, because an outage has lasted too long for this run."""


class WorkPlaces:
    """Places of the requests that a pool works on; for one event loop.

    Args:
        places: Most requests in work at once, those aside not counted.
    """

    def __init__(self, places: int) -> None:
        self._places = places
        self._free = asyncio.Semaphore(places)
        self._aside = self._characters = 0
        self._has_room = asyncio.Event()
        self._has_room.set()

    def widen(self, places: int) -> None:
        """Have at least so many places."""
        while self._places < places:
            self._places += 1
            self._free.release()

    async def take(self) -> None:
        """Wait for a place, and until not too many requests wait aside."""
        await self._has_room.wait()
        await self._free.acquire()

    def leave(self) -> None:
        """Leave a place."""
        self._free.release()

    @asynccontextmanager
    async def aside(self, characters: int) -> AsyncIterator[None]:
        """Leave the place for the duration of a block, and take one again behind it.

        Args:
            characters: Size of the inputs of the request.
        """
        self._count(1, characters)
        self._free.release()
        try:
            yield
        finally:
            self._count(-1, -characters)
            # A cancelled task leaves its place once more at its end.
            await self._free.acquire()

    def _count(self, requests: int, characters: int) -> None:
        self._aside += requests
        self._characters += characters
        if self._aside < ASIDE_REQUESTS and self._characters < ASIDE_CHARACTERS:
            self._has_room.set()
        else:
            self._has_room.clear()


class Patience:
    """Patience of one request during outages.

    Args:
        seconds: Longest wait since it was asked.
        asked_at: Time at which the request was stored, seconds since 1970; None: a wait begins with each outage.
        stays_pending: True: the request stays pending when it has waited long enough. False: it ends as an error.
        places: Places of the pool; None: there is none.
        characters: Size of its inputs.
    """

    def __init__(
        self,
        seconds: float,
        asked_at: float | None = None,
        *,
        stays_pending: bool = False,
        places: WorkPlaces | None = None,
        characters: int = 0,
    ) -> None:
        self._seconds, self._asked_at = seconds, asked_at
        self._places, self._characters = places, characters
        self.stays_pending = stays_pending

    def left(self, outage_seconds: float) -> float:
        """Return the seconds for which the request still waits for an outage that has lasted so long."""
        if self._asked_at is None:
            return self._seconds - outage_seconds
        asked = self._asked_at + self._seconds - time.time()
        return max(asked, min(self._seconds, GRACE_SECONDS) - outage_seconds)

    @asynccontextmanager
    async def aside(self) -> AsyncIterator[None]:
        """Give the place in the pool to another request for the duration of a block."""
        if self._places is None:
            yield
            return
        async with self._places.aside(self._characters):
            yield


class SharedPatience(Patience):
    """Patience of several requests that are asked in one call: as long as all of them wait.

    Args:
        members: Their patience, at least one.
    """

    def __init__(self, members: Sequence[Patience]) -> None:
        super().__init__(0.0, stays_pending=members[0].stays_pending)
        self._members = members

    def left(self, outage_seconds: float) -> float:
        """Return the seconds for which they still wait for an outage that has lasted so long."""
        return min(member.left(outage_seconds) for member in self._members)

    @asynccontextmanager
    async def aside(self) -> AsyncIterator[None]:
        """Give their places in the pool to other requests for the duration of a block."""
        async with AsyncExitStack() as stack:
            for member in self._members:
                await stack.enter_async_context(member.aside())
            yield
