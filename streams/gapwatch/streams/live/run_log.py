"""Log of `gapwatch run` on standard error: one line for each event; at the level debug also the progress."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.scorers.slices.slices import ScoredSlice
from gapwatch.sinks.metrics.source_state import SourceState
from gapwatch.streams.live.start_block import drawn
from gapwatch.streams.pipeline.run_summary import RunSummary
from gapwatch.streams.sources.quiet_logs import quieten_logs

log = logging.getLogger("gapwatch.run")

#: Seconds between two progress lines, at the level debug.
PROGRESS_SECONDS = 10.0
#: Words of the progress line for the stages of a slice.
_STAGES = {"score": "scoring", "keep": "writing"}


#: Log lines for the states of the source.
_STATES = {"joining": "joining the consumer group", "stopping": "stopping", "stopped": "stopped"}


class _LineFormatter(logging.Formatter):
    """Formats a line: time in UTC, the level if it is a warning or an error, the message."""

    def format(self, record: logging.LogRecord) -> str:
        line = time.strftime("%Y-%m-%dT%H:%M:%SZ ", time.gmtime(record.created))
        if record.levelno > logging.INFO:
            line += f"{record.levelname.lower()}: "
        # Lines of other libraries begin with their name; Gapwatch's own lines speak for themselves.
        own = record.name.partition(".")[0] == "gapwatch"
        line += ("" if own else f"{record.name}: ") + record.getMessage()
        return line + drawn(getattr(record, "started", {}))


@contextmanager
def logs_on_stderr(quiet: bool, level: str = "info") -> Iterator[None]:
    """Log to standard error during a `with`: all warnings, and Gapwatch's own lines from a level on.

    At the end logging is as it was before. Faust's compiled modules keep `logging` alive beyond the end of the
    interpreter, and through this module also DuckDB, which would then report its objects as leaked.

    Args:
        quiet: Log warnings and errors only.
        level: Least level of Gapwatch's own lines unless `quiet`: debug, info or warning.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(_LineFormatter())
    root, own = logging.getLogger(), logging.getLogger("gapwatch")
    handlers, levels = root.handlers[:], (root.level, own.level)
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    own.setLevel(logging.WARNING if quiet else level.upper())
    quieten_logs()
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(levels[0])
        own.setLevel(levels[1])
        handler.close()


class RunLog:
    """Counts the work of a run, and logs its progress.

    Attributes:
        result: Counts so far.
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
        """Log a change of the source's state, and the progress."""
        now = (state.state, state.waiting_for, tuple(sorted(state.positions)))
        if now != self._said:
            self._said = now
            if state.state == "running" and state.positions:
                log.info("reading %s; consumer lag %s", _partitions(now[2]), _count(state.lag, "record"))
            elif state.state not in ("running", "connecting"):
                log.info("%s", _STATES.get(state.state, state.state))
        seconds = time.perf_counter() - self._line_at
        if seconds >= PROGRESS_SECONDS and self.result.records > self._line_read:
            log.debug("%s", self._progress(state, seconds))
            self._line_at, self._line_read = time.perf_counter(), self.result.records
            self._seconds, self._pieces = {}, 0

    def portfolios_changed(self, portfolios: Sequence[Portfolio]) -> None:
        """Log nothing: the portfolio watch has logged the change."""

    def _progress(self, state: SourceState, seconds: float) -> str:
        result = self.result
        rate = (result.records - self._line_read) / seconds
        parts = [
            f"{_count(result.read, 'trace')} scored", f"{rate:,.0f}/s", f"lag {_count(state.lag, 'record')}",
            f"{_count(result.rows, 'gap row')} stored",
        ]  # fmt: skip
        if result.dead_letters:
            parts.append(_count(result.dead_letters, "dead letter"))
        if result.foreign:
            parts.append(f"{_count(result.foreign, 'record')} of pipelines without a portfolio")
        if state.lost:
            parts.append(f"{_count(state.lost, 'record')} deleted by the topic's retention before they were read")
        each = ((_STAGES.get(stage, stage), spent / self._pieces) for stage, spent in self._seconds.items())
        stages = ", ".join(f"{stage} {mean * 1000:.0f} ms" for stage, mean in each)
        return "; ".join(parts) + (f"; per slice {stages}" if stages else "")


def _count(n: int, what: str) -> str:
    return f"{n:,} {what}{'' if n == 1 else 's'}"


def _partitions(numbers: tuple[int, ...]) -> str:
    if len(numbers) == 1:
        return f"partition {numbers[0]}"
    if numbers == tuple(range(numbers[0], numbers[-1] + 1)):
        return f"partitions {numbers[0]} to {numbers[-1]}"
    return "partitions " + ", ".join(map(str, numbers))
