"""Whole fetched slices out of Faust, instead of one event per record: the only file that knows Faust's inside.

Faust decides when partitions come and go and in which order work is finished, committed and sought; aiokafka fetches.
Between them, `SliceThread` turns what one fetch gave for one partition into one `RawSlice`, and Faust carries it as
if it were a single message. Stock Faust costs 194 us a record, this 4.

Every private name that is used here stands in test_faust_contract.py; the versions are pinned exactly.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, cast

import faust
import numpy as np
from aiokafka.errors import CommitFailedError, IllegalStateError, KafkaError
from aiokafka.structs import OffsetAndMetadata, TopicPartition
from faust.auth import SASLCredentials, SSLCredentials
from faust.transport.drivers import aiokafka as driver
from faust.types import TP, ConsumerMessage
from faust.types.auth import SASLMechanism

from gapwatch.publisher.kafka_settings import KafkaSettings
from gapwatch.streams.sources.raw_slice import RawSlice

#: What the broker gathers before it answers a fetch, unless `LINGER_MS` pass first: at a low rate a few dozen records
#: a slice instead of one. It must be less than `PARTITION_FETCH_BYTES`, or a backlog in one partition would wait out
#: the linger with every fetch: four fetches a second, however much there is.
FETCH_MIN_BYTES = 1 << 20
LINGER_MS = 250
#: What one partition may give in one fetch, as the broker has it compressed.
PARTITION_FETCH_BYTES = 16 << 20


class SliceOrderError(Exception):
    """Slices of a partition do not tile: a bug, or a topic that was deleted and made anew."""


@dataclass(frozen=True)
class PartitionOffsets:
    """What the broker says of a partition: the group's next offset (None: none), the first and one past the last."""

    committed: int | None
    committed_note: str
    first: int
    end: int


class SliceOwner(Protocol):
    """Who takes the slices."""

    async def wait_idle(self) -> None:
        """Return when no slice is being worked on."""

    def choose_starts(self, offsets: Mapping[int, PartitionOffsets]) -> dict[int, int]:
        """Return where each partition starts; raise to end the process."""

    def fail(self, error: BaseException) -> None:
        """End the process: nothing more may be handed over or committed."""


@dataclass
class FetchedSlice:
    """A slice on its way through Faust.

    Attributes:
        raw: What the owner gets.
        tp: Its partition in Faust's form.
        epoch: Of the seek that it was fetched after; a slice from before a seek does not count.
        last_record: What Faust's message is made from.
    """

    raw: RawSlice
    tp: TP
    epoch: int
    last_record: Any


class SliceThread(driver.AIOKafkaConsumerThread):
    """Faust's thread around aiokafka, giving a slice where Faust expects a list of records."""

    epoch = 0
    #: Per partition one past the last offset that was fetched: where the next slice begins.
    taken: dict[Any, int]
    #: In which assignment of aiokafka's the last seek was. A later one begins where the group's offsets are, maybe
    #: before what was taken; what comes of it before the next seek is fetched again and does not count.
    sought: Any = None
    #: Records have come and are not counted in `taken` yet: the broker is asked what it has lost.
    is_taking = False

    def _create_worker_consumer(self, transport: Any) -> Any:
        self.taken = {}
        consumer = super()._create_worker_consumer(transport)
        consumer._isolation_level = "read_committed"  # Faust ties it to its own transactions
        consumer._fetch_min_bytes = FETCH_MIN_BYTES  # Faust has no setting for these two
        consumer._fetch_max_wait_ms = LINGER_MS
        return consumer

    async def _fetch_records(
        self, consumer: Any, active_partitions: Any, timeout: float | None = None, max_records: int | None = None
    ) -> Any:
        epoch = self.epoch
        fetched = await super()._fetch_records(consumer, active_partitions, timeout, max_records)
        assignment = consumer._subscription.subscription.assignment
        if not fetched or assignment is None or assignment is not self.sought:
            return {}
        slices = {}
        self.is_taking = True
        try:
            for tp, records in fetched.items():
                if tp not in self.taken:
                    continue  # fetched before the first seek, which will fetch it again
                to_offset = assignment.state_value(tp)._position
                start = self.taken[tp]
                lost = await self._lost_before(consumer, tp, start, records[0].offset, epoch)
                if self.epoch != epoch:
                    return {}  # sought while the broker was asked
                self.taken[tp] = to_offset
                faust_tp = TP(tp.topic, tp.partition)
                raw = _raw_slice(tp, start, to_offset, records, lost)
                slices[faust_tp] = [FetchedSlice(raw, faust_tp, epoch, records[-1])]
        finally:
            self.is_taking = False
        return slices

    async def _lost_before(self, consumer: Any, tp: Any, start: int, first: int, epoch: int) -> int:
        """Return how many offsets before `first` the broker has deleted; a gap can also be a transaction's."""
        if first < start:
            raise SliceOrderError(
                f"{tp.topic}, partition {tp.partition}: offset {first} came after {start}; was the topic deleted "
                f"and made anew? Give the group and the store new names to begin anew"
            )
        while first > start and self.epoch == epoch:
            try:
                earliest = (await consumer.beginning_offsets([tp]))[tp]
            except KafkaError as error:  # the broker went away in between
                self.log.warning("the first offset of %s is not known: %r; asking again", tp, error)
                await asyncio.sleep(1.0)
            else:
                return max(0, min(int(earliest), first) - start)
        return 0

    async def seek_slices(self, starts: Mapping[TP, tuple[int, int]], epoch: int) -> None:
        """Fetch from here on; `starts` has for each partition where slices begin and where the broker's records do."""
        await self.call_thread(self._seek_slices, starts, epoch)

    async def _seek_slices(self, starts: Mapping[TP, tuple[int, int]], epoch: int) -> None:
        consumer = self._ensure_consumer()
        self.epoch, self.sought = epoch, consumer._subscription.subscription.assignment
        self.taken.clear()
        for tp, (start, available) in starts.items():
            consumer.seek(tp, max(start, available))
            self.taken[TopicPartition(tp.topic, tp.partition)] = start

    async def partition_offsets(self, tps: Iterable[TP]) -> dict[TP, PartitionOffsets]:
        """Ask the broker for what a start is chosen from."""
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
        """Commit with the owner's note. A failure is no reason to end: the store knows better than the group."""
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
            self.log.info("a commit came too late, the next owner reads on from the store: %s", error)
            return False
        except KafkaError as error:
            self.log.warning("the group's offsets could not be committed: %r", error)
            return False
        return True


