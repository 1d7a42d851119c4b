"""Starts judging: over a store, on a thread beside the run that stores, or as a process of `--role judge`."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from gapwatch.publisher.kafka_settings import KafkaSettings
from gapwatch.scorers.errors import UsageError
from gapwatch.scorers.judges.judgement import Judgement
from gapwatch.scorers.loading.load import parse_stored_portfolio
from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.sinks.api.endpoint_note import read_note
from gapwatch.sinks.api.service import api_options
from gapwatch.sinks.api.store_address import WRITE_TOKEN, read_token_file
from gapwatch.sinks.reading.stored_portfolios import portfolio_texts
from gapwatch.sinks.store.store import Store
from gapwatch.sinks.verdicts.budget_leases import JudgeMoney
from gapwatch.sinks.verdicts.closing import JudgeClosing
from gapwatch.sinks.verdicts.intake import VerdictIntake
from gapwatch.streams.judges.batches.batch_maker import refuse_batches
from gapwatch.streams.judges.calls.terms import JudgeTerms, caps_of, checked_terms, terms_of
from gapwatch.streams.judges.calls.wallet import ThreadLender
from gapwatch.streams.judges.models.model_maker import ModelAccess, model_access
from gapwatch.streams.judges.secret import Secret, read_secret
from gapwatch.streams.judges.settings import JudgeSettings, load_judge_settings
from gapwatch.streams.judges.workers.judge_worker import JudgeWorker
from gapwatch.streams.judges.workers.store_feed import StoreFeed
from gapwatch.streams.pipeline.judge_result import JudgeResult

log = logging.getLogger("gapwatch.judges")

#: Most seconds of each step of the stop of a judge process.
_END_SECONDS = 2.5


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
        access: Models, with the settings of their providers.
        patience_seconds: Longest outage of a provider to wait for; after that its requests stay pending.
        on_batch: Called with the counts after every stored batch, on the writer thread.

    Raises:
        UsageError: The price of a model with a cap is not known.
        JobError: The store cannot be written.
    """
    terms, caps = checked_terms(portfolios, access.settings), caps_of(portfolios, access.settings)
    result = JudgeResult()
    with ThreadPoolExecutor(1, "writer") as store_thread:
        money = JudgeMoney(store, caps)
        store_thread.submit(money.abandon, datetime.now(UTC)).result()  # this process alone has the store
        judge_closing = store_thread.submit(JudgeClosing, store).result()

        def close(batch: Sequence[Judgement]) -> None:
            result.add(judge_closing.close(batch, datetime.now(UTC)), batch)
            if on_batch is not None:
                on_batch(result)

        lender = ThreadLender(money, store_thread) if caps.portfolios or caps.metrics else None
        feed = StoreFeed(store, store_thread, close)
        judging = asyncio.run(JudgeWorker(access, terms, feed, lender, patience_seconds).run())
    result.left, result.suspicions, result.cached = judge_closing.pending, judging.suspicions, judging.cache_hits
    return result


