"""`Assembler`: requests to whole traces, in memory, with a clock that is given.

Closed traces go to a mapper at once; what is late, doubled or dead is counted and kept for the caller to store. So is
feedback, which mostly comes after its trace was closed.
"""

from __future__ import annotations

import logging
from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence
from contextlib import suppress

from gapwatch.sinks.feedback.feedback import Feedback
from gapwatch.streams.otlp.assembly.close_rules import CloseRules
from gapwatch.streams.otlp.assembly.closed_trace import ClosedTrace, ExportBody, LateSpan, Mapper
from gapwatch.streams.otlp.assembly.evaluation_events import FoundFeedback, feedback_of
from gapwatch.streams.otlp.assembly.item_ledger import EVENT, LOG, REQUEST, SPAN, ItemLedger
from gapwatch.streams.otlp.assembly.late_delays import LateDelays
from gapwatch.streams.otlp.decoding.raw_items import DeadItem, RawLog, RawSpan, RawTrace, UndecodableError
from gapwatch.streams.otlp.decoding.splitting import name_of_span, split
from gapwatch.streams.otlp.mapping.mapping_rules import glob_test

log = logging.getLogger("gapwatch.otlp")

#: Bytes that a pending span takes beside its own; measured by tests/benchmarks.
SPAN_OVERHEAD = 420
#: Traces that are remembered after they were closed, and seconds: a span of an older one opens a new trace.
MOST_CLOSED, CLOSED_SECONDS = 250_000, 3_600.0
#: Late spans and dead letters that are kept until the caller takes them.
_MOST_KEPT = 1_000
#: Log records of a span that has not come; more are orphaned.
_MOST_LOGS = 10_000


class _OpenTrace:
    __slots__ = ("bytes", "first", "has_root", "last", "log_bytes", "logs", "position", "received_at", "spans")

    def __init__(self, first: float, position: int) -> None:
        self.spans: dict[bytes, RawSpan] = {}
        self.logs: list[RawLog] = []
        self.log_bytes: set[bytes] = set()
        self.first = self.last = first
        self.position = position
        self.has_root = False
        self.bytes = 0
        self.received_at = 0.0


