"""Adapter that makes Faust deliver one slice per fetch instead of one event per record; uses Faust's private names.

Faust handles rebalances and the order of seeks, work and commits; aiokafka fetches. Between them, `SliceThread` turns
the records that one fetch gave for one partition into one `RawSlice`, and Faust passes it on like a single message.
Stock Faust costs 194 us a record, this 4.

test_faust_contract.py holds every private name that is used here; the versions are pinned exactly.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol, cast

import faust
import numpy as np
from aiokafka.errors import CommitFailedError, IllegalStateError, KafkaError
from aiokafka.structs import ConsumerRecord, OffsetAndMetadata, TopicPartition
from faust.auth import SASLCredentials, SSLCredentials
from faust.tables import TableManager
from faust.transport.drivers import aiokafka as driver
from faust.types import TP, ConsumerMessage
from faust.types.auth import SASLMechanism

from gapwatch.publisher.kafka_settings import KafkaSettings
from gapwatch.streams.sources.linger import Linger
from gapwatch.streams.sources.raw_slice import RawSlice
from gapwatch.streams.sources.slice_buffer import SliceBuffer, WaitingSlice

#: Bytes that the broker gathers before it answers a fetch, unless its share of the linger passes first. It must be less
#: than `PARTITION_FETCH_BYTES`: otherwise each fetch of a backlog in one partition waits for all of that share.
FETCH_MIN_BYTES = 1 << 20
#: Share of the linger that the broker waits; the rest, records wait in `SliceBuffer`, together with those of other
#: brokers. A longer wait at the broker costs fewer fetches, and leaves less time to bring several brokers together.
FETCH_SHARE = 0.25
#: Most bytes of one partition in one fetch, compressed as the broker stores them.
PARTITION_FETCH_BYTES = 16 << 20


class SliceOrderError(Exception):
    """Raised when a slice does not begin where the last one ended: a defect, or a topic deleted and created again."""


@dataclass(frozen=True)
class PartitionOffsets:
    """Offsets of a partition, as the broker reports them.

    Attributes:
        committed: Next offset of the consumer group; None if it has committed nothing.
        committed_note: Text that was committed with it.
        first: First retained offset.
        end: One past the last offset.
    """

    committed: int | None
    committed_note: str
    first: int
    end: int


class SliceOwner(Protocol):
    """Receiver of the slices."""

    async def wait_idle(self) -> None:
        """Return when no slice is in work."""

    def choose_starts(self, offsets: Mapping[int, PartitionOffsets]) -> dict[int, int]:
        """Return the first offset to read of each partition; an exception ends the process."""

    def fail(self, error: BaseException) -> None:
        """End the process: no further slice is passed on or committed."""


@dataclass
class FetchedSlice:
    """A slice inside Faust.

    Attributes:
        raw: The slice as the owner receives it.
        tp: Its partition in Faust's form.
        epoch: Number of the last seek before its fetch; a slice of an earlier seek is ignored.
        last_record: Record that Faust's message is made from.
    """

    raw: RawSlice
    tp: TP
    epoch: int
    last_record: Any


class SliceThread(driver.AIOKafkaConsumerThread):
    """Faust's thread around aiokafka; returns one slice where Faust expects a list of records."""

    epoch = 0
    #: By partition, one past the last fetched offset: the beginning of the next slice.
    taken: dict[Any, int]
    #: The assignment of aiokafka at the last seek. A later assignment begins at the group's offsets, which may lie
    #: before `taken`; its records until the next seek are fetched again and ignored.
    sought: Any = None
    #: Fetched records that wait to be handed over, and how long they do.
    buffer: SliceBuffer
    linger: Linger
    #: True while fetched records are not counted in `taken` yet, because the broker is asked for deleted offsets.
    is_taking = False
    #: Held by a fetch and by a seek. A fetch that still waited after a seek would drop the first records behind it:
    #: they move the position of aiokafka, but belong to an epoch that has ended.
    _at_consumer: asyncio.Lock

    def _create_worker_consumer(self, transport: Any) -> Any:
        self.taken, self._at_consumer = {}, asyncio.Lock()
        options = cast(Any, self.app).slice_options
        fetch_seconds = options.linger_seconds * FETCH_SHARE
        self.linger = Linger(options.linger_seconds)
        self.buffer = SliceBuffer(options.max_records, self.linger, fetch_seconds)
        consumer = super()._create_worker_consumer(transport)
        consumer._isolation_level = "read_committed"  # Faust ties it to its own transactions
        consumer._fetch_min_bytes = FETCH_MIN_BYTES  # Faust has no setting for these two
        consumer._fetch_max_wait_ms = round(fetch_seconds * 1000)
        return consumer

    async def _fetch_records(
        self, consumer: Any, active_partitions: Any, timeout: float | None = None, max_records: int | None = None
    ) -> Any:
        async with self._at_consumer:
            return await self._fetch_slices(consumer, active_partitions, timeout, max_records)

    async def _fetch_slices(
        self, consumer: Any, active_partitions: Any, timeout: float | None, max_records: int | None
    ) -> Any:
        epoch = self.epoch
        active = {tp for tp in self.taken if active_partitions is None or tp in active_partitions}
        if not active or self._sought_assignment(consumer) is None:
            await super()._fetch_records(consumer, active_partitions, timeout, max_records)
            return {}
        await self._fill(consumer, active, timeout or 0.0)
        assignment = self._sought_assignment(consumer)
        if self.epoch != epoch or assignment is None or not self.consumer.flow_active:
            return {}  # a seek happened meanwhile, or Faust would not take a slice
        if self.buffer.seconds_left(active, len(self.taken), time.monotonic()) != 0.0:
            return {}
        slices = {}
        for tp, waiting in self.buffer.take(active, len(self.taken), time.monotonic(), time.time()):
            faust_tp = TP(tp.topic, tp.partition)
            raw = _raw_slice(tp, waiting)
            if waiting.to_offset >= _last_offset(assignment.state_value(tp)):
                raw = replace(raw, caught_up_at=time.time())
            slices[faust_tp] = [FetchedSlice(raw, faust_tp, epoch, _faust_record(tp, waiting.records[-1]))]
        return slices

    def _sought_assignment(self, consumer: Any) -> Any:
        """Return the assignment of aiokafka if it is that of the last seek."""
        subscription = consumer._subscription.subscription
        assignment = subscription and subscription.assignment
        return assignment if assignment is self.sought else None

    async def _fill(self, consumer: Any, active: set[Any], timeout: float) -> None:
        """Fetch until each partition with records has a waiting slice, or few records have waited for others."""
        epoch, full = self.epoch, self.buffer.full_slice(len(self.taken))
        for tp in active:
            if tp not in self.buffer and self.epoch == epoch:
                await self._take_fetched(consumer, {tp}, 0.0, full)
        left = self.buffer.seconds_left(active, len(self.taken), time.monotonic())
        if self.epoch == epoch and left != 0.0:
            wait = timeout if left is None else min(timeout, left)
            await self._take_fetched(consumer, active, wait, full - self.buffer.records)

    async def _take_fetched(self, consumer: Any, partitions: set[Any], timeout: float, most: int) -> None:
        """Move records that aiokafka has fetched to the buffer."""
        epoch = self.epoch
        for result in consumer._fetcher._records.values():
            if (records := getattr(result, "_partition_records", None)) is not None:
                records._consumer_record = _as_read
        fetched = await super()._fetch_records(consumer, partitions, timeout, most)
        assignment = self._sought_assignment(consumer)
        if not fetched or assignment is None:
            return
        self.is_taking = True
        try:
            for tp, records in fetched.items():
                if tp not in self.taken:
                    continue  # fetched before the first seek, which will fetch it again
                to_offset, start = assignment.state_value(tp)._position, self.taken[tp]
                lost = await self._lost_before(consumer, tp, start, records[0].offset, epoch)
                if self.epoch != epoch:
                    return  # a seek happened meanwhile
                self.taken[tp] = to_offset
                self.buffer.add(tp, _waiting(start, to_offset, records, lost))
        finally:
            self.is_taking = False

    async def _lost_before(self, consumer: Any, tp: Any, start: int, first: int, epoch: int) -> int:
        """Return how many offsets before `first` the broker has deleted; other gaps come from transactions."""
        if first < start:
            raise SliceOrderError(
                f"{tp.topic}, partition {tp.partition}: offset {first} came after {start}; was the topic deleted "
                f"and created again? Start with a new --group and a new --store"
            )
        while first > start and self.epoch == epoch:
            try:
                earliest = (await consumer.beginning_offsets([tp]))[tp]
            except KafkaError as error:  # the broker went away meanwhile
                self.log.warning("cannot read the first offset of %s from Kafka: %r; trying again", tp, error)
                await asyncio.sleep(1.0)
            else:
                return max(0, min(int(earliest), first) - start)
        return 0

    async def seek_slices(self, starts: Mapping[TP, tuple[int, int]], epoch: int) -> None:
        """Fetch from these offsets on.

        Args:
            starts: By partition, the beginning of the next slice and the first offset that the broker still has.
            epoch: Number of this seek.
        """
        await self.call_thread(self._seek_slices, starts, epoch)

    async def _seek_slices(self, starts: Mapping[TP, tuple[int, int]], epoch: int) -> None:
        self.epoch = epoch  # ends a fetch under way, whose records the seek brings back
        async with self._at_consumer:
            consumer = self._ensure_consumer()
            self.sought = consumer._subscription.subscription.assignment
            self.taken.clear()
            self.buffer.clear()
            for tp, (start, available) in starts.items():
                consumer.seek(tp, max(start, available))
                self.taken[TopicPartition(tp.topic, tp.partition)] = start

    async def partition_offsets(self, tps: Iterable[TP]) -> dict[TP, PartitionOffsets]:
        """Ask the broker for the committed, first and last offsets of partitions."""
        answer: dict[TP, PartitionOffsets] = await self.call_thread(self._partition_offsets, list(tps))
        return answer

    async def _partition_offsets(self, tps: list[TP]) -> dict[TP, PartitionOffsets]:
        consumer = self._ensure_consumer()
        plain = {tp: TopicPartition(tp.topic, tp.partition) for tp in tps}
        committed = await consumer._coordinator.fetch_committed_offsets(list(plain.values()))
        first = await consumer.beginning_offsets(list(plain.values()))
        end = await consumer.end_offsets(list(plain.values()))
        answer = {}
        for tp, key in plain.items():
            known = committed.get(key)
            offset = known.offset if known is not None and known.offset >= 0 else None
            note = known.metadata if offset is not None else ""
            answer[tp] = PartitionOffsets(offset, note, first[key], end[key])
        return answer

    async def _commit(self, offsets: Mapping[TP, int]) -> bool:
        """Commit with the owner's note. A failure does not end the run: the store has the authoritative offsets."""
        note = cast(Any, self.app).slice_options.commit_note
        assigned = self.assignment()
        wanted = {
            TopicPartition(tp.topic, tp.partition): OffsetAndMetadata(offset, note)
            for tp, offset in offsets.items()
            if tp in assigned
        }
        try:
            await self._ensure_consumer().commit(wanted)
        except (CommitFailedError, IllegalStateError) as error:
            self.log.info("offsets were not committed: the partition has another owner now, who continues from the "
                          "store: %s", error)  # fmt: skip
            return False
        except KafkaError as error:
            self.log.warning("cannot commit the offsets of the consumer group: %r; the store has them", error)
            return False
        return True