class LiveJudges:
    """Judges of a store beside its run, on a thread and an event loop of their own: no model delays the stream.

    Args:
        store: The store; read through cursors.
        intake: Intake of verdicts of the same store.
        store_thread: The writer thread.
        portfolios: Portfolios in force.
        access: Models, with the settings of their providers.
        on_failure: Called with the error that ended the judges, on their thread.

    Raises:
        UsageError: The price of a model with a cap is not known.
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
        self._settings, self._on_failure = access.settings, on_failure
        terms = [*_earlier_terms(store, access.settings), *_priced(portfolios, access.settings)]
        self._feed = StoreFeed(store, store_thread, intake.close, intake.samples)
        self._worker = JudgeWorker(access, terms, self._feed, ThreadLender(intake.money, store_thread))
        self._thread = threading.Thread(target=self._run, name="judges", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def wake(self) -> None:
        """Check for new requests now; may be called on any thread."""
        self._feed.wake()

    def portfolios_changed(self, portfolios: Sequence[Portfolio]) -> str:
        """Also answer requests of these portfolios; return the error if that is not possible, else an empty text."""
        try:
            self._worker.add(_priced(portfolios, self._settings))
        except UsageError as error:
            return str(error)
        return ""

    def stop(self, seconds: float) -> bool:
        """Cancel requests in work and store finished verdicts; False if that took longer than `seconds`."""
        self._worker.stop()
        if self._thread.is_alive():
            self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            asyncio.run(self._worker.run())
        except BaseException as error:
            self._on_failure(error)


def _priced(portfolios: Sequence[Portfolio], settings: JudgeSettings) -> list[JudgeTerms]:
    terms = [terms_of(portfolio, settings) for portfolio in portfolios]
    for one in terms:
        one.check_prices()
    return terms


def _earlier_terms(store: Store, settings: JudgeSettings) -> list[JudgeTerms]:
    """Return the terms of earlier portfolios, whose requests may be pending, if their prices are known."""
    found: list[JudgeTerms] = []
    with closing(store.cursor()) as cursor:
        texts = portfolio_texts(cursor)
    for text in texts:
        try:
            found += _priced([parse_stored_portfolio(text)], settings)
        except UsageError as error:
            log.warning("requests of an earlier portfolio stay pending: %s", error)
    return found


@dataclass(frozen=True)
class JudgeOptions:
    """Judging options of a run.

    Attributes:
        settings: Settings of the judges; None: only the caps of the portfolios hold.
        access: Models that this process asks; None: judges run elsewhere.
    """

    settings: JudgeSettings | None = None
    access: ModelAccess | None = None


def judge_options(path: Path | None, judges_here: bool) -> JudgeOptions:
    """Return the judging options of a process that stores.

    Args:
        path: Settings file; None: only the caps of the portfolios hold, and judges run elsewhere.
        judges_here: True if this process asks models; False if it only enforces the caps.

    Raises:
        UsageError: The settings are invalid, or a key is missing.
    """
    if path is None:
        return JudgeOptions()
    settings = load_judge_settings(path)
    return JudgeOptions(settings, model_access(settings) if judges_here else None)


def run_judge_process(
    kafka: KafkaSettings,
    path: Path | None,
    store_url: str | None,
    store: Path | None,
    listen: str | None,
    write_token_file: Path | None = None,
) -> None:
    """Run a judge process until SIGTERM or SIGINT.

    Args:
        kafka: The cluster.
        path: Settings file.
        store_url: Address of the process that stores; the environment has its write token.
        store: Alternatively a store on this machine; its process has left a note beside it.
        listen: Address of /metrics and /healthz of this process; None: not served, because the process that stores has
            the usual address, and there may be several judge processes.
        write_token_file: File with the write token of the process that stores, in place of the environment.

    Raises:
        UsageError: Settings, address or token are missing, or the address cannot be listened on.
        JobError: The process that stores refuses this worker.
    """
    if path is None:
        raise UsageError("--role judge requires --judges, the settings of the judges")
    settings = load_judge_settings(path)
    refuse_batches(settings)
    asyncio.run(
        _judge_topics(kafka, model_access(settings), _store_address(store_url, store, write_token_file), listen)
    )


async def _judge_topics(
    kafka: KafkaSettings, access: ModelAccess, address: tuple[str, Secret], listen: str | None
) -> None:
    # Imported here: only this role needs an HTTP client and a producer.
    from gapwatch.streams.judges.workers.kafka_feed import KafkaFeed, wait_at_most
    from gapwatch.streams.judges.workers.keeper_client import StoreClient
    from gapwatch.streams.judges.workers.worker_page import WorkerPage

    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    client = StoreClient(*address)
    feed = KafkaFeed(kafka, access.settings, client, lambda batch: page.count(batch))
    worker = JudgeWorker(access, (), feed, client)
    page = WorkerPage(
        lambda: worker.judging.providers if worker.judging is not None else {},
        lambda: feed.waiting,
        lambda: (feed.waiting_for, client.waiting_for),
        lambda: worker.judging.outages() if worker.judging is not None else (),
    )
    if (options := api_options(listen or "none")) is not None:
        await page.start(options)
    working, stopping = asyncio.create_task(worker.run()), asyncio.create_task(stopped.wait())
    try:
        await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
        worker.stop()
        if not working.done():
            log.info("stopping: finished verdicts are sent; other judges, or the next start, answer the rest")
            await asyncio.wait({working}, timeout=2 * _END_SECONDS)
        if working.done():
            working.result()
    finally:
        stopping.cancel()
        working.cancel()
        await asyncio.wait({working, stopping}, timeout=_END_SECONDS)
        await feed.close()
        for end in (client.close(), page.stop()):
            await wait_at_most(_END_SECONDS, end)


def _store_address(store_url: str | None, store: Path | None, token_file: Path | None) -> tuple[str, Secret]:
    if store_url is not None:
        if token_file is not None:
            return store_url, Secret(read_token_file(token_file))
        token = read_secret(WRITE_TOKEN, None, os.environ)
        assert token is not None
        return store_url, token
    if store is None:
        raise UsageError("--role judge requires --keeper, the address of the process that stores, or its --store")
    note = read_note(store)
    if note is None:
        raise UsageError(
            f"no running gapwatch run serves the store {store} on this machine; start it, or give the address of the "
            f"process that stores with --keeper"
        )
    return note.url, Secret(note.write_token)
