"""Judges in the process that stores, on a thread and an event loop of their own, so that no model delays the stream.

slice stored ──wake──▶ requests of the store ──▶ pool ──▶ intake, on the writer thread ──▶ a slice of verdicts
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from contextlib import closing
from functools import partial
from typing import TypeVar

from gapwatch.scorers.errors import UsageError
from gapwatch.scorers.judges.judgement import Judgement
from gapwatch.scorers.judges.request import JudgeRequest
from gapwatch.scorers.loading.load import parse_stored_portfolio
from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.sinks.reading.stored_portfolios import portfolio_texts
from gapwatch.sinks.store.store import Store
from gapwatch.sinks.verdicts.batch_journal import BatchJournal
from gapwatch.sinks.verdicts.intake import VerdictIntake
from gapwatch.sinks.verdicts.open_requests import OpenRequests
from gapwatch.streams.judges.batches.batch_maker import batch_lane
from gapwatch.streams.judges.calls.judging import Judging
from gapwatch.streams.judges.calls.pool import JudgePool, RequestPool, run_all
from gapwatch.streams.judges.calls.prices import caps_of, known_prices
from gapwatch.streams.judges.calls.wallet import ThreadLender, Wallet
from gapwatch.streams.judges.models.model_maker import ModelAccess, TokenPrice
from gapwatch.streams.judges.workers.stored_requests import StoredRequests

T = TypeVar("T")

log = logging.getLogger("gapwatch.judges")

#: Seconds between two reports of the circuit breakers.
_REPORT_SECONDS = 1.0


class LiveJudges:
    """Answers the pending requests of a store, from `start` to `stop`.

    Args:
        store: The store; read through cursors.
        intake: Intake of verdicts of the same store.
        store_thread: The writer thread.
        portfolios: Portfolios in force.
        access: Adapters and prices of the models.
        on_failure: Called with the error that ended the judges, on their thread.
    """

    def __init__(
        self,
        store: Store,
        intake: VerdictIntake,
        store_thread: Executor,
        portfolios: Sequence[Portfolio],
        access: ModelAccess,
        on_failure: Callable[[BaseException], None],
    ) -> None:
        self._store, self._intake, self._store_thread = store, intake, store_thread
        self._access, self._on_failure = access, on_failure
        self._prices = self._known_prices(portfolios)
        self._portfolios = {p.sha: p for p in (*self._stored_portfolios(), *portfolios)}
        self._judging: Judging | None = None
        self._pools: list[RequestPool] = []
        self._requests: list[StoredRequests] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        #: Guards what the judges' thread reads when it starts: portfolios, `_judging`, `_loop` and `_has_to_stop`.
        self._starting = threading.Lock()
        self._has_to_stop = False
        self._thread = threading.Thread(target=self._run, name="judges", daemon=True)

    def _known_prices(self, portfolios: Sequence[Portfolio]) -> dict[str, TokenPrice]:
        return known_prices(portfolios, caps_of(portfolios, self._access.settings), self._access.price_of)

    def _stored_portfolios(self) -> list[Portfolio]:
        """Return earlier portfolios, whose requests may be pending, if their prices are known."""
        found = []
        with closing(self._store.cursor()) as cursor:
            texts = portfolio_texts(cursor)
        for text in texts:
            try:
                portfolio = parse_stored_portfolio(text)
                self._prices |= self._known_prices([portfolio])
            except UsageError as error:
                log.warning("requests of an earlier portfolio stay pending: %s", error)
                continue
            found.append(portfolio)
        return found

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def wake(self) -> None:
        """Check for new requests now; may be called on any thread."""
        if self._loop is not None:  # before there is a loop, nothing was read yet
            with contextlib.suppress(RuntimeError):  # the loop has ended
                for requests in self._requests:
                    self._loop.call_soon_threadsafe(requests.wake)

    def portfolios_changed(self, portfolios: Sequence[Portfolio]) -> str:
        """Also answer requests of these portfolios; return the error if that is not possible, else an empty text."""
        with self._starting:
            try:
                self._prices |= self._known_prices(portfolios)
            except UsageError as error:
                return str(error)
            self._portfolios |= {p.sha: p for p in portfolios}
            if self._judging is not None:
                self._judging.add(portfolios, self._prices)
        return ""

    def stop(self, seconds: float) -> bool:
        """Cancel requests in work and store finished verdicts; False if that took longer than `seconds`."""
        with self._starting:
            self._has_to_stop = True
            loop = self._loop
        if loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                for pool in self._pools:
                    loop.call_soon_threadsafe(pool.stop)
        if self._thread.is_alive():
            self._thread.join(seconds)
        return not self._thread.is_alive()

    # --- on its thread

    def _run(self) -> None:
        try:
            asyncio.run(self._main())
        except BaseException as error:
            self._on_failure(error)

    async def _main(self) -> None:
        loop = asyncio.get_running_loop()
        wallet = Wallet(ThreadLender(self._intake.lease, self._intake.settle, self._store_thread))
        access = self._access
        with self._starting:
            judging = Judging(self._portfolios.values(), access.settings, access.make_model, self._prices, wallet)
            self._judging = judging

        async def in_store_thread(step: Callable[[], T]) -> T:
            return await loop.run_in_executor(self._store_thread, step)

        async def deliver(batch: Sequence[Judgement]) -> None:
            await loop.run_in_executor(self._store_thread, self._intake.close, batch)

        for name, provider in access.settings.providers.items():
            wants = partial(_is_live_and_known, judging, name)
            requests = StoredRequests(OpenRequests(self._store.cursor), wants, follows=True)
            self._requests.append(requests)
            give_up = access.settings.give_up_after_seconds
            if provider.mode == "batch":
                journal = await in_store_thread(lambda: BatchJournal(self._store))
                self._pools.append(
                    batch_lane(name, judging, access.settings, journal, in_store_thread, requests.next, deliver, wallet)
                )
                continue
            self._pools.append(JudgePool(judging, provider.concurrency, requests.next, deliver, give_up))
        with self._starting:
            self._loop, has_to_stop = loop, self._has_to_stop
        if has_to_stop:  # `stop` came before there was a loop to tell
            await judging.close()
            return
        reporting = asyncio.create_task(self._report(judging))
        try:
            await run_all(self._pools)
        finally:
            reporting.cancel()
            await judging.close()

    async def _report(self, judging: Judging) -> None:
        while True:
            self._intake.samples.breakers(f"here-{os.getpid()}", judging.breaker_states(), judging.outages())
            await asyncio.sleep(_REPORT_SECONDS)


def _is_live_and_known(judging: Judging, providers: str, request: JudgeRequest) -> bool:
    """Return True for a live request of this lane; requests of backfills are left to `gapwatch judge run`."""
    return request.lane == "live" and judging.knows(request, providers)