class _NoReadOffsets(dict[Any, Any]):
    """Stands in for Faust's table of read offsets, which drops older records; slices check their own offsets."""

    def __getitem__(self, key: Any) -> None:
        return None

    def __setitem__(self, key: Any, value: Any) -> None:
        pass


class SliceConsumer(driver.Consumer):
    """Faust's consumer, which commits only slices that were declared done."""

    _thread: SliceThread

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._read_offset = _NoReadOffsets()
        self.epoch = 0
        self.issued: dict[TP, int] = {}  # by partition, one past the last offset that Faust was given
        self.done: dict[TP, int] = {}  # by partition, one past the last offset before which everything is stored
        self._finished: dict[tuple[TP, int], int] = {}  # slices done out of order: from_offset to to_offset

    @property
    def owner(self) -> SliceOwner:
        """Receiver of the slices."""
        owner: SliceOwner = cast(Any, self.app).slice_owner
        return owner

    def _new_consumer_thread(self) -> SliceThread:
        return SliceThread(self, loop=self.loop, beacon=self.beacon)

    def _to_message(self, tp: TP, record: FetchedSlice) -> ConsumerMessage:
        message = super()._to_message(record.tp, record.last_record)
        message.key, message.headers, message.value = None, [], cast(Any, record)
        if record.epoch == self.epoch:
            expected = self.issued.get(record.tp)
            if expected != record.raw.from_offset:
                error = SliceOrderError(
                    f"{tp}: a slice begins at {record.raw.from_offset}, the last ended at {expected}"
                )
                self.owner.fail(error)
                raise error
            self.issued[record.tp] = record.raw.to_offset
        return message

    def is_current(self, fetched: FetchedSlice) -> bool:
        """True if no seek happened since the slice was fetched."""
        return fetched.epoch == self.epoch

    def declare_done(self, fetched: FetchedSlice) -> None:
        """Note that a slice is stored; the committed offset advances over all slices that are stored without a gap."""
        if not self.is_current(fetched):
            return
        self._finished[fetched.tp, fetched.raw.from_offset] = fetched.raw.to_offset
        while (end := self._finished.pop((fetched.tp, self.done[fetched.tp]), None)) is not None:
            self.done[fetched.tp] = end

    def ack(self, message: Any) -> bool:
        """End Faust's waiting for this message; no list of offsets is needed."""
        if message.acked:
            return False
        message.acked = True
        self._unacked_messages.discard(message)
        waiting = self._waiting_for_ack
        if waiting is not None and not waiting.done():
            waiting.set_result(None)
        return True

    async def _add_gap(self, tp: TP, offset_from: int, offset_to: int) -> None:
        """Do nothing: no list of gaps is needed."""

    def _filter_committable_offsets(self, tps: Iterable[TP]) -> dict[TP, int]:
        return {tp: offset for tp, offset in self.done.items() if self._should_commit(tp, offset)}

    async def perform_seek(self) -> None:
        """Seek each partition to its next offset; Faust calls this after every assignment, before it fetches."""
        self.epoch += 1
        await self.owner.wait_idle()
        topic = cast(Any, self.app).slice_options.topic
        tps = {tp for tp in self.assignment() if tp.topic == topic}
        try:
            offsets = await self._thread.partition_offsets(tps)
            chosen = self.owner.choose_starts({tp.partition: offsets[tp] for tp in tps})
        except KafkaError:
            raise
        except Exception as error:
            self.owner.fail(error)
            raise
        starts = {tp: chosen[tp.partition] for tp in tps}
        self.issued, self.done, self._finished = dict(starts), dict(starts), {}
        for tp in tps:
            self._committed_offset[tp] = offsets[tp].committed
        await self._thread.seek_slices({tp: (starts[tp], offsets[tp].first) for tp in tps}, self.epoch)


