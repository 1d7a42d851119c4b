"""`TopicFeed`: assembly of a topic of spans beside a run that reads the topic of whole traces."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError

from gapwatch.publisher.kafka_settings import KafkaSettings
from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.sinks.spans.late_spans import LateSpanRow
from gapwatch.sinks.spans.span_counts import SpanKey
from gapwatch.streams.otlp.assembly.assembler import Assembler
from gapwatch.streams.otlp.assembly.close_rules import CloseRules
from gapwatch.streams.otlp.assembly.late_delays import LateDelays
from gapwatch.streams.otlp.live.mapping_words import DROPPED, mapping_words
from gapwatch.streams.otlp.live.span_topics import SpanTopics
from gapwatch.streams.otlp.live.spool_assembly import TakeFeedback
from gapwatch.streams.otlp.live.spool_feed import span_counts
from gapwatch.streams.otlp.live.topic_assembly import TopicAssembly
from gapwatch.streams.otlp.mapping.mapper import TraceMapper


class TopicFeed:
    """Assembles from `start` to `stop`; see `RunFeed`.

    Args:
        kafka: The cluster.
        topics: Topics and group.
        rules: When a trace is closed.
        portfolios: Portfolios in force; their mapping of spans holds.
        at_step: Called with the name of each step of a commit, for tests that kill the process there.
    """

    local, url, waiting_bytes = None, "", 0

    def __init__(
        self,
        kafka: KafkaSettings,
        topics: SpanTopics,
        rules: CloseRules,
        portfolios: Sequence[Portfolio],
        at_step: Callable[[str], None] = lambda step: None,
    ) -> None:
        self._rules, self._mapper, self._portfolios = rules, TraceMapper.of(portfolios), portfolios
        self._assembly = TopicAssembly(kafka, topics, self._make, at_step)
        self._failure: Future[None] = Future()

    @property
    def requests(self) -> Mapping[tuple[str, str], int]:
        """Requests: none come here."""
        return {}

    @property
    def open_traces(self) -> int:
        """Traces that are still open."""
        return self._assembly.assembler.open_traces

    @property
    def late(self) -> LateDelays:
        """Late spans."""
        return self._assembly.assembler.late

    @property
    def waiting_for(self) -> str:
        """Reason why nothing is assembled now; empty if there is none."""
        return self._assembly.waiting_for

    def take_late_spans(self) -> list[LateSpanRow]:
        """Return the late spans since the last call; the newest, if there are many."""
        return [
            LateSpanRow(one.trace_id, one.span_id, one.service, one.delay, one.gap)
            for one in self._assembly.assembler.take_late_spans()
        ]

    def is_idle(self) -> bool:
        """Return True if everything is assembled and committed, and nothing is pending."""
        return self._assembly.is_done

    def counts(self) -> Mapping[SpanKey, int]:
        """Return the ledger of spans as of the last commit, by item, state and cause."""
        return span_counts(self._assembly.counts)

    def start_rows(self) -> dict[str, list[str]]:
        """Return rows for the block at the start of a run: name to its lines."""
        topics = self._assembly.topics
        logs = f", log records of topic {topics.logs}" if topics.logs else ""
        return {
            "assembles": [f"spans of topic {topics.spans} ({topics.encoding}){logs}, to topic {topics.traces}"],
            "mapping": mapping_words(self._portfolios),
            "dropped": DROPPED,
        }

    def start(self, take_feedback: TakeFeedback | None = None) -> None:
        """Start the assembly; `take_feedback` stores feedback."""
        self._assembly.start(self._failed, take_feedback)

    def switch(self, portfolios: Sequence[Portfolio]) -> None:
        """Map the traces that are closed from now on by other portfolios."""
        self._mapper, self._portfolios = TraceMapper.of(portfolios), portfolios
        self._assembly.assembler.mapper = self._mapper

    async def until_failed(self) -> None:
        """Wait for, and raise, an error that ends the assembly."""
        await asyncio.wrap_future(self._failure)

    def stop(self, seconds: float) -> bool:
        """Commit what is assembled and end; False if that took longer than `seconds`."""
        return self._assembly.stop(seconds)

    def _make(self) -> Assembler:
        return Assembler(self._mapper, self._rules)

    def _failed(self, error: BaseException) -> None:
        with contextlib.suppress(InvalidStateError):
            self._failure.set_exception(error)
