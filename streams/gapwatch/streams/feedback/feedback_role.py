"""Feedback of a live run: from the topic `feedback`, the API and OTLP, joined as its traces come."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import CancelledError, Future
from datetime import UTC, datetime

from gapwatch.publisher.kafka_settings import KafkaSettings
from gapwatch.scorers.errors import JobError, UsageError
from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.sinks.api.service import RunService
from gapwatch.sinks.feedback.feedback import Feedback
from gapwatch.sinks.feedback.intake import FeedbackIntake
from gapwatch.sinks.store.topics import FEEDBACK_TOPIC
from gapwatch.streams.pipeline.slice_writer import SliceWriter
from gapwatch.streams.sources.stored_topic import StoredTopic, StoredTopicReader, TopicRecord

log = logging.getLogger("gapwatch.feedback")

#: Seconds between two looks for the traces of feedback that waits.
_LOOK_SECONDS = 1.0
#: Seconds between two looks for the topic, which is optional, while it does not exist.
_TOPIC_SECONDS = 30.0


class FeedbackRole:
    """Takes the feedback of a run.

    Args:
        kafka: Cluster with the topic `feedback`; None: feedback comes over the API alone.
        writer: Writes slices.
        service: Serves the metrics and the API.
        portfolios: Portfolios in force.
    """

    def __init__(
        self, kafka: KafkaSettings | None, writer: SliceWriter, service: RunService, portfolios: Sequence[Portfolio]
    ) -> None:
        self._thread, self._service = writer.thread, service
        self.intake = FeedbackIntake(writer.store, portfolios, writer.write_slice)
        self._begun: Future[None] = Future()
        self._is_unreadable_logged = False
        self._reader: StoredTopicReader | None = None
        if kafka is not None:
            topic = StoredTopic(FEEDBACK_TOPIC, "feedback", _TOPIC_SECONDS)
            self._reader = StoredTopicReader(kafka, topic, self._read_up_to, self._take)
        service.offer(self.intake.posts())

    async def run(self) -> None:
        """Take feedback until cancelled."""
        if not self._begun.done():
            self._begun.set_result(None)
        await asyncio.gather(self._join(), *([] if self._reader is None else [self._reader.run()]))

    def take_from_feed(self, feedback: Sequence[Feedback]) -> None:
        """Store feedback that came over OTLP, once the portfolios are registered; for the thread of a feed.

        Raises:
            JobError: The store could not be written, or the run ended before it had begun.
        """
        try:
            self._begun.result()
        except CancelledError:
            raise JobError("the run ended before it could store feedback; the next start reads it again") from None
        self._thread.executor.submit(self.intake.take, feedback, "otlp").result()

    def close(self) -> None:
        """Release a feed that waits for the run to begin."""
        self._begun.cancel()

    async def portfolios_changed(self, portfolios: Sequence[Portfolio]) -> None:
        """Count by these portfolios from now on."""
        await self._thread.run(self.intake.portfolios_changed, portfolios)

    async def _join(self) -> None:
        shown_at = -1
        while True:
            await self._thread.run(self.intake.look)
            if self._thread.store.seq != shown_at:
                shown_at = self._thread.store.seq
                counts = await self._thread.run(self.intake.counts)
                ended: dict[tuple[str, ...], float] = {
                    (state,): float(n) for state, n in counts.items() if state not in ("consumed", "pending")
                }
                self._service.metrics.show("gapwatch_feedback_total", ended)
                self._service.metrics.show("gapwatch_feedback_pending", {(): float(counts.get("pending", 0))})
            await asyncio.sleep(_LOOK_SECONDS)

    async def _read_up_to(self) -> Mapping[tuple[str, int], int]:
        return await self._thread.run(self.intake.read_up_to)

    async def _take(self, records: Sequence[TopicRecord], marks: Mapping[tuple[str, int], int]) -> None:
        feedback, unreadable = [], 0
        now = datetime.now(UTC).replace(tzinfo=None)
        for record in records:
            try:
                feedback.append(Feedback.from_json(record.value, now))
            except UsageError as error:
                unreadable += 1
                if not self._is_unreadable_logged:
                    self._is_unreadable_logged = True
                    log.warning(
                        "record %s is no feedback and is counted as one, as further ones: %s", record.place, error
                    )
        await self._thread.run(self.intake.take, feedback, "topic", marks, unreadable)
