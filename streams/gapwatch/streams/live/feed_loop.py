"""Copies the ledger of spans of a feed to the store and to `/metrics`, beside the stream."""

from __future__ import annotations

import asyncio
import time

from gapwatch.sinks.api.service import RunService
from gapwatch.sinks.spans.late_spans import insert_late_spans
from gapwatch.sinks.spans.span_counts import insert_span_counts
from gapwatch.streams.live.run_feed import RunFeed
from gapwatch.streams.pipeline.store_thread import StoreThread

#: Seconds between two looks, and between two writes of counts that have changed.
_LOOK_SECONDS, _STORE_SECONDS = 1.0, 10.0
_PENDING = "pending"


class FeedLoop:
    """Watches a feed until it fails or the loop is cancelled.

    Args:
        feed: The feed.
        thread: The store and its writer thread.
        service: Serves `/metrics`.
        topic: Name of the traces in the store.
    """

    def __init__(self, feed: RunFeed, thread: StoreThread, service: RunService, topic: str) -> None:
        self._feed, self._thread, self._service, self._topic = feed, thread, service, topic

    async def run(self) -> None:
        """Copy counts; raises the error that ends the feed."""
        await asyncio.gather(self._feed.until_failed(), self._copy())

    def save(self) -> None:
        """Store the present counts; on the writer thread."""
        insert_span_counts(self._thread.store, self._topic, self._feed.counts())
        insert_late_spans(self._thread.store, self._topic, self._feed.take_late_spans())

    async def _copy(self) -> None:
        stored_at = float("-inf")
        while True:
            self._show()
            if time.monotonic() - stored_at >= _STORE_SECONDS:
                stored_at = time.monotonic()
                await self._thread.run(self.save)
            await asyncio.sleep(_LOOK_SECONDS)

    def _show(self) -> None:
        feed, show = self._feed, self._service.metrics.show
        counts = feed.counts()
        show("gapwatch_otlp_requests_total", {key: float(n) for key, n in feed.requests.items()})
        show("gapwatch_otlp_items_total", {key: n for key, n in counts.items() if key[1] != _PENDING})
        show("gapwatch_otlp_items_pending", {(item,): n for (item, state, _), n in counts.items() if state == _PENDING})
        show("gapwatch_otlp_open_traces", {(): feed.open_traces})
        show("gapwatch_otlp_spool_bytes", {(): feed.waiting_bytes})
        late = feed.late
        bounds, cumulative = zip(*late.buckets(), strict=True)  # the last bound is infinity
        cells = [n - before for n, before in zip(cumulative, (0, *cumulative), strict=False)]
        self._service.metrics.show_histogram("gapwatch_otlp_late_seconds", bounds[:-1], [((), cells, late.sum)])
        self._service.health.note("spans", feed.waiting_for)
        show("gapwatch_otlp_late_quiet_seconds", {(): late.quiet_for(0.99) if late.count else 0.0})
