"""Lane whose requests are answered by the batch interface of its provider.

pending requests ──▶ planned (journal) ──▶ submitted ──▶ sent (journal) ──▶ results ──▶ verdicts ──▶ done (journal)

Each step is in the store before the next one begins, so a restart continues where a kill cut it off.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

from gapwatch.scorers.judges.chat_model import ModelFailure
from gapwatch.scorers.judges.fence import NONCE_DIGITS
from gapwatch.scorers.judges.judgement import Judgement
from gapwatch.sinks.verdicts.batch_journal import DONE, PLANNED, SENT, BatchItem, BatchJournal, JournaledBatch
from gapwatch.sinks.verdicts.open_requests import WaitingRequest
from gapwatch.streams.judges.batches.batch_api import BatchApi, BatchPostponed
from gapwatch.streams.judges.batches.batch_items import FINAL_FAILURES, BatchItems, PreparedItem, custom_id_of
from gapwatch.streams.judges.calls.judging import Judging
from gapwatch.streams.judges.calls.pool import Deliver, NextRequest
from gapwatch.streams.judges.calls.wallet import Reservation, Wallet
from gapwatch.streams.judges.settings import ProviderSettings

log = logging.getLogger("gapwatch.judges")
T = TypeVar("T")
#: Runs a function on the writer thread.
InStoreThread = Callable[[Callable[[], None]], Awaitable[None]]

#: Seconds for which a batch waits for money before it goes with the requests that it has.
_MONEY_SECONDS = 2.0
#: Most seconds that a provider gets to list a batch that it was sent before a restart.
_SETTLE_SECONDS = 10.0


class _NoPatience(Exception):  # noqa: N818 - an answer that every caller handles
    """The provider has failed for too long."""


class BatchLane:
    """Answers the requests of one lane by batches; runs beside the pools of other lanes, with their methods.

    Args:
        name: Name of the lane, an entry of `providers`.
        judging: Knows the questions.
        api: Batch interface of the provider.
        settings: Settings of the provider.
        journal: Journal of the store.
        in_store_thread: Runs a function on the writer thread.
        next_request: Returns the next pending request.
        deliver: Stores judgements.
        wallet: Reserves the cost of calls; None: there is no cap.
        patience_seconds: Longest time for which the provider may fail to answer before `run` ends; None: no limit. What
            is under way then stays in the journal.
    """

    def __init__(
        self,
        name: str,
        judging: Judging,
        api: BatchApi,
        settings: ProviderSettings,
        journal: BatchJournal,
        in_store_thread: InStoreThread,
        next_request: NextRequest,
        deliver: Deliver,
        wallet: Wallet | None = None,
        patience_seconds: float | None = None,
    ) -> None:
        self._name, self._items, self._api, self._settings = name, BatchItems(judging), api, settings
        self._journal, self._in_store_thread = journal, in_store_thread
        self._next_request, self._deliver_batch, self._wallet = next_request, deliver, wallet
        self._patience = patience_seconds
        self._again: deque[str] = deque()
        self._attempts: dict[str, BatchItem] = {}
        self._under_way: set[str] = set()
        self._known: set[str] = set()
        self._delivering = asyncio.Lock()
        self._reserved: dict[str, Reservation] = {}
        self._hoping: set[asyncio.Task[Reservation | None]] = set()
        #: Requests that wait until a batch returns money.
        self._unpaid: list[str] = []
        self._main: asyncio.Task[None] | None = None
        self._pending: asyncio.Future[WaitingRequest | None] | None = None
        self._is_stopped = False

    def stop(self) -> None:
        """Stop; batches under way are continued by the next run."""
        self._is_stopped = True
        if self._main is not None:
            self._main.cancel()

    async def run(self) -> None:
        """Answer requests until there are no more, or `stop`."""
        if self._is_stopped:
            return
        self._main = asyncio.create_task(self._answer_all())
        try:
            await self._main
        except asyncio.CancelledError:
            if not self._is_stopped:
                raise
        except BaseExceptionGroup as group:
            raise group.exceptions[0] from None
        finally:
            tasks = [task for task in (self._main, self._pending, *self._hoping) if task is not None]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._api.close()

    async def _answer_all(self) -> None:
        async with asyncio.TaskGroup() as batches:
            running: set[asyncio.Task[None]] = set()

            def start(step: Awaitable[None]) -> None:
                task = batches.create_task(_awaited(step))
                running.add(task)
                task.add_done_callback(running.discard)

            for batch in await asyncio.to_thread(self._journal.batches, self._name):
                self._known |= {batch.provider_id} if batch.provider_id else set()
                if batch.state == DONE:
                    self._attempts |= {item.id: item for item in batch.items}
                else:
                    self._under_way |= {item.id for item in batch.items}
                    start(self._resume(batch))
            is_over = False
            while not is_over or self._again or running:
                if self._again:
                    ids = [self._again.popleft() for _ in range(min(len(self._again), self._settings.batch_requests))]
                    group = await asyncio.to_thread(self._journal.open_among, ids)
                elif not is_over:
                    group, is_over = await self._gather()
                else:
                    await asyncio.wait(set(running), return_when=asyncio.FIRST_COMPLETED)
                    continue
                if group:
                    start(self._answer(group))

    async def _gather(self) -> tuple[list[WaitingRequest], bool]:
        """Wait for the requests of the next batch; True after the last request of all."""
        group: list[WaitingRequest] = []
        loop = asyncio.get_running_loop()
        end = 0.0
        while len(group) < self._settings.batch_requests:
            # A request that comes too late for this batch is the first of the next.
            pending = self._pending or asyncio.ensure_future(self._next_request())
            self._pending = pending
            done, _ = await asyncio.wait({pending}, timeout=max(end - loop.time(), 0.0) if group else 1.0)
            if not done:
                if group or self._again:
                    break
                continue
            self._pending = None
            request = pending.result()
            if request is None:
                return group, True
            if request.id not in self._under_way:
                end = end or loop.time() + self._settings.batch_seconds
                group.append(request)
        return group, False

    # --- one batch

    async def _answer(self, group: Sequence[WaitingRequest]) -> None:
        prepared: list[PreparedItem] = []
        ended: list[Judgement] = []
        for at, waiting in enumerate(group):
            before = self._attempts.get(waiting.id)
            item = BatchItem(waiting.id, secrets.token_hex(NONCE_DIGITS // 2))
            if before is not None:
                item = replace(item, attempt=before.attempt, paid=before.paid)
            made = self._items.prepare(waiting, item)
            if isinstance(made, Judgement):
                ended.append(made)
                continue
            has_money = await self._reserve(made, waits=bool(prepared or self._under_way))
            if has_money is None:
                # The money is with batches under way, and a part of it comes back when they end.
                self._unpaid += [later.id for later in group[at:]]
                break
            if has_money:
                prepared.append(made)
            else:
                paid = item.paid
                ended.append(Judgement(item.id, "shed_budget", reason="budget", calls=paid, **made.pinned))
        await self._deliver(ended)
        if not prepared:
            if not self._under_way:  # the last batch has ended while this one waited for money
                self._retry_unpaid()
            return
        key = secrets.token_hex(8)
        items = tuple(one.item for one in prepared)
        self._under_way |= {item.id for item in items}
        await self._write(key, PLANNED, None, items)
        await self._submit(key, prepared)

    async def _submit(self, key: str, prepared: Sequence[PreparedItem]) -> None:
        calls = [(custom_id_of(key, one.item), one.call) for one in prepared]
        items = tuple(one.item for one in prepared)
        attempts = 0

        async def submit() -> str:
            nonlocal attempts
            attempts += 1
            # An attempt whose answer was lost may have made the batch.
            found = await self._find(key, len(calls)) if attempts > 1 else None
            return found or await self._api.submit(key, calls)

        try:
            sent = await self._patiently(submit, key)
        except ModelFailure as failure:
            await self._refused(key, None, items, failure)
        except _NoPatience:
            return
        else:
            await self._sent(key, sent, items)

    async def _resume(self, batch: JournaledBatch) -> None:
        if batch.state == SENT and batch.provider_id is not None:
            await self._finish(batch.key, batch.provider_id, batch.items)
            return

        await asyncio.sleep(min(self._settings.poll_seconds, _SETTLE_SECONDS))
        try:
            found = await self._patiently(lambda: self._find(batch.key, len(batch.items)), batch.key)
        except _NoPatience:
            return
        if found is not None:
            await self._sent(batch.key, found, batch.items)
        else:
            waiting = {w.id: w for w in await self._open(batch.items)}
            again = [self._items.prepare(waiting[item.id], item) for item in batch.items if item.id in waiting]
            # The first process has set money aside for each, which counts as spent: nothing is reserved again.
            ready = [one for one in again if isinstance(one, PreparedItem)]
            if ready:
                await self._submit(batch.key, ready)
            else:
                await self._write(batch.key, DONE, None, [])

    async def _find(self, key: str, requests: int) -> str | None:
        return await self._api.find(key, requests, frozenset(self._known))

    async def _sent(self, key: str, provider_id: str, items: Sequence[BatchItem]) -> None:
        self._known.add(provider_id)
        await self._write(key, SENT, provider_id, items)
        log.info("batch %s of %d requests is with the provider as %s", key, len(items), provider_id)
        await self._finish(key, provider_id, items)

    async def _finish(self, key: str, provider_id: str, items: Sequence[BatchItem]) -> None:
        try:
            while (answers := await self._patiently(lambda: self._api.results(provider_id), key)) is None:
                await asyncio.sleep(self._settings.poll_seconds)
        except ModelFailure as failure:
            await self._refused(key, provider_id, items, failure)
            return
        except _NoPatience:
            return
        except BatchPostponed:
            log.warning("batch %s: the provider has no room for it now; asking again in %g s", key, self._pause)
            self._settle(items, {}, items)
            await self._write(key, DONE, provider_id, items)
            await asyncio.sleep(self._pause)
            self._ask_again(items, items)
            return
        # The first answer counts, as the first judgement of a request does.
        by_id = {answer.custom_id: answer for answer in reversed(answers)}
        judgements: list[Judgement] = []
        again: list[BatchItem] = []
        by_item = {item.id: item for item in items}
        for waiting in await self._open(items):  # what is closed was stored before a kill
            item = by_item[waiting.id]
            made = self._items.prepare(waiting, item)
            if isinstance(made, Judgement):
                judgements.append(made)
                continue
            read = self._items.read(made, by_id.get(custom_id_of(key, item)), key, provider_id)
            if isinstance(read, BatchItem):
                again.append(read)
            else:
                judgements.append(read)
        await self._deliver(judgements)
        self._settle(items, {j.id: sum(c.usd for c in j.calls) for j in judgements}, again)
        await self._write(key, DONE, provider_id, again)
        self._ask_again(items, again)

    async def _refused(
        self, key: str, provider_id: str | None, items: Sequence[BatchItem], failure: ModelFailure
    ) -> None:
        """End the requests of a batch that the provider does not take."""
        ended = []
        by_item = {item.id: item for item in items}
        for waiting in await self._open(items):
            item = by_item[waiting.id]
            made = self._items.prepare(waiting, item)
            pinned = made.pinned if isinstance(made, PreparedItem) else {}
            ended.append(Judgement(item.id, "error", reason=str(failure)[:300], calls=item.paid, **pinned))
        await self._deliver(ended)
        self._settle(items, {}, [])
        await self._write(key, DONE, provider_id, [])
        self._under_way -= set(by_item)
        self._retry_unpaid()

    def _ask_again(self, items: Sequence[BatchItem], again: Sequence[BatchItem]) -> None:
        """Put requests of a batch that has ended into the next one."""
        self._attempts |= {item.id: item for item in again}
        self._under_way -= {item.id for item in items}
        self._again.extend(item.id for item in again)
        self._retry_unpaid()

    @property
    def _pause(self) -> float:
        return self._settings.batch_seconds

    def _retry_unpaid(self) -> None:
        self._again.extend(self._unpaid)
        self._unpaid.clear()

    # --- store and money

    async def _open(self, items: Sequence[BatchItem]) -> list[WaitingRequest]:
        return await asyncio.to_thread(self._journal.open_among, [item.id for item in items])

    async def _write(self, key: str, state: str, provider_id: str | None, items: Sequence[BatchItem]) -> None:
        await self._in_store_thread(lambda: self._journal.append(key, self._name, state, provider_id, items))

    async def _deliver(self, judgements: Sequence[Judgement]) -> None:
        if judgements:
            async with self._delivering:
                await self._deliver_batch(judgements)

    async def _reserve(self, one: PreparedItem, waits: bool) -> bool | None:
        """Set money aside for a request; False if the cap does not allow it, None if only batches can return some."""
        if self._wallet is None:
            return True
        price = one.question.price
        most = price.worst(one.call)
        asking = asyncio.create_task(self._wallet.reserve(price.portfolio, price.metric, most, most))
        # Calls under way return money within a minute or so, for which the wallet waits; batches within a day.
        done, _ = await asyncio.wait({asking}, timeout=_MONEY_SECONDS if waits else None)
        if not done:
            self._hoping.add(asking)
            asking.add_done_callback(self._put_back)
            return None
        reservation = asking.result()
        if reservation is not None:
            self._reserved[one.item.id] = reservation
        return reservation is not None

    def _put_back(self, asking: asyncio.Task[Reservation | None]) -> None:
        """Return money that came too late."""
        self._hoping.discard(asking)
        if not asking.cancelled() and not asking.exception() and (late := asking.result()) is not None:
            assert self._wallet is not None
            self._wallet.put_back(late, 0.0)

    def _settle(self, items: Iterable[BatchItem], usd: dict[str, float], again: Sequence[BatchItem]) -> None:
        """Return what was set aside and not spent; what another process set aside counts as spent."""
        spent = usd | {item.id: sum(call.usd for call in item.paid) for item in again}
        for item in items:
            held = self._reserved.pop(item.id, None)
            if held is not None and self._wallet is not None:
                before = sum(call.usd for call in item.paid)
                self._wallet.put_back(held, max(spent.get(item.id, 0.0) - before, 0.0))

    async def _patiently(self, step: Callable[[], Awaitable[T]], key: str) -> T:
        """Return the result of a step, repeated while the provider fails.

        Raises:
            ModelFailure: The provider refuses it for good.
            _NoPatience: It failed for too long; the batch stays in the journal.
        """
        loop = asyncio.get_running_loop()
        failing_since: float | None = None
        while True:
            try:
                return await step()
            except ModelFailure as failure:
                if failure.kind in FINAL_FAILURES:
                    raise
                failing_since = loop.time() if failing_since is None else failing_since
                if self._patience is not None and loop.time() - failing_since >= self._patience:
                    log.warning("batch %s waits for the next run: %s", key, failure)
                    raise _NoPatience from None
                log.warning("batch %s: %s; asking again in %g s", key, failure, self._settings.poll_seconds)
                await asyncio.sleep(failure.retry_after_seconds or self._settings.poll_seconds)


async def _awaited(step: Awaitable[None]) -> None:
    await step
