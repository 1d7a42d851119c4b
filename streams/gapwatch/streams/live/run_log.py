"""What `gapwatch run` says on standard error: one line when something changes, one now and then while it goes well."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.scorers.slices.slices import ScoredSlice
from gapwatch.sinks.metrics.source_state import SourceState
from gapwatch.streams.pipeline.run_summary import RunSummary
from gapwatch.streams.sources.quiet_logs import quieten_logs

log = logging.getLogger("gapwatch.run")

#: Seconds between two lines while there is progress.
PROGRESS_SECONDS = 10.0


class _LineFormatter(logging.Formatter):
    """Time in UTC, the level where it is not the usual one, and what happened."""

    def format(self, record: logging.LogRecord) -> str:
        line = time.strftime("%Y-%m-%dT%H:%M:%SZ ", time.gmtime(record.created))
        if record.levelno > logging.INFO:
            line += f"{record.levelname.lower()}: "
        # Kafka's clients log as much as they like; where a line comes from is worth a word only for theirs.
        own = record.name.partition(".")[0] == "gapwatch"
        return line + ("" if own else f"{record.name}: ") + record.getMessage()


@contextmanager
def logs_on_stderr(quiet: bool) -> Iterator[None]:
    """Log to standard error: warnings of everybody, and, unless quiet, what Gapwatch itself does.

    At the end nothing is logged any more. Faust's compiled modules keep `logging` beyond the interpreter's end, and
    with it whatever hangs on it: through this module that would be the engine, which then lists its objects as leaked.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(_LineFormatter())
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("gapwatch").setLevel(logging.WARNING if quiet else logging.INFO)
    quieten_logs()
    try:
        yield
    finally:
        logging.getLogger().removeHandler(handler)
        handler.close()


class RunLog:
    """Counts what a run has done, and says so.

    Attributes:
        result: What was done so far.
    """

    def __init__(self) -> None:
        self.result = RunSummary()
        self._began = time.perf_counter()
        self._said: tuple[str, str, tuple[int, ...]] | None = None
        self._line_at, self._line_read = self._began, 0
        self._seconds: dict[str, float] = {}
        self._pieces = 0

    def slice_stored(self, scored: ScoredSlice, seconds_by_stage: Mapping[str, float]) -> None:
        """Count a piece."""
        self.result.add(scored)
        self.result.seconds = time.perf_counter() - self._began
        self._pieces += 1
        for stage, seconds in seconds_by_stage.items():
            self._seconds[stage] = self._seconds.get(stage, 0.0) + seconds

    def source_state(self, state: SourceState) -> None:
        """Say what has changed, or how far it is."""
        now = (state.state, state.waiting_for, tuple(sorted(state.positions)))
        if now != self._said:
            self._said = now
            if state.state == "running" and state.positions:
                log.info("reading %s, %s behind", _partitions(now[2]), _count(state.lag, "record"))
            elif state.state not in ("running", "connecting"):
                log.info("%s", state.state)
        seconds = time.perf_counter() - self._line_at
        if seconds >= PROGRESS_SECONDS and self.result.records > self._line_read:
            log.info("%s", self._progress(state, seconds))
            self._line_at, self._line_read = time.perf_counter(), self.result.records
            self._seconds, self._pieces = {}, 0

    def portfolios_changed(self, portfolios: Sequence[Portfolio]) -> None:
        """Nothing: who switched says so."""

    def _progress(self, state: SourceState, seconds: float) -> str:
        result = self.result
        rate = (result.records - self._line_read) / seconds
        parts = [
            _count(result.read, "trace"), f"{rate:,.0f}/s", f"{_count(state.lag, 'record')} behind",
            _count(result.rows, "row"),
        ]  # fmt: skip
        if result.dead_letters:
            parts.append(_count(result.dead_letters, "dead letter"))
        if result.foreign:
            parts.append(f"{result.foreign:,} of other pipelines")
        if state.lost:
            parts.append(f"{state.lost:,} lost to the topic's retention")
        stages = ", ".join(f"{stage} {spent / self._pieces * 1000:.0f} ms" for stage, spent in self._seconds.items())
        return "; ".join(parts) + (f"; a slice takes {stages}" if stages else "")


def _count(n: int, what: str) -> str:
    return f"{n:,} {what}{'' if n == 1 else 's'}"


def _partitions(numbers: tuple[int, ...]) -> str:
    if len(numbers) == 1:
        return f"partition {numbers[0]}"
    if numbers == tuple(range(numbers[0], numbers[-1] + 1)):
        return f"partitions {numbers[0]} to {numbers[-1]}"
    return "partitions " + ", ".join(map(str, numbers))
