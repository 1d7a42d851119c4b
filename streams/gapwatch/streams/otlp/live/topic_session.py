"""`TopicSession`: reading, assembling and committing in one connection to Kafka; see `topic_assembly`."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import orjson
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.structs import OffsetAndMetadata

from gapwatch.publisher.kafka_settings import KafkaSettings
from gapwatch.scorers.errors import UsageError
from gapwatch.streams.otlp.assembly.assembler import Assembler
from gapwatch.streams.otlp.decoding.raw_items import is_json
from gapwatch.streams.otlp.live.commit_journal import REMEMBERED_TRACES
from gapwatch.streams.otlp.live.span_topics import SpanTopics
from gapwatch.streams.otlp.live.spool_assembly import TakeFeedback
from gapwatch.streams.otlp.live.topic_clock import TopicClock
from gapwatch.streams.otlp.receiving.intake import OtlpRequest, Signal

log = logging.getLogger("gapwatch.otlp")

#: Records of one fetch, and seconds between two commits without a closed trace.
_FETCH_RECORDS, _COMMIT_SECONDS = 2_000, 1.0
#: Seconds between two looks for new partitions.
_PARTITIONS_SECONDS = 60.0
#: Most bytes of one partition in one fetch, and of one envelope.
_FETCH_BYTES, _REQUEST_BYTES = 16 << 20, 12_000_000


class SessionOwner(Protocol):
    """Assembly that a session belongs to.

    Attributes:
        assembler: The assembler at work.
        waiting_for: Reason why nothing is read now; empty if there is none.
        counts: Ledger of spans as of the last commit.
        is_done: Whether everything that was there is assembled and committed.
        take_feedback: Stores feedback; None: evaluations are content of their span.
    """

    assembler: Assembler
    waiting_for: str
    counts: Mapping[str, int]
    is_done: bool
    take_feedback: TakeFeedback | None

    @property
    def is_stopping(self) -> bool:
        """True after the assembly was told to stop."""
        ...

    def make(self) -> Assembler:
        """Make an assembler without a state, which is at work from now on."""
        ...

    def look(self, partition: int, request: OtlpRequest) -> None:
        """Learn from a record whether the topic is keyed by trace."""
        ...

    def step(self, name: str) -> None:
        """Tell a test where the commit is."""
        ...


@dataclass
class _Kept:
    """A commit in the journal.

    Attributes:
        offset: Its offset in the journal.
        read: Number of the record up to which it had read; 0 for one of an earlier process.
        closed: Number of traces that it closed.
    """

    offset: int
    read: int
    closed: int


class TopicSession:
    """Reading and committing until the broker goes away or the assembly stops. Whatever it holds is read again."""

    def __init__(self, kafka: KafkaSettings, topics: SpanTopics, owner: SessionOwner) -> None:
        self._kafka, self._topics, self._owner = kafka, topics, owner
        self._group = topics.offsets_group
        self._number = 0  # of the next record, in the order of reading
        self._starts: deque[tuple[int, Any, int]] = deque()  # number, partition and offset of records that may be held
        self._next: dict[Any, int] = {}
        self._counted: dict[Any, int] = {}  # up to here the counts of the last commit have the records
        self._kept: deque[_Kept] = deque()
        self._kept_closed = 0
        self._commits = 0
        self._restored = 0
        self._written: list[Any] = []
        self._clock = TopicClock()
        self.assembler = owner.assembler

    async def run(self) -> None:
        """Assemble until the assembly stops.

        Raises:
            KafkaError: The broker went away, or a transaction failed.
            UsageError: The group belongs to another store.
        """
        options = self._kafka.client_options()
        producer = AIOKafkaProducer(
            **options, transactional_id=f"gapwatch-{self._group}-{self._topics.traces}", acks="all",
            max_request_size=_REQUEST_BYTES, compression_type="lz4", request_timeout_ms=20_000,
            transaction_timeout_ms=60_000,
        )  # fmt: skip
        consumer = AIOKafkaConsumer(
            **options, group_id=self._group, enable_auto_commit=False, isolation_level="read_committed",
            auto_offset_reset="earliest", max_partition_fetch_bytes=_FETCH_BYTES, fetch_max_wait_ms=200,
        )  # fmt: skip
        try:
            await consumer.start()
            self._owner.waiting_for = ""
            partitions = await self._assign(consumer)
            await self._check_store(consumer, partitions)
            await producer.start()  # fences a former process; after this, what is committed is final
            await self._restore(consumer, partitions)
            await self._until_stopped(consumer, producer, partitions)
        finally:
            for one in (consumer, producer):
                stopping = asyncio.ensure_future(one.stop())
                done, _ = await asyncio.wait({stopping}, timeout=2.0)
                if done:
                    stopping.exception()

    async def _assign(self, consumer: Any) -> list[Any]:
        partitions = [
            TopicPartition(topic, number)
            for topic in self._topics.all
            for number in sorted(await _partitions_of(consumer, topic))
        ]
        consumer.assign(partitions)
        return partitions

    async def _check_store(self, consumer: Any, partitions: list[Any]) -> None:
        """Refuse a group that another store uses: each of two would get only a part of the traces."""
        for partition in partitions:
            note = await _note_of(consumer, partition)
            if note and note["store"] != self._topics.store_id:
                raise UsageError(
                    f"group {self._topics.group!r} belongs to another store, which assembles topic "
                    f"{self._topics.spans!r} already; give this store a group and a topic of traces of its own: "
                    "--group, --topic"
                )

    async def _restore(self, consumer: Any, partitions: list[Any]) -> None:
        """Return to the last commit: read again what was pending."""
        ends = await consumer.end_offsets(partitions)
        journal_from: int | None = None
        for partition in partitions:
            offset = await consumer.committed(partition)
            note = await _note_of(consumer, partition)
            first = (await consumer.beginning_offsets([partition]))[partition]
            start = max(first, offset if offset is not None else first)
            self._next[partition] = start
            self._counted[partition] = max(start, note["read"]) if note else start
            if note:
                journal_from = note["journal"]
            if start > ends[partition]:
                raise UsageError(
                    f"topic {partition.topic!r}, partition {partition.partition}: the group continues at {start}, but "
                    f"the topic ends at {ends[partition]}; was it created again? Start with a new --group and --store"
                )
            consumer.seek(partition, start)
        closed, counts = await self._read_journal(journal_from)
        self.assembler = self._owner.make()
        self.assembler.restore(closed, counts)
        self._owner.counts = counts
        left = {one for one in partitions if self._next[one] < self._counted[one]}
        consumer.pause(*[one for one in partitions if one not in left])
        while left and not self._owner.is_stopping:
            for partition, records in (await consumer.getmany(timeout_ms=500, max_records=_FETCH_RECORDS)).items():
                for record in records:
                    if record.offset >= self._counted[partition]:
                        break
                    self._take(partition, record, is_counted=True)
            for partition in list(left):
                # Offsets without a record (transactions) are passed, too.
                if await consumer.position(partition) >= self._counted[partition]:
                    self._next[partition] = self._counted[partition]
                    consumer.seek(partition, self._counted[partition])
                    consumer.pause(partition)
                    left.discard(partition)
        consumer.resume(*partitions)
        self._restored = self._number
        if left:
            return
        if (pending := self.assembler.counts().get("span.pending.", 0)) != counts.get("span.pending.", 0):
            log.error(
                "after the start %d spans are pending, but the last commit had %d: the ledger of spans does not "
                "balance. This is a defect of Gapwatch", pending, counts.get("span.pending.", 0),
            )  # fmt: skip

    async def _read_journal(self, offset: int | None) -> tuple[list[str], dict[str, int]]:
        """Return the ids of closed traces and the counts of the last commit."""
        if offset is None:
            return [], {}
        reader = AIOKafkaConsumer(
            **self._kafka.client_options(), enable_auto_commit=False, isolation_level="read_committed",
            auto_offset_reset="earliest", max_partition_fetch_bytes=_FETCH_BYTES,
        )  # fmt: skip
        closed: list[str] = []
        counts: dict[str, int] = {}
        try:
            await reader.start()
            partition = TopicPartition(self._topics.journal, 0)
            reader.assign([partition])
            reader.seek(partition, offset)
            end = (await reader.end_offsets([partition]))[partition]
            while await reader.position(partition) < end:
                for record in (await reader.getmany(timeout_ms=500)).get(partition, []):
                    commit = orjson.loads(record.value)
                    closed += commit["closed"]
                    counts, self._commits = commit["counts"], commit["number"]
                    self._keep(_Kept(record.offset, 0, len(commit["closed"])))
        finally:
            await reader.stop()
        return closed, counts

    async def _until_stopped(self, consumer: Any, producer: Any, partitions: list[Any]) -> None:
        committed_at = looked_at = time.monotonic()
        committed = self._number
        while not self._owner.is_stopping:
            fetched = await consumer.getmany(timeout_ms=200, max_records=_FETCH_RECORDS)
            for partition, records in fetched.items():
                for record in records:
                    self._take(partition, record, is_counted=False)
            for partition in partitions:
                self._next[partition] = max(self._next[partition], await consumer.position(partition))
                self._clock.at_end(partition, is_at_end=_is_at_end(consumer, partition))
            self._owner.step("read")
            self.assembler.advance(self._clock.now(_silence(consumer)))
            if self._topics.has_end and self._clock.is_caught_up:
                self.assembler.end()
            self._written += self.assembler.closed()
            now = time.monotonic()
            if self._written or (self._number > committed and now - committed_at >= _COMMIT_SECONDS):
                await self._commit(producer)
                committed, committed_at = self._number, now
            self._owner.is_done = self._clock.is_caught_up and committed == self._number and not self.assembler.pending
            if now - looked_at >= _PARTITIONS_SECONDS:
                looked_at = now
                for topic in self._topics.all:
                    if len(await _partitions_of(consumer, topic)) != sum(one.topic == topic for one in partitions):
                        log.info("topic %s has new partitions", topic)
                        return
        if self._number > committed:
            await self._commit(producer)

    def _take(self, partition: Any, record: Any, *, is_counted: bool) -> None:
        number, self._number = self._number, self._number + 1
        self._starts.append((number, partition, record.offset))
        self._next[partition] = record.offset + 1
        clock = self._clock.record(partition, record.timestamp / 1000)
        body = record.value or b""
        encoding = self._topics.encoding
        is_text = is_json(body) if encoding == "auto" else encoding == "otlp_json"
        signal = Signal.LOGS if partition.topic == self._topics.logs else Signal.TRACES
        request = OtlpRequest(signal, is_text, body)
        self.assembler.take(request, number, record.timestamp / 1000, clock, is_counted=is_counted)
        if signal is Signal.TRACES:
            self._owner.look(partition.partition, request)

    async def _commit(self, producer: Any) -> None:
        take_feedback = self._owner.take_feedback
        if take_feedback is not None and (feedback := self.assembler.take_feedback()):
            # A kill before the transaction reads it again; its id is the same then.
            await asyncio.to_thread(take_feedback, feedback)
            self._owner.step("feedback stored")
        held = self.assembler.held()
        until = self._number if held is None else held
        while self._starts and self._starts[0][0] < until:
            self._starts.popleft()
        held_at = dict(self._next)
        for _, partition, offset in reversed(self._starts):
            held_at[partition] = offset
        closed, self._written = self._written, []
        counts = self.assembler.counts()
        line = orjson.dumps({"number": self._commits + 1, "counts": counts, "closed": [one.trace_id for one in closed]})
        async with producer.transaction():
            sent = [
                await producer.send(self._topics.traces, one.envelope, key=one.trace_id.encode())
                for one in closed
                if one.envelope is not None
            ]
            journal = await producer.send(self._topics.journal, line, key=b"commit", partition=0)
            await asyncio.gather(*sent)
            written = await journal
            self._forget(until)
            note = {
                "store": self._topics.store_id,
                "journal": self._kept[0].offset if self._kept else written.offset,
            }
            offsets = {
                partition: OffsetAndMetadata(offset, orjson.dumps({**note, "read": self._next[partition]}).decode())
                for partition, offset in held_at.items()
            }
            self._owner.step("traces written")
            await producer.send_offsets_to_transaction(offsets, self._group)
            self._owner.step("offsets written")
        self._keep(_Kept(written.offset, self._number, len(closed)))
        self._commits += 1
        self._owner.counts = counts
        self._owner.step("committed")

    def _keep(self, commit: _Kept) -> None:
        self._kept.append(commit)
        self._kept_closed += commit.closed

    def _forget(self, until: int) -> None:
        """Forget commits that no start needs: all their records are done, and enough later traces are known."""
        while len(self._kept) > 1:
            first = self._kept[0]
            is_open = first.read > until or (first.read == 0 and until < self._restored)
            if is_open or self._kept_closed - first.closed < REMEMBERED_TRACES:
                return
            self._kept_closed -= first.closed
            self._kept.popleft()


async def _partitions_of(consumer: Any, topic: str) -> set[int]:
    """Return the partitions of a topic, as the broker has them now."""
    await consumer._client.force_metadata_update()
    found = consumer.partitions_for_topic(topic)
    if found is None:
        consumer._client.add_topic(topic)
        await consumer._client.force_metadata_update()
        found = consumer.partitions_for_topic(topic)
    return set(found or ())


async def _note_of(consumer: Any, partition: Any) -> dict[str, Any] | None:
    """Return the note that was committed with the offset of a partition; None without one."""
    offsets = await consumer._coordinator.fetch_committed_offsets([partition])
    found = offsets.get(partition)
    if found is None or not found.metadata:
        return None
    note: dict[str, Any] = orjson.loads(found.metadata)
    return note


def _is_at_end(consumer: Any, partition: Any) -> bool:
    """Return whether every readable record of a partition was read."""
    state = consumer._subscription.subscription.assignment.state_value(partition)
    lso, high = state.lso, state.highwater
    end = lso if lso is not None and lso >= 0 else high
    return end is not None and state._position is not None and state._position >= end


def _silence(consumer: Any) -> float:
    """Return the seconds since the broker last answered."""
    answers = [one._last_action for one in consumer._client._conns.values() if one.connected()]
    return time.monotonic() - max(answers) if answers else float("inf")