class SliceTransport(driver.Transport):
    """Faust's transport with the consumer above."""

    Consumer = SliceConsumer


class SliceSchema(faust.Schema[Any, Any]):
    """Schema that decodes nothing."""

    def loads_key(self, app: Any, message: Any, **_: Any) -> Any:
        """Return the key unchanged."""
        return message.key

    def loads_value(self, app: Any, message: Any, **_: Any) -> Any:
        """Return the value unchanged."""
        return message.value


class NoTables(TableManager):
    """Faust's tables of an application that has none; Faust waits for a second until all are declared."""

    async def on_start(self) -> None:
        """Start at once."""
        await self._update_channels()
        await self.recovery.start()


class SliceApp(faust.App):
    """A Faust application without tables; it creates no directory."""

    def _create_directories(self) -> None:
        """Create none."""


#: Timeout in seconds that no process reaches: 30 years.
_NEVER_SECONDS = 1e9


@dataclass(frozen=True)
class SliceAppOptions:
    """Options of a Faust application that reads slices.

    Attributes:
        topic: Topic to read.
        group: The consumer group.
        max_records: Most records in a slice; bounds memory if records are highly compressible.
        linger_seconds: Most seconds that few records wait for others, which makes each cheaper.
        slices_buffered: Most slices that are fetched and wait; with the slices in work they bound memory.
        session_seconds: Seconds without a heartbeat after which the group gives the partitions to another member.
        commit_seconds: Seconds between two commits of the group's offsets.
        commit_note: Text that is committed with each offset.
        instance: Name of this process in the group (static membership), so that a restart causes no rebalance; may be
            empty.
    """

    topic: str
    group: str
    max_records: int = 8000
    linger_seconds: float = 1.0
    slices_buffered: int = 2
    session_seconds: float = 10.0
    commit_seconds: float = 1.0
    commit_note: str = ""
    instance: str = ""