class _NoReadOffsets(dict[Any, Any]):
    """Where Faust would note what was read, to drop what is older and look for gaps: slices check that themselves."""

    def __getitem__(self, key: Any) -> None:
        return None

    def __setitem__(self, key: Any, value: Any) -> None:
        pass


class SliceConsumer(driver.Consumer):
    """Faust's consumer, committing what was declared done and nothing else."""

    _thread: SliceThread

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._read_offset = _NoReadOffsets()
        self.epoch = 0
        self.issued: dict[TP, int] = {}  # per partition one past what Faust was given
        self.done: dict[TP, int] = {}  # ... and one past what is durable without a hole
        self._finished: dict[tuple[TP, int], int] = {}  # done out of order: from -> to

    @property
    def owner(self) -> SliceOwner:
        """Who takes the slices."""
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
        """Whether a slice still counts: no seek since it was fetched."""
        return fetched.epoch == self.epoch

    def declare_done(self, fetched: FetchedSlice) -> None:
        """All of the slice is durable. What is committed moves on when all slices before it are, too."""
        if not self.is_current(fetched):
            return
        self._finished[fetched.tp, fetched.raw.from_offset] = fetched.raw.to_offset
        while (end := self._finished.pop((fetched.tp, self.done[fetched.tp]), None)) is not None:
            self.done[fetched.tp] = end

    def ack(self, message: Any) -> bool:
        """Let Faust's waits for running work end; no list of offsets is kept."""
        if message.acked:
            return False
        message.acked = True
        self._unacked_messages.discard(message)
        waiting = self._waiting_for_ack
        if waiting is not None and not waiting.done():
            waiting.set_result(None)
        return True

    async def _add_gap(self, tp: TP, offset_from: int, offset_to: int) -> None:
        """Keep no list of gaps, either."""

    def _filter_committable_offsets(self, tps: Iterable[TP]) -> dict[TP, int]:
        return {tp: offset for tp, offset in self.done.items() if self._should_commit(tp, offset)}

    async def perform_seek(self) -> None:
        """Go to where each partition continues; Faust calls it after every assignment, before anything flows."""
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
    """Nothing is decoded on the way."""

    def loads_key(self, app: Any, message: Any, **_: Any) -> Any:
        """Return what there is."""
        return message.key

    def loads_value(self, app: Any, message: Any, **_: Any) -> Any:
        """Return what there is."""
        return message.value


class SliceApp(faust.App):
    """A Faust application without tables: it needs no directory, and makes none where it was started."""

    def _create_directories(self) -> None:
        """Make none."""


@dataclass(frozen=True)
class SliceAppOptions:
    """What a slice application is made from.

    Attributes:
        topic: To read.
        group: The consumer group.
        max_records: Most records in a slice; bounds memory where records are highly compressible.
        slices_buffered: Slices fetched and waiting; with those in work they bound memory.
        session_seconds: Without a heartbeat for so long, the group gives the partitions to another.
        commit_seconds: Between two commits of the group's offsets.
        commit_note: Put beside each committed offset.
        instance: Name of this process in the group, if a restart shall not rebalance it; empty: none.
    """

    topic: str
    group: str
    max_records: int = 8000
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
    """Return a Faust application that gives each slice of a topic, with its event, to `hand_over`; not started yet.

    The event must be acknowledged (`event.ack()`) when the work on its slice has ended.
    """
    app: Any = SliceApp(
        options.group,
        broker=[f"kafka://{address}" for address in kafka.addresses],
        broker_credentials=_credentials(kafka),
        autodiscover=False,
        web_enabled=False,  # it would listen on 0.0.0.0 and hand out table data
        topic_allow_declare=False,
        topic_disable_leader=True,
        table_standby_replicas=0,
        consumer_auto_offset_reset="earliest",  # what retention took is found by `_lost_before`
        consumer_max_fetch_size=PARTITION_FETCH_BYTES,
        consumer_metadata_max_age_ms=10_000,
        consumer_group_instance_id=options.instance or None,
        broker_max_poll_records=options.max_records,
        broker_max_poll_interval=1e6,  # at its end Faust deadlocks for ever; the watchdog takes its place
        broker_session_timeout=options.session_seconds,
        broker_heartbeat_interval=options.session_seconds / 3.5,
        broker_request_timeout=40.0,
        broker_commit_interval=options.commit_seconds,
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


def _raw_slice(tp: Any, start: int, to_offset: int, records: list[Any], lost: int) -> RawSlice:
    count = len(records)
    return RawSlice(
        topic=tp.topic,
        partition=tp.partition,
        from_offset=start,
        to_offset=to_offset,
        offsets=np.fromiter((record.offset for record in records), np.int64, count),
        values=[record.value for record in records],
        timestamps=np.fromiter((_seconds(record.timestamp) for record in records), np.float64, count),
        lost=lost,
    )


def _seconds(milliseconds: int | None) -> float:
    return math.nan if milliseconds is None or milliseconds < 0 else milliseconds / 1000.0
