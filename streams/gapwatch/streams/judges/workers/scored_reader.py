"""Reads verdicts of judges elsewhere from the topic `scored`, from the offsets in the store."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence

import orjson

from gapwatch.publisher.kafka_settings import KafkaSettings
from gapwatch.scorers.judges.judgement import SCHEMA_NAME, Judgement, judgements_of
from gapwatch.sinks.store.topics import SCORED_TOPIC
from gapwatch.streams.sources.stored_topic import StoredTopic, StoredTopicReader, TopicRecord

log = logging.getLogger("gapwatch.judges")

#: Headers of a record: its schema, the worker that wrote it, the states of that worker's circuit breakers, and the
#: outages that it sees, in words.
SCHEMA_HEADER, WORKER_HEADER, BREAKERS_HEADER, OUTAGES_HEADER = "schema", "worker", "breakers", "outages"

#: Stores judgements, together with the offsets of the topic after them.
Take = Callable[[Sequence[Judgement], Mapping[tuple[str, int], int]], Awaitable[None]]


class ScoredReader:
    """Reads judgements until cancelled.

    Args:
        kafka: The cluster.
        read_up_to: Returns the next offset by topic and partition, from the store.
        take: Stores judgements.
        on_breakers: Called with a worker, the states of its circuit breakers, and the outages that it sees.
    """

    def __init__(
        self,
        kafka: KafkaSettings,
        read_up_to: Callable[[], Awaitable[Mapping[tuple[str, int], int]]],
        take: Take,
        on_breakers: Callable[[str, Mapping[str, str], Sequence[str]], None],
    ) -> None:
        self._take, self._on_breakers = take, on_breakers
        self._reader = StoredTopicReader(kafka, StoredTopic(SCORED_TOPIC, "verdicts"), read_up_to, self._take_records)

    @property
    def waiting_for(self) -> str:
        """Reason why nothing is read; empty if there is none."""
        return self._reader.waiting_for

    async def run(self) -> None:
        """Read until cancelled; raises the errors of `take`."""
        await self._reader.run()

    async def _take_records(self, records: Sequence[TopicRecord], marks: Mapping[tuple[str, int], int]) -> None:
        judgements = [judgement for record in records for judgement in self._judgements(record)]
        if judgements:
            await self._take(judgements, marks)

    def _judgements(self, record: TopicRecord) -> list[Judgement]:
        headers = record.headers
        if headers.get(SCHEMA_HEADER) != SCHEMA_NAME.encode():
            return []  # scored slices have another schema
        try:
            states = orjson.loads(headers.get(BREAKERS_HEADER) or b"{}")
            worker = (headers.get(WORKER_HEADER) or b"?").decode("utf-8", "replace")
            outages = [str(words) for words in orjson.loads(headers.get(OUTAGES_HEADER) or b"[]")]
            self._on_breakers(worker, {str(name): str(state) for name, state in states.items()}, outages)
            return judgements_of(record.value)
        except (ValueError, AttributeError) as error:
            log.warning("skipping record %s, not a verdict: %s", record.place, error)
            return []