def make_slice_app(
    options: SliceAppOptions,
    kafka: KafkaSettings,
    owner: SliceOwner,
    hand_over: Callable[[Any, FetchedSlice], Awaitable[None]],
) -> Any:
    """Return a Faust application, not started yet, that passes each slice of a topic to `hand_over`.

    Args:
        options: Topic, group and limits.
        kafka: The cluster.
        owner: Chooses start offsets, and learns of failures.
        hand_over: Takes an event with its slice; it must call `event.ack()` when the work on the slice has ended.
    """
    app: Any = SliceApp(
        options.group,
        broker=[f"kafka://{address}" for address in kafka.addresses],
        broker_credentials=_credentials(kafka),
        autodiscover=False,
        web_enabled=False,  # it would serve table data on 0.0.0.0
        topic_allow_declare=False,
        topic_disable_leader=True,
        table_standby_replicas=0,
        TableManager=NoTables,
        consumer_auto_offset_reset="earliest",  # `_lost_before` reports deleted records
        consumer_max_fetch_size=PARTITION_FETCH_BYTES,
        consumer_metadata_max_age_ms=10_000,
        consumer_group_instance_id=options.instance or None,
        broker_max_poll_records=options.max_records,
        broker_max_poll_interval=1e6,  # Faust deadlocks when it ends; the watchdog detects stalls instead
        broker_session_timeout=options.session_seconds,
        broker_heartbeat_interval=options.session_seconds / 3.5,
        broker_request_timeout=40.0,
        broker_commit_interval=options.commit_seconds,
        # Faust does not see that slices are processed, and would report stalls; the watchdog detects real ones.
        broker_commit_livelock_soft_timeout=_NEVER_SECONDS,
        stream_processing_timeout=_NEVER_SECONDS,
        stream_buffer_maxsize=options.slices_buffered,
        stream_wait_empty=True,
    )
    app.transport = SliceTransport(app.conf.broker_consumer, app, loop=None)
    app.slice_owner, app.slice_options = owner, options
    channel = app.topic(options.topic, schema=SliceSchema(), key_serializer="raw", value_serializer="raw")

    async def take_slices(stream: Any) -> None:
        async for event in stream.noack().events():
            await hand_over(event, event.value)

    app.agent(channel, name="slices")(take_slices)
    return app