class Assembler:
    """Assembles spans and log records to traces.

    The clock is that of arrival: `take` and `advance` get it, and it never goes back.

    Args:
        mapper: Maps closed traces; it may be replaced.
        rules: When a trace is closed.

    Attributes:
        mapper: Maps traces that are closed from now on.
        late: Delays of late spans.
        pending: Number of spans of open traces.
        has_feedback: Whether evaluations are taken out as feedback; otherwise they are content of their span.
    """

    def __init__(self, mapper: Mapper, rules: CloseRules | None = None) -> None:
        self.mapper, self.rules = mapper, rules or CloseRules()
        self.late = LateDelays()
        self.pending = 0
        self.has_feedback = False
        self._feedback: list[Feedback] = []
        self._is_bad_feedback_logged = False
        self._pending_logs = 0
        self._bytes = 0
        # Traces by the last arrival, the oldest first: a trace with news goes to the end.
        self._rooted: OrderedDict[bytes, _OpenTrace] = OrderedDict()
        self._rootless: OrderedDict[bytes, _OpenTrace] = OrderedDict()
        # Open traces by the time of their first arrival, for the longest time that one may be open.
        self._by_first: deque[tuple[float, bytes]] = deque()
        # By the position of their first arrival, for the oldest one that is pending.
        self._by_position: deque[tuple[int, bytes]] = deque()
        # Trace to the time of its closing, that of its last arrival in time, and the ids of its spans.
        self._closed_ids: OrderedDict[bytes, tuple[float, float, bytes]] = OrderedDict()
        self._ledger = ItemLedger()
        self._closed: list[ClosedTrace] = []
        self._late_spans: deque[LateSpan] = deque(maxlen=_MOST_KEPT)
        self._dead: deque[DeadItem] = deque(maxlen=_MOST_KEPT)
        self._clock = float("-inf")

    @property
    def open_traces(self) -> int:
        """Number of traces that are open."""
        return len(self._rooted) + len(self._rootless)

    @property
    def memory_bytes(self) -> int:
        """Bytes of open traces, estimated."""
        return self._bytes

    def restore(self, closed: Sequence[str], counts: Mapping[str, int]) -> None:
        """Continue from a commit; before the first request.

        Args:
            closed: Ids of traces that were closed, the oldest first.
            counts: Counts of the commit.
        """
        for trace_id in closed[-MOST_CLOSED:]:
            self._closed_ids[bytes.fromhex(trace_id)] = (float("-inf"), float("-inf"), b"")
        self._ledger = ItemLedger(counts)

    def take(
        self, request: ExportBody, position: int, received_at: float, clock: float, *, is_counted: bool = False
    ) -> None:
        """Add a request. A body that cannot be decoded is counted as a dead letter.

        Args:
            request: Its body.
            position: Its position in what is read; it grows.
            received_at: Time of arrival, seconds since the epoch.
            clock: Time of arrival by the clock of arrival.
            is_counted: Whether the counts that were given to `restore` have its spans already. Then what is not pending
                is skipped.
        """
        self._clock = clock = max(self._clock, clock)
        try:
            parts = split(request.body, is_json=request.is_json, is_logs=request.signal == "logs")
        except UndecodableError as error:
            if not is_counted:
                self._ledger.add(1, REQUEST, "dead_letter", "undecodable")
                self._dead.append(DeadItem(REQUEST, "undecodable", str(error), "", request.body[: 64 << 10]))
            return
        if not is_counted:
            self._ledger.add(len(parts.spans), SPAN, "consumed")
            self._ledger.add(len(parts.logs), LOG, "consumed")
            for dead in parts.dead:
                self._ledger.add(1, dead.item, "consumed")
                self._bury(dead)
        self.add(parts.spans, parts.logs, position, received_at, clock, is_counted=is_counted)

    def add(
        self,
        spans: Sequence[RawSpan],
        logs: Sequence[RawLog],
        position: int,
        received_at: float,
        clock: float,
        *,
        is_counted: bool = False,
    ) -> None:
        """Add spans and log records that are counted as consumed; see `take`."""
        if self.has_feedback:
            logs, found = feedback_of(spans, logs, received_at)
            self._add_feedback(() if is_counted else found)
        rooted, rootless, closed_ids, rules = self._rooted, self._rootless, self._closed_ids, self.rules
        globs = self.mapper.root_globs
        for span in spans:
            trace_id = span.trace_id
            trace = rooted.get(trace_id) or rootless.get(trace_id)
            if trace is None:
                if trace_id in closed_ids:
                    if not is_counted:
                        self._add_late(span, clock)
                    continue
                trace = self._opened(trace_id, position, clock)
            if span.span_id in trace.spans:
                self._renew(trace_id, trace, received_at, clock)
                if not is_counted:
                    self._ledger.add(1, SPAN, "duplicate")
                continue
            trace.spans[span.span_id] = span
            size = len(span.raw) + SPAN_OVERHEAD
            trace.bytes += size
            self._bytes += size
            self.pending += 1
            if not trace.has_root and (not span.parent_id or (globs and _is_named(span, globs))):
                trace.has_root = True
                rooted[trace_id] = rootless.pop(trace_id)
                trace.last, trace.received_at = clock, received_at
            else:
                self._renew(trace_id, trace, received_at, clock)
            if len(trace.spans) >= rules.max_spans:
                self._close(trace_id, "max_spans", clock)
            elif trace.bytes - SPAN_OVERHEAD * len(trace.spans) > rules.max_bytes:
                self._close(trace_id, "max_bytes", clock)
        for record in logs:
            self._add_log(record, position, received_at, clock, is_counted)
        while self._bytes > rules.memory and (rooted or rootless):
            self._close(self._oldest(), "memory", clock)

    def advance(self, clock: float) -> None:
        """Close the traces that are due.

        Args:
            clock: Time by the clock of arrival.
        """
        self._clock = clock = max(self._clock, clock)
        for opened, idle, cause in (
            (self._rooted, self.rules.quiet, "quiet"),
            (self._rootless, self.rules.orphan, "orphan"),
        ):
            while opened:
                trace_id, trace = next(iter(opened.items()))
                if clock - trace.last < idle:
                    break
                self._close(trace_id, cause, clock)
        by_first = self._by_first
        while by_first and clock - by_first[0][0] >= self.rules.max_open:
            first, trace_id = by_first.popleft()
            old = self._trace(trace_id)
            if old is not None and old.first == first:
                self._close(trace_id, "max_open", clock)
        self._forget(clock)

    def end(self) -> None:
        """Close all open traces: the input has ended."""
        opened = [*self._rooted.items(), *self._rootless.items()]
        opened.sort(key=lambda one: (one[1].position, one[1].first))
        for trace_id, _ in opened:
            self._close(trace_id, "end", self._clock)

    def closed(self) -> list[ClosedTrace]:
        """Return the traces that were closed since the last call, in the order of closing."""
        closed, self._closed = self._closed, []
        return closed

    def held(self) -> int | None:
        """Return the position of the oldest request of which a span or a log record is pending; None if none is."""
        by_position = self._by_position
        while by_position:
            position, trace_id = by_position[0]
            trace = self._trace(trace_id)
            if trace is not None and trace.position == position:
                return position
            by_position.popleft()
        return None

    def counts(self) -> dict[str, int]:
        """Return spans and log records by item, state and cause; see `item_ledger`."""
        return self._ledger.counts(self.pending, self._pending_logs)

    def take_late_spans(self) -> list[LateSpan]:
        """Return the late spans since the last call, on any thread; the newest thousand, if there are more."""
        found = []
        with suppress(IndexError):
            while True:
                found.append(self._late_spans.popleft())
        return found

    def take_feedback(self) -> list[Feedback]:
        """Return the feedback since the last call; a commit without it loses it."""
        found, self._feedback = self._feedback, []
        return found

    def take_dead(self) -> list[DeadItem]:
        """Return the dead letters since the last call; the newest thousand, if there are more."""
        found = list(self._dead)
        self._dead.clear()
        return found

    def _add_feedback(self, found: Sequence[FoundFeedback]) -> None:
        for item, one in found:
            if item == EVENT:
                self._ledger.add(1, EVENT, "consumed")
            if isinstance(one, DeadItem):
                if not self._is_bad_feedback_logged:
                    self._is_bad_feedback_logged = True
                    log.warning("an evaluation is a dead letter (bad_feedback), as further ones: %s", one.detail)
                self._bury(one)
            else:
                self._ledger.add(1, item, "feedback")
                self._feedback.append(one)

    def _trace(self, trace_id: bytes) -> _OpenTrace | None:
        return self._rooted.get(trace_id) or self._rootless.get(trace_id)

    def _renew(self, trace_id: bytes, trace: _OpenTrace, received_at: float, clock: float) -> None:
        """Note an arrival; a trace with news goes to the end of its order."""
        if trace.last != clock:
            (self._rooted if trace.has_root else self._rootless).move_to_end(trace_id)
            trace.last = clock
        trace.received_at = received_at

    def _oldest(self) -> bytes:
        """Return the open trace whose last arrival is the oldest."""
        heads = [next(iter(opened.items())) for opened in (self._rooted, self._rootless) if opened]
        return min(heads, key=lambda head: head[1].last)[0]

    def _opened(self, trace_id: bytes, position: int, clock: float) -> _OpenTrace:
        trace = self._rootless[trace_id] = _OpenTrace(clock, position)
        self._by_first.append((clock, trace_id))
        self._by_position.append((position, trace_id))
        if len(self._by_first) > 4 * self.open_traces + 1_000:
            self._by_first = deque(
                (first, one) for first, one in self._by_first if (at := self._trace(one)) and at.first == first
            )
        if len(self._by_position) > 4 * self.open_traces + 1_000:
            self._by_position = deque(
                (first, one) for first, one in self._by_position if (at := self._trace(one)) and at.position == first
            )
        return trace

    def _add_late(self, span: RawSpan, clock: float) -> None:
        closed_at, last, ids = self._closed_ids[span.trace_id]
        for at in range(0, len(ids), 8):
            if ids[at : at + 8] == span.span_id:
                self._ledger.add(1, SPAN, "duplicate")
                return
        self._ledger.add(1, SPAN, "late")
        service = span.block.service
        delay = clock - closed_at if closed_at > float("-inf") else CLOSED_SECONDS
        gap = clock - last if last > float("-inf") else CLOSED_SECONDS
        self.late.add(service, delay, gap)
        self._late_spans.append(
            LateSpan(span.trace_id.hex(), span.span_id.hex(), service, delay, gap, span.raw, span.is_json)
        )

    def _add_log(self, log: RawLog, position: int, received_at: float, clock: float, is_counted: bool) -> None:
        trace_id = log.trace_id
        if not trace_id:
            if not is_counted:
                self._ledger.add(1, LOG, "foreign")
            return
        trace = self._trace(trace_id)
        if trace is None:
            if trace_id in self._closed_ids:
                if not is_counted:
                    self._ledger.add(1, LOG, "late")
                return
            trace = self._opened(trace_id, position, clock)
        self._renew(trace_id, trace, received_at, clock)
        if len(trace.logs) >= _MOST_LOGS:
            if not is_counted:
                self._ledger.add(1, LOG, "shed")
            return
        if log.raw in trace.log_bytes:
            if not is_counted:
                self._ledger.add(1, LOG, "duplicate")
            return
        trace.logs.append(log)
        trace.log_bytes.add(log.raw)
        size = len(log.raw) + SPAN_OVERHEAD
        trace.bytes += size
        self._bytes += size
        self._pending_logs += 1

    def _close(self, trace_id: bytes, cause: str, clock: float) -> None:
        trace = self._rooted.pop(trace_id, None) or self._rootless.pop(trace_id)
        self._bytes -= trace.bytes
        self.pending -= len(trace.spans)
        self._pending_logs -= len(trace.logs)
        self._closed_ids[trace_id] = (clock, trace.last, b"".join(trace.spans))
        if len(self._closed_ids) > MOST_CLOSED:
            self._closed_ids.popitem(last=False)
        mapped = self.mapper.map(
            RawTrace(trace_id, list(trace.spans.values()), trace.logs, cause, trace.received_at or None)
        )
        ledger = self._ledger
        ledger.add(mapped.spans, SPAN, "assembled", cause)
        ledger.add(mapped.dropped, SPAN, "dropped_kind")
        ledger.add(mapped.joined, LOG, "joined")
        ledger.add(mapped.orphaned, LOG, "orphaned")
        ledger.add(mapped.foreign, LOG, "foreign")
        for dead in mapped.dead:
            self._bury(dead)
        self._closed.append(ClosedTrace(trace_id.hex(), mapped.envelope, cause, mapped.spans))

    def _bury(self, dead: DeadItem) -> None:
        self._ledger.add(1, dead.item, "dead_letter", dead.cause)
        self._dead.append(dead)

    def _forget(self, clock: float) -> None:
        closed_ids = self._closed_ids
        while closed_ids:
            trace_id, (closed_at, _, _) = next(iter(closed_ids.items()))
            if closed_at == float("-inf"):
                # Known from a commit: counted from now on.
                closed_ids[trace_id] = (clock, float("-inf"), b"")
                closed_ids.move_to_end(trace_id)
                continue
            if clock - closed_at < CLOSED_SECONDS:
                break
            closed_ids.popitem(last=False)


def _is_named(span: RawSpan, globs: tuple[str, ...]) -> bool:
    name = name_of_span(span)
    return any(glob_test(glob)(name) for glob in globs)
