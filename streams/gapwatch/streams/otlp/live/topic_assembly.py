"""Assembles the records of a topic of spans to whole traces in another topic, each exactly once.

    topic of spans ─┐                ┌─▶ topic of traces   ┐
                    ├─▶ assembler ───┼─▶ journal topic     ├ one transaction
    topic of logs ──┘                └─▶ offsets of a group┘

The offset of the group is that of the oldest record of which something is pending, so the input itself is the record of
what is open: a kill loses nothing, and costs reading again. How far each partition was read stands beside its offset,
and the ids of closed traces and the ledger of spans in the journal. One process assembles a topic: a transactional id
fences a former one, and a process with another store is refused.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Mapping

from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import KafkaError, ProducerFenced, TopicAlreadyExistsError

from gapwatch.publisher.back_off import BackOff
from gapwatch.publisher.kafka_settings import KafkaSettings
from gapwatch.scorers.errors import JobError, UsageError
from gapwatch.streams.otlp.assembly.assembler import Assembler
from gapwatch.streams.otlp.live.span_topics import SpanTopics
from gapwatch.streams.otlp.live.spool_assembly import TakeFeedback
from gapwatch.streams.otlp.live.topic_keys import TopicKeys
from gapwatch.streams.otlp.live.topic_session import TopicSession
from gapwatch.streams.otlp.receiving.intake import OtlpRequest
from gapwatch.streams.sources.broker_outage import OUTAGE
from gapwatch.streams.sources.topic_check import wait_for_topic

log = logging.getLogger("gapwatch.otlp")

_JOURNAL_SETTINGS = {"retention.ms": "-1", "cleanup.policy": "delete", "retention.bytes": str(1 << 30)}


class TopicAssembly:
    """Assembly of one topic of spans, from `start` to `stop`, on a thread of its own.

    Args:
        kafka: The cluster.
        topics: Topics and group.
        make_assembler: Makes an assembler without a state.
        at_step: Called with the name of each step of a commit, for tests that kill the process there.

    Attributes:
        assembler: The assembler at work.
        waiting_for: Reason why nothing is read now; empty if there is none.
        take_feedback: Stores feedback; None: evaluations are content of their span.
    """

    def __init__(
        self,
        kafka: KafkaSettings,
        topics: SpanTopics,
        make_assembler: Callable[[], Assembler],
        at_step: Callable[[str], None] = lambda step: None,
    ) -> None:
        self._kafka, self.topics, self._make, self._at_step = kafka, topics, make_assembler, at_step
        self.assembler = make_assembler()
        self.waiting_for = "starting"
        self.counts: Mapping[str, int] = {}
        self.is_done = False
        self.take_feedback: TakeFeedback | None = None
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._on_failure: Callable[[BaseException], None] = lambda error: None
        self._keys = TopicKeys(topics.spans)

    def start(self, on_failure: Callable[[BaseException], None], take_feedback: TakeFeedback | None = None) -> None:
        """Start the thread.

        Args:
            on_failure: Called on it with the error that ends the assembly.
            take_feedback: Stores feedback, on another thread; None: evaluations are content of their span.
        """
        self._on_failure, self.take_feedback = on_failure, take_feedback
        self._thread = threading.Thread(target=self._run, name="assembly", daemon=True)
        self._thread.start()

    def stop(self, seconds: float) -> bool:
        """End the thread; False if that took longer than `seconds`."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(seconds)
            if self._thread.is_alive():
                return False
            self._keys.conclude()
        return True

    # --- on the thread of the assembly

    def _run(self) -> None:
        try:
            asyncio.run(self._assemble())
        except BaseException as error:
            if not isinstance(error, JobError | UsageError):
                log.exception("the assembly has failed")
            self._on_failure(error)

    async def _assemble(self) -> None:
        back_off = BackOff()
        while not self._stopping.is_set():
            try:
                await self._prepare()
                await TopicSession(self._kafka, self.topics, self).run()
                back_off.reset()
            except ProducerFenced:
                raise JobError(
                    f"another process assembles topic {self.topics.spans!r} for group {self.topics.group!r} now; "
                    "this one ends"
                ) from None
            except (KafkaError, OSError, TimeoutError) as error:
                self.waiting_for = f"cannot assemble spans: {error!r}; trying again"
                OUTAGE.note(self.waiting_for)
                await back_off.wait()

    async def _prepare(self) -> None:
        """Wait for the topics, and make the journal."""

        def note(why: str) -> None:
            self.waiting_for = why

        for topic in (*self.topics.all, self.topics.traces):
            waiting = asyncio.ensure_future(wait_for_topic(self._kafka, topic, note))
            while not waiting.done() and not self._stopping.is_set():
                await asyncio.wait({waiting}, timeout=0.2)
            if not waiting.done():
                waiting.cancel()
                return
            waiting.result()
        admin = AIOKafkaAdminClient(**self._kafka.client_options(), request_timeout_ms=10_000)
        try:
            await admin.start()
            if self.topics.journal not in await admin.list_topics():
                (traces,) = await admin.describe_topics([self.topics.traces])
                replicas = len(traces["partitions"][0]["replicas"])
                new = NewTopic(self.topics.journal, 1, replicas, topic_configs=_JOURNAL_SETTINGS)
                answer = await admin.create_topics([new])
                code = answer.topic_errors[0][1]
                if code not in (0, TopicAlreadyExistsError.errno):
                    raise UsageError(
                        f"topic {self.topics.journal!r} cannot be made ({answer.topic_errors[0][2]}); create it with "
                        "one partition"
                    )
        finally:
            await admin.close()

    def make(self) -> Assembler:
        """Make an assembler without a state, which is at work from now on."""
        self.assembler = self._make()
        self.assembler.has_feedback = self.take_feedback is not None
        return self.assembler

    @property
    def is_stopping(self) -> bool:
        """True after `stop`."""
        return self._stopping.is_set()

    def look(self, partition: int, request: OtlpRequest) -> None:
        """Learn from a record whether the topic is keyed by trace."""
        if not self._keys.is_known:
            self._keys.look(partition, request)

    def step(self, name: str) -> None:
        """Tell a test where the commit is."""
        self._at_step(name)
