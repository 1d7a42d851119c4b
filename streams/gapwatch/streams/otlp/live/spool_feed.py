"""`SpoolFeed`: receivers, spool, assembly and the log of traces of a run without Kafka.

receivers ──▶ spool ──▶ assembly ──▶ log of traces ──▶ LogSource ──▶ pipeline, as for a topic
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from gapwatch.scorers.errors import GapwatchError
from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.sinks.spans.late_spans import LateSpanRow
from gapwatch.sinks.spans.span_counts import SpanKey
from gapwatch.sinks.store.ledger import CONSUMED
from gapwatch.streams.alerting.incidents.alert_texts import RecordPlace
from gapwatch.streams.otlp.assembly.assembler import Assembler
from gapwatch.streams.otlp.assembly.close_rules import CloseRules
from gapwatch.streams.otlp.assembly.late_delays import LateDelays
from gapwatch.streams.otlp.decoding.raw_items import UndecodableError
from gapwatch.streams.otlp.decoding.splitting import check_payload
from gapwatch.streams.otlp.live.commit_journal import AssemblyCommit
from gapwatch.streams.otlp.live.log_source import LogProgress, LogSource
from gapwatch.streams.otlp.live.mapping_words import DROPPED, mapping_words
from gapwatch.streams.otlp.live.spool import Spool
from gapwatch.streams.otlp.live.spool_assembly import SpoolAssembly, TakeFeedback
from gapwatch.streams.otlp.live.spool_intake import LogClock, SpoolIntake
from gapwatch.streams.otlp.mapping.mapper import TraceMapper
from gapwatch.streams.otlp.receiving.http_receiver import HttpReceiver, OtlpAddress
from gapwatch.streams.otlp.receiving.intake import OtlpRequest, RefusedRequestError, Signal, Taken
from gapwatch.streams.sources.raw_slice import RawSlice

if TYPE_CHECKING:
    from gapwatch.streams.otlp.receiving.grpc_receiver import GrpcReceiver

log = logging.getLogger("gapwatch.otlp")

#: Seconds for which traces that are stored stay in their log, as a topic keeps them: alerts read their texts again.
TRACES_SECONDS = 7 * 86_400.0
#: Seconds between two looks for old files.
_TRIM_SECONDS = 60.0


@dataclass(frozen=True)
class SpoolOptions:
    """Options of a feed.

    Attributes:
        http: Address of the HTTP receiver; None: there is none.
        grpc: Address of the gRPC receiver; None: there is none.
        rules: When a trace is closed.
    """

    http: OtlpAddress | None = None
    grpc: OtlpAddress | None = None
    rules: CloseRules = field(default_factory=CloseRules)


def check_request(request: OtlpRequest) -> Taken:
    """Return what cannot be used of a request.

    Raises:
        RefusedRequestError: The body is not a message of its signal.
    """
    try:
        found = check_payload(request.body, is_json=request.is_json, is_logs=request.signal is Signal.LOGS)
    except UndecodableError as error:
        raise RefusedRequestError(str(error)) from None
    return Taken(found.rejected, found.reason)


def span_counts(counts: Mapping[str, int]) -> dict[SpanKey, int]:
    """Return counts of an assembler by item, state and cause.

    A request that cannot be decoded is an item of its own: it is consumed where it is counted.
    """
    found: dict[SpanKey, int] = {}
    for name, n in counts.items():
        item, state, cause = name.split(".", 2)
        found[item, state, cause] = n
        if item == "request" and n:
            found[item, CONSUMED, ""] = found.get((item, CONSUMED, ""), 0) + n
    return found


def spool_folder(store: Path) -> Path:
    """Return the folder of the spool and the log of traces of a store."""
    return store.with_name(store.name + ".otlp")


class SpoolFeed:
    """Receives spans from `start` to `stop`, and gives whole traces to the source of a run; see `RunFeed`.

    Args:
        options: Addresses of the receivers.
        folder: Folder of the spool; created if it does not exist.
        portfolios: Portfolios in force; their mapping of spans holds.
        topic: Name of the traces in the store.
        at_step: Called with the name of each step of a commit, for tests that kill the process there.

    Raises:
        UsageError: The files of the folder do not belong together.
        JobError: The folder cannot be read or written.
    """

    waiting_for = ""

    def __init__(
        self,
        options: SpoolOptions,
        folder: Path,
        portfolios: Sequence[Portfolio],
        topic: str,
        at_step: Callable[[str], None] = lambda step: None,
    ) -> None:
        self._folder, self._topic, self._portfolios = folder, topic, portfolios
        self._spool = Spool(folder / "spool")
        clock = LogClock(self._spool.last_clock)
        self._assembler = Assembler(TraceMapper.of(portfolios), options.rules)
        try:
            self._assembly = SpoolAssembly(
                folder, self._spool, self._assembler, self._horizon, self._committed, at_step
            )
        except GapwatchError:
            self._spool.close()
            raise
        self._intake = SpoolIntake(self._spool, clock, check_request, lambda: self._assembly.read, self._assembly.wake)
        self._receivers: list[HttpReceiver | GrpcReceiver] = []
        self._http = None if options.http is None else HttpReceiver(options.http, self._intake)
        self._grpc = None if options.grpc is None else _grpc_receiver(options.grpc, self._intake)
        self.progress = LogProgress(topic)
        self._source: LogSource | None = None
        self._failure: Future[None] = Future()
        self._trimmed_at = 0.0

    @property
    def local(self) -> SpoolFeed:
        """Log of the traces."""
        return self

    @property
    def url(self) -> str:
        """URL that programs send to, by HTTP if there is such a receiver; after `start`."""
        if self._http is not None:
            return self._http.url
        return "" if self._grpc is None else f"http://{self._grpc.address}"

    @property
    def requests(self) -> Mapping[tuple[str, str], int]:
        """Requests by signal and outcome."""
        return self._intake.requests

    @property
    def waiting_bytes(self) -> int:
        """Bytes of the spool that are not assembled yet."""
        return self._spool.end - self._assembly.read

    @property
    def open_traces(self) -> int:
        """Traces that are still open."""
        return self._assembler.open_traces

    @property
    def late(self) -> LateDelays:
        """Late spans."""
        return self._assembler.late

    def take_late_spans(self) -> list[LateSpanRow]:
        """Return the late spans since the last call; the newest, if there are many."""
        return [
            LateSpanRow(one.trace_id, one.span_id, one.service, one.delay, one.gap)
            for one in self._assembler.take_late_spans()
        ]

    def is_idle(self) -> bool:
        """Return True if everything in the spool is assembled and committed, and nothing is pending."""
        return self._assembly.is_idle

    def counts(self) -> Mapping[SpanKey, int]:
        """Return the ledger of spans as of the last commit, by item, state and cause."""
        return span_counts(self._assembly.last.counts)

    def start_rows(self) -> dict[str, list[str]]:
        """Return rows for the block at the start of a run: name to its lines."""
        receives = []
        if self._http is not None:
            receives.append(f"{self._http.url}  OTLP over HTTP, protobuf and JSON: traces and logs")
        if self._grpc is not None:
            receives.append(f"{self._grpc.address}  OTLP over gRPC: traces and logs")
        return {
            "receives": receives,
            "mapping": mapping_words(self._portfolios),
            "dropped": DROPPED,
            "spool": [str(self._folder)],
        }

    def read_by(
        self,
        on_slice: Callable[[RawSlice], Awaitable[None]],
        stored_offsets: Callable[[set[int]], Mapping[int, int | None]],
        drain_seconds: float,
    ) -> LogSource:
        """Return the source that reads the whole traces; see `LogSource`."""
        self._source = LogSource(
            self._assembly.traces, self._topic, on_slice, stored_offsets, self.progress, drain_seconds, self.is_idle
        )
        return self._source

    async def records(self, places: Sequence[RecordPlace]) -> dict[RecordPlace, bytes | None]:
        """Return whole traces again by partition and offset; None for one that is no longer in the log."""
        return await asyncio.to_thread(self._records, places)

    def start(self, take_feedback: TakeFeedback | None = None) -> None:
        """Start the assembly and the receivers.

        Args:
            take_feedback: Stores feedback, on the thread of the assembly.

        Raises:
            UsageError: A receiver cannot listen on its address.
        """
        self._assembly.start(self._failed, take_feedback)
        for receiver in (self._http, self._grpc):
            if receiver is not None:
                receiver.start()
                self._receivers.append(receiver)

    def switch(self, portfolios: Sequence[Portfolio]) -> None:
        """Map the traces that are closed from now on by other portfolios."""
        self._assembly.between_commits(lambda: self._remap(portfolios))

    async def until_failed(self) -> None:
        """Wait for, and raise, an error that ends the assembly."""
        await asyncio.wrap_future(self._failure)

    def stop(self, seconds: float) -> bool:
        """Stop receiving, then commit what is read; False if that took longer than `seconds`."""
        end = time.monotonic() + seconds
        is_clean = sum(not receiver.stop(seconds / 2) for receiver in self._receivers) == 0
        self._intake.close()
        is_clean = self._assembly.stop(max(0.1, end - time.monotonic())) and is_clean
        if is_clean:
            self._spool.close()
        return is_clean

    def _remap(self, portfolios: Sequence[Portfolio]) -> None:
        self._assembler.mapper, self._portfolios = TraceMapper.of(portfolios), portfolios
        log.info("the mapping of the changed portfolios holds from trace %d on", self._assembly.traces.lines)

    def _horizon(self) -> float:
        return self._intake.horizon()

    def _committed(self, _commit: AssemblyCommit) -> None:
        if self._source is None:
            return
        self._source.wake()
        if time.time() - self._trimmed_at > _TRIM_SECONDS and self.progress.at is not None:
            self._trimmed_at = time.time()
            self._assembly.traces.trim(self.progress.at[1], time.time() - TRACES_SECONDS)

    def _failed(self, error: BaseException) -> None:
        with contextlib.suppress(InvalidStateError):
            self._failure.set_exception(error)

    def _records(self, places: Sequence[RecordPlace]) -> dict[RecordPlace, bytes | None]:
        return {(partition, line): self._assembly.traces.read_again(line) for partition, line in places}


def _grpc_receiver(at: OtlpAddress, intake: SpoolIntake) -> GrpcReceiver:
    from gapwatch.streams.otlp.receiving.grpc_receiver import GrpcReceiver  # the extra otlp-grpc

    return GrpcReceiver(at, intake)
