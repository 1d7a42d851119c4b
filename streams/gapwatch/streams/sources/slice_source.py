"""Reads the slices of a topic in order and passes them to one function, across broker outages, rebalances and kills.

Kafka ──fetch──▶ [buffered slices] ──▶ on_slice ──▶ stored ──▶ the group's offsets
                 one of each            one group after       (the store's own offsets take precedence)
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from aiokafka.errors import KafkaConnectionError

from gapwatch.publisher.kafka_settings import KafkaSettings
from gapwatch.scorers.errors import GapwatchError, JobError, UsageError
from gapwatch.streams.sources.faust_slices import FetchedSlice, PartitionOffsets, SliceAppOptions, make_slice_app
from gapwatch.streams.sources.raw_slice import RawSlice
from gapwatch.streams.sources.source_progress import SourceProgress
from gapwatch.streams.sources.topic_check import wait_for_topic
from gapwatch.streams.sources.watchdog import Watchdog, WorkProgress, end_process

log = logging.getLogger("gapwatch.slices")

#: Prefix of the store's id in the note that is committed with the group's offsets.
STORE_NOTE = "gapwatch-store:"


@dataclass(frozen=True)
class StallLimits:
    """Seconds without progress after which the watchdog ends the process.

    Attributes:
        loop: The event loop does not respond. A blocked loop sends no heartbeats either.
        rebalance: A rebalance of the group does not end.
        slice: One call of `on_slice` does not return.
        fetch: The topic has more records and no slice is in work, but no record arrives.
        partition: A partition has records that are not stored yet, but none of them is stored while others may be.
    """

    loop: float = 10.0
    rebalance: float = 120.0
    slice: float = 300.0
    fetch: float = 60.0
    partition: float = 600.0


@dataclass(frozen=True)
class SourceOptions:
    """Options of reading a topic.

    Attributes:
        app: Topic, group and limits of fetching.
        slices_in_work: Most calls of `on_slice` that run at once. They begin in the order of the slices. Take 1 if
            calls must not overlap and no lock orders them.
        records_in_work: Most records of the slices in work, unless a single slice has more; bounds memory. With twice
            those of a full slice, one slice can be scored while another is stored.
        drain_seconds: Most seconds that a stop waits, for slices in work and for the broker together.
        stall: Limits of the watchdog.
    """

    app: SliceAppOptions
    slices_in_work: int = 64
    records_in_work: int = 16_000
    drain_seconds: float = 8.0
    stall: StallLimits = field(default_factory=StallLimits)


class SliceSource:
    """Reads a topic as a member of a consumer group and passes its slices to a function.

    Args:
        options: Topic, group and limits.
        kafka: The cluster.
        on_slice: Called with each slice; when it returns, the slice is stored. If it raises, all other calls are
            cancelled, no further slice is passed on or committed, and `run` raises: the process should end with
            status 1.
        stored_offsets: Returns for partitions the next offset in the store, None for those it does not know; called
            after every assignment. It takes precedence over the group's offsets.
        store_id: Id of the store, committed as a note with the group's offsets. A group with another store's note is
            refused: each of two stores in one group would get only a part of the records.
        progress: Written by this source, for others to read; None: the source makes its own.

    Attributes:
        state: `connecting`, `joining`, `running`, `stopping` or `stopped`.
        waiting_for: While connecting, the error of the last attempt; else empty.
        is_clean: True if everything has stopped. False after `run` if a stop reached its deadline: then tasks and
            threads still wait for the broker, and the process must end by `os._exit` before the loop ends.
        lost: Number of records that the topic's retention deleted before they were read.
    """

    def __init__(
        self,
        options: SourceOptions,
        kafka: KafkaSettings,
        on_slice: Callable[[RawSlice], Awaitable[None]],
        stored_offsets: Callable[[set[int]], Mapping[int, int | None]] = lambda partitions: {},
        store_id: str = "",
        progress: SourceProgress | None = None,
    ) -> None:
        self.options, self.kafka = options, kafka
        self.progress = progress or SourceProgress(options.app.topic)
        self._on_slice, self._stored_offsets, self._store_id = on_slice, stored_offsets, store_id
        self._note = STORE_NOTE + store_id if store_id else ""
        self.state, self.waiting_for = "connecting", ""
        self.lost = 0
        self.is_clean = True
        self._app: Any = None
        self._failure: BaseException | None = None
        self._in_work: dict[asyncio.Task[None], RawSlice] = {}
        self._idle, self._stop, self._freed = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._idle.set()
        self._beat = 0
        self._answered_at: float | None = None

    # --- its life

    async def run(self) -> None:
        """Read until `stop` is called; check `is_clean` when it returns or raises.

        Raises:
            UsageError: The topic does not exist, the login is refused, or the group belongs to another store.
            JobError: Faust crashed, or offsets contradict each other.
            BaseException: An error of `on_slice`.
        """
        loop = asyncio.get_running_loop()
        watchdog = Watchdog(lambda: self._look(loop), end_process)
        watchdog.start()
        try:
            if not await self._start():
                return
            self.state = "running"
            await self._until_over()
        finally:
            self.state, was = "stopping", self.state
            # Before the drain: that has a deadline of its own, and the watchdog would end it without its report.
            watchdog.stop()
            self.is_clean = await self._shut_down() if was != "connecting" else True
            self.state = "stopped"
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        """Begin to stop; call it on the event loop, such as from `loop.add_signal_handler`."""
        self._stop.set()

    async def _start(self) -> bool:
        """Wait for the cluster and start; False if `stop` came before the start."""
        while not self._stop.is_set():
            check = wait_for_topic(self.kafka, self.options.app.topic, self._note_waiting)
            if not await self._unless_stopped(check):
                return False
            self.state, self.waiting_for = "joining", ""
            self._app = make_slice_app(self._app_options(), self.kafka, self, self._hand_over)
            self._app.finalize()
            self.progress.follow(self._app)
            try:
                await self._unless_stopped(self._app.start())
            except KafkaConnectionError as error:  # the broker went away after the check
                self._note_waiting(str(error))
                await self._shut_down()
                self.state, self._app = "connecting", None
                self.progress.follow(None)
            else:
                return True
        return False

    async def _unless_stopped(self, work: Coroutine[Any, Any, Any]) -> bool:
        """Wait for the work; if `stop` comes first, cancel the work and return False."""
        working, stopping = asyncio.ensure_future(work), asyncio.ensure_future(self._stop.wait())
        await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if working.done():
            working.result()
            return True
        working.cancel()
        await asyncio.wait({working}, timeout=1.0)
        return False

    def _app_options(self) -> SliceAppOptions:
        return replace(self.options.app, commit_note=self._note)

    def _note_waiting(self, why: str) -> None:
        self.waiting_for = why

    async def _until_over(self) -> None:
        while not self._stop.is_set() and self._failure is None:
            if self._app.crashed:
                reason = self._app.crash_reason
                self._failure = self._failure or JobError(
                    f"reading topic {self.options.app.topic!r} failed: {reason!r}; stored results are safe, start "
                    f"again to continue from there"
                )
                if isinstance(reason, GapwatchError):
                    self._failure = reason
                break
            try:
                await asyncio.wait_for(self._stop.wait(), 0.2)
            except TimeoutError:
                continue

    async def _shut_down(self) -> bool:
        """Finish the slices in work and leave the group, within the deadline."""
        if self._app is None:
            return True
        end = time.monotonic() + self.options.drain_seconds
        try:
            if self._failure is None:
                self._stop.set()
                await asyncio.wait_for(self.wait_idle(), max(0.1, end - time.monotonic()))
            else:
                for task in self._in_work:
                    task.cancel()
                self._app.conf.stream_wait_empty = False
            # Not `wait_for`: Faust reacts to a cancellation only when the broker answers.
            stopping = asyncio.ensure_future(self._app.stop())
            done, _ = await asyncio.wait({stopping}, timeout=max(1.0, end - time.monotonic()))
            if not done:
                raise TimeoutError
            stopping.result()
        except TimeoutError:
            log.warning("stopping took longer than %.0f s and was cut short", self.options.drain_seconds)
            return False
        except Exception as error:
            log.warning("stopping failed: %r", error)
            return False
        return not self._in_work

    # --- the owner of the slices, as `faust_slices` calls it

    async def wait_idle(self) -> None:
        """Return when no slice is in work."""
        await self._idle.wait()

    def choose_starts(self, offsets: Mapping[int, PartitionOffsets]) -> dict[int, int]:
        """Return the next offset of each partition: the store's, else the group's, else the first retained one.

        Once the store has any partition of the topic, the group's offset of another one counts only if this store
        committed it: a stranger in the group would make it skip records, or refuse every start.
        """
        stored = self._stored_offsets(set(offsets))
        is_new = all(offset is None for offset in stored.values())
        starts = {
            partition: self._choose_start(partition, stored.get(partition), at, is_new)
            for partition, at in offsets.items()
        }
        self.progress.assign({partition: (starts[partition], at.end) for partition, at in offsets.items()})
        return starts

    def _choose_start(self, partition: int, stored: int | None, at: PartitionOffsets, is_new: bool) -> int:
        where = f"{self.options.app.topic!r}, partition {partition}"
        if self._note and at.committed_note.startswith(STORE_NOTE) and at.committed_note != self._note:
            raise UsageError(
                f"group {self.options.app.group!r} belongs to another store ({at.committed_note[len(STORE_NOTE) :]!r}; "
                f"this is {self._store_id!r}); each of two stores in one group would get only a part of the records. "
                f"Give this store a group of its own with --group"
            )
        if stored is None and at.committed is not None and not is_new and at.committed_note != self._note:
            log.warning(
                "partition %d: the offset %d of group %r is not of this store, which has nothing of the partition: "
                "reading begins at its first record, %d",
                partition, at.committed, self.options.app.group, at.first,
            )  # fmt: skip
            return at.first
        start = at.committed if stored is None else stored
        if start is None:
            return at.first
        if start > at.end:
            raise UsageError(
                f"{where}: the {'group' if stored is None else 'store'} continues at offset {start}, but the topic "
                f"ends at {at.end}; was it deleted and created again? Start with a new --group and a new --store"
            )
        return start

    def fail(self, error: BaseException) -> None:
        """End `run` with this error; no further slice begins."""
        if self._failure is None:
            self._failure = error
        for task in self._in_work:
            if task is not asyncio.current_task():
                task.cancel()
        self._stop.set()

    async def _hand_over(self, event: Any, fetched: FetchedSlice) -> None:
        await self._wait_for_room(len(fetched.raw))
        if self._stop.is_set() or not self._app.consumer.is_current(fetched):
            event.ack()
            return
        self._idle.clear()
        task = asyncio.create_task(self._work(event, fetched))
        self._in_work[task] = fetched.raw
        task.add_done_callback(self._worked)

    async def _wait_for_room(self, records: int) -> None:
        """Wait until the limits of what is in work leave room for a slice; one call at a time."""
        while self._in_work:
            waiting = sum(map(len, self._in_work.values()))
            if len(self._in_work) < self.options.slices_in_work and waiting + records <= self.options.records_in_work:
                return
            self._freed.clear()
            await self._freed.wait()

    async def _work(self, event: Any, fetched: FetchedSlice) -> None:
        if fetched.raw.lost:
            self.lost += fetched.raw.lost
            log.error(
                "topic %s, partition %d: the topic's retention deleted %d records from offset %d on before they were "
                "read; they are missing from all results",
                fetched.raw.topic, fetched.raw.partition, fetched.raw.lost, fetched.raw.from_offset,
            )  # fmt: skip
        try:
            await self._on_slice(fetched.raw)
        except BaseException as error:
            self.fail(error)
            return
        self._app.consumer.declare_done(fetched)
        event.ack()

    def _worked(self, task: asyncio.Task[None]) -> None:
        self._in_work.pop(task, None)
        self._freed.set()
        if not self._in_work:
            self._idle.set()

    # --- questions

    @property
    def linger_seconds(self) -> float:
        """Seconds that few records wait for others at present."""
        thread = self._app and self._app.consumer and self._app.consumer._thread
        linger = getattr(thread, "linger", None)
        return linger.seconds if linger is not None else self.options.app.linger_seconds

    def is_caught_up(self) -> bool:
        """Return True if every readable record is read and stored; False during a rebalance."""
        if self.state != "running" or self._app.rebalancing or self._in_work:
            return False
        consumer = self._app.consumer
        positions = self.progress.positions()
        assigned = self.progress.partition_states()
        return (
            len(positions) == len(assigned) > 0
            and all(fetched >= end for _done, fetched, end in positions.values())
            and consumer.issued == consumer.done
            and not consumer._thread.is_taking
            and all(consumer._thread.taken.get(tp) == consumer.issued.get(tp) for tp, _ in assigned)
        )

    def is_connected(self) -> bool:
        """Return whether a connection to a broker is open."""
        return any(connection.connected() for connection in self._connections())

    def broker_silence(self) -> float | None:
        """Return the seconds since a broker last answered; None before the first answer. Call it about once a second.

        A consumer is answered without a record, too: its heartbeats are.
        """
        answers = [connection._last_action for connection in self._connections()]
        self._answered_at = max([*answers, *([] if self._answered_at is None else [self._answered_at])], default=None)
        return None if self._answered_at is None else time.monotonic() - self._answered_at

    def _connections(self) -> list[Any]:
        """Return aiokafka's connections; a closed one stays until it is replaced."""
        if self._app is None or self.state not in ("joining", "running"):
            return []
        thread = self._app.consumer and self._app.consumer._thread
        kafka = thread and thread._consumer
        return list(kafka._client._conns.values()) if kafka else []

    def _look(self, loop: asyncio.AbstractEventLoop) -> list[WorkProgress]:
        """Return what the watchdog checks; called on its thread."""
        limits = self.options.stall

        def beat() -> None:
            self._beat += 1

        seen = self._beat
        loop.call_soon_threadsafe(beat)
        looks = [WorkProgress("event loop", seen, True, limits.loop)]
        if self._app is None or self.state not in ("joining", "running"):
            return looks
        in_work = list(self._in_work.values())
        looks.append(WorkProgress("rebalance", self._app.rebalancing_count, self._app.rebalancing, limits.rebalance))
        looks += [
            WorkProgress(f"slice from {raw.from_offset} of partition {raw.partition}", 0, True, limits.slice)
            for raw in in_work
        ]
        if self.state == "running" and not self._app.rebalancing and self.is_connected():
            for partition, (done, fetched, end) in self.progress.positions().items():
                looks.append(WorkProgress(f"partition {partition}", done, done < end, limits.partition))
                if not in_work:
                    looks.append(WorkProgress(f"fetch of partition {partition}", fetched, fetched < end, limits.fetch))
        return looks