def _credentials(kafka: KafkaSettings) -> Any:
    context = kafka.ssl_context()
    if kafka.uses_sasl:
        mechanism = SASLMechanism(kafka.sasl_mechanism)
        return SASLCredentials(
            username=kafka.username, password=kafka.password, mechanism=mechanism, ssl_context=context
        )
    return SSLCredentials(context) if context is not None else None


def _last_offset(state: Any) -> int:
    """Return the last readable offset of a partition, which may be the marker of a transaction."""
    end = state.lso if state.lso is not None and state.lso >= 0 else state.highwater
    return (end or 0) - 1


def _as_read(_tp: Any, record: Any) -> Any:
    """Return a record as aiokafka read it, with offset, timestamp and value; a `ConsumerRecord` would cost 1 us."""
    return record


def _faust_record(tp: Any, record: Any) -> Any:
    """Return a record without its contents, as Faust makes a message of it."""
    return ConsumerRecord(
        tp.topic, tp.partition, record.offset, record.timestamp, record.timestamp_type, None, None, None, -1, -1, ()
    )


def _waiting(start: int, to_offset: int, records: list[Any], lost: int) -> WaitingSlice:
    now, oldest = time.time(), _seconds(records[0].timestamp)
    since = now if math.isnan(oldest) else min(oldest, now)
    return WaitingSlice(start, to_offset, since, time.monotonic(), records, lost)


def _raw_slice(tp: Any, waiting: WaitingSlice) -> RawSlice:
    records = waiting.records
    count = len(records)
    return RawSlice(
        topic=tp.topic,
        partition=tp.partition,
        from_offset=waiting.from_offset,
        to_offset=waiting.to_offset,
        offsets=np.fromiter((record.offset for record in records), np.int64, count),
        values=[record.value for record in records],
        timestamps=np.fromiter((_seconds(record.timestamp) for record in records), np.float64, count),
        lost=waiting.lost,
    )


def _seconds(milliseconds: int | None) -> float:
    return math.nan if milliseconds is None or milliseconds < 0 else milliseconds / 1000.0
