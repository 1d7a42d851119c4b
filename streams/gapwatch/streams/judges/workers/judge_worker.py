"""Worker that answers judge requests: one pool for each entry of `providers`, whatever feed the requests come from.

a store ──────────────────┐
a store beside its run ───┼──▶ feed ──▶ pool of each lane ──▶ feed: verdicts stored, or sent to the process that stores
topics of Kafka ──────────┘
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Sequence
from typing import Protocol

from gapwatch.sinks.verdicts.batch_journal import BatchJournal
from gapwatch.streams.judges.batches.batch_lane import InStoreThread
from gapwatch.streams.judges.batches.batch_maker import batch_lane
from gapwatch.streams.judges.calls.judging import Judging
from gapwatch.streams.judges.calls.pool import Deliver, JudgePool, NextRequest, RequestPool, run_all
from gapwatch.streams.judges.calls.terms import JudgeTerms
from gapwatch.streams.judges.calls.wallet import Lender, Wallet
from gapwatch.streams.judges.models.model_maker import ModelAccess


class RequestFeed(Protocol):
    """Protocol of a source of requests that also takes their judgements; for one event loop.

    Attributes:
        follows: True: later requests come, too. False: it ends after the requests that wait now.
    """

    follows: bool

    async def open(self, judging: Judging, lanes: Sequence[str]) -> None:
        """Make ready to read the requests of these entries of `providers`."""
        ...

    def lane(self, name: str) -> tuple[NextRequest, Deliver]:
        """Return what gives the requests of one lane, and what takes their judgements."""
        ...

    async def journal(self) -> tuple[BatchJournal, InStoreThread]:
        """Return the journal of batches, and what runs its steps on the writer thread."""
        ...

    async def report(self, judging: Judging) -> None:
        """Report circuit breakers and outages until cancelled."""
        ...


class JudgeWorker:
    """Answers the requests of a feed.

    Args:
        access: Models, with the settings of their providers.
        terms: Portfolios whose requests are answered, with prices and caps.
        feed: Source of the requests.
        lender: Source of leases; None: no portfolio has a cap.
        patience_seconds: How long a request waits for outages if it stays pending after that; None: it waits as long as
            `give_up_after` says, and ends as an error.

    Attributes:
        judging: Answers single requests; None before `run`.
    """

    def __init__(
        self,
        access: ModelAccess,
        terms: Sequence[JudgeTerms],
        feed: RequestFeed,
        lender: Lender | None,
        patience_seconds: float | None = None,
    ) -> None:
        self._access, self._feed, self._lender = access, feed, lender
        self._terms = list(terms)
        self._patience = patience_seconds
        self.judging: Judging | None = None
        self._pools: list[RequestPool] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        #: Guards what other threads change while the worker starts.
        self._starting = threading.Lock()
        self._has_to_stop = False

    def add(self, terms: Sequence[JudgeTerms]) -> None:
        """Also answer requests of these portfolios; may be called on any thread."""
        with self._starting:
            self._terms += terms
            if self.judging is not None:
                self.judging.add(terms)

    def stop(self) -> None:
        """Cancel requests in work; finished judgements are still delivered. May be called on any thread."""
        with self._starting:
            self._has_to_stop = True
            loop = self._loop
        if loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                for pool in self._pools:
                    loop.call_soon_threadsafe(pool.stop)

    async def run(self) -> Judging:
        """Answer requests until there are no more, or `stop`; return what answered them.

        Raises:
            JobError: The store cannot be written, or refuses this worker.
        """
        settings = self._access.settings
        wallet = None if self._lender is None else Wallet(self._lender)
        with self._starting:
            judging = self.judging = Judging(self._terms, settings, self._access.make_model, wallet)
        lanes = [name for name in settings.providers if self._feed.follows or judging.asks(name)]
        reporting: asyncio.Task[None] | None = None
        try:
            await self._feed.open(judging, lanes)
            pools = [await self._pool(name, judging, wallet) for name in lanes]
            with self._starting:
                self._loop, self._pools = asyncio.get_running_loop(), pools
                has_to_stop = self._has_to_stop
            if not has_to_stop:
                reporting = asyncio.create_task(self._feed.report(judging))
                await run_all(pools)
        finally:
            if reporting is not None:
                reporting.cancel()
            await judging.close()
        return judging

    async def _pool(self, lane: str, judging: Judging, wallet: Wallet | None) -> RequestPool:
        settings = self._access.settings
        next_request, deliver = self._feed.lane(lane)
        if settings.providers[lane].mode == "batch":
            journal, in_store_thread = await self._feed.journal()
            return batch_lane(
                lane, judging, settings, journal, in_store_thread, next_request, deliver, wallet, self._patience
            )
        calls, give_up = settings.providers[lane].concurrency, settings.give_up_after_seconds
        return JudgePool(judging, lane, calls, next_request, deliver, give_up, self._patience)
