"""Answers the pending requests of a store without a live run, many at once, and stores verdicts in batches."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from typing import TypeVar

from gapwatch.scorers.judges.judgement import Judgement
from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.sinks.store.store import Store
from gapwatch.sinks.verdicts.batch_journal import BatchJournal
from gapwatch.sinks.verdicts.budget_leases import JudgeMoney
from gapwatch.sinks.verdicts.closing import JudgeClosing
from gapwatch.sinks.verdicts.open_requests import OpenRequests
from gapwatch.streams.judges.batches.batch_maker import batch_lane
from gapwatch.streams.judges.calls.judging import Judging
from gapwatch.streams.judges.calls.pool import JudgePool, RequestPool, run_all
from gapwatch.streams.judges.calls.prices import caps_of, check_caps, known_prices
from gapwatch.streams.judges.calls.wallet import ThreadLender, Wallet
from gapwatch.streams.judges.models.model_maker import ModelAccess
from gapwatch.streams.judges.settings import JudgeSettings
from gapwatch.streams.judges.workers.stored_requests import StoredRequests
from gapwatch.streams.pipeline.judge_result import JudgeResult

T = TypeVar("T")


def judge_store(
    store: Store,
    portfolios: Sequence[Portfolio],
    access: ModelAccess,
    *,
    patience_seconds: float = 300.0,
    on_batch: Callable[[JudgeResult], None] | None = None,
) -> JudgeResult:
    """Answer every pending request of the given portfolios.

    Args:
        store: Open for writing.
        portfolios: Portfolios whose requests are answered.
        access: Adapters and prices of the models.
        patience_seconds: Longest outage of a provider to wait for; after that its requests stay pending.
        on_batch: Called with the counts after every stored batch.

    Raises:
        UsageError: The price of a model with a cap is not known.
        JobError: The store cannot be written.
    """
    check_caps(portfolios, access.settings)
    caps = caps_of(portfolios, access.settings)
    prices = known_prices(portfolios, caps, access.price_of)
    with ThreadPoolExecutor(1, "writer") as store_thread:
        money = JudgeMoney(store, caps)
        store_thread.submit(money.abandon, datetime.now(UTC)).result()  # this process alone has the store
        lender = ThreadLender(
            lambda portfolio, metric, least, wanted, settled, id_, keeps: money.lease(
                portfolio, metric, least, wanted, datetime.now(UTC), settled, id_, keeps
            ),
            lambda settled: money.settle(settled, datetime.now(UTC)),
            store_thread,
        )
        wallet = Wallet(lender) if caps.portfolios or caps.metrics else None
        store_judging = StoreJudging(store, store_thread, patience_seconds, on_batch)

        async def judged() -> JudgeResult:
            judging = Judging(portfolios, access.settings, access.make_model, prices, wallet)
            return await store_judging.run(judging, access.settings, wallet)

        return asyncio.run(judged())


class StoreJudging:
    """Answers the pending requests of a store, once.

    Args:
        store: Open for writing.
        store_thread: The writer thread.
        patience_seconds: Longest outage of a provider to wait for.
        on_batch: Called with the counts after every stored batch.
    """

    def __init__(
        self,
        store: Store,
        store_thread: ThreadPoolExecutor,
        patience_seconds: float,
        on_batch: Callable[[JudgeResult], None] | None,
    ) -> None:
        self._store = store
        self._store_thread = store_thread
        self._patience = patience_seconds
        self._on_batch = on_batch
        self._result = JudgeResult()

    async def run(self, judging: Judging, settings: JudgeSettings, wallet: Wallet | None) -> JudgeResult:
        """Answer the requests and return the counts."""
        closing = await self._in_store_thread(lambda: JudgeClosing(self._store))

        async def deliver(batch: Sequence[Judgement]) -> None:
            closed = await self._in_store_thread(lambda: closing.close(batch, datetime.now(UTC)))
            self._result.add(closed, batch)
            if self._on_batch is not None:
                self._on_batch(self._result)

        pools: list[RequestPool] = []
        for lane, workers in judging.lanes().items():
            wants = partial(judging.knows, lane=lane)
            requests = StoredRequests(OpenRequests(self._store.cursor), wants, follows=False)
            if settings.providers[lane].mode == "batch":
                journal = await self._in_store_thread(lambda: BatchJournal(self._store))
                pools.append(
                    batch_lane(
                        lane, judging, settings, journal, self._in_store_thread, requests.next, deliver, wallet,
                        self._patience,
                    )
                )  # fmt: skip
                continue
            pools.append(JudgePool(judging, workers, requests.next, deliver, self._patience, self._patience))
        try:
            await run_all(pools)
        finally:
            await judging.close()
        self._result.left = closing.pending
        self._result.suspicions = judging.suspicions
        self._result.cached = judging.cache_hits
        return self._result

    async def _in_store_thread(self, step: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._store_thread, step)
