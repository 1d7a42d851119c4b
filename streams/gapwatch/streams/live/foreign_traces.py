"""Warning of a run that reads traces of which not one is of a pipeline with a portfolio."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.scorers.slices.slices import ScoredSlice
from gapwatch.sinks.metrics.source_state import SourceState
from gapwatch.streams.sources.file_kind import foreign_text

log = logging.getLogger("gapwatch.run")

#: Seconds between the first trace of a pipeline without a portfolio and the warning. A topic that several pipelines
#: share shows a trace of a portfolio's within them.
WARN_SECONDS = 10.0
#: Most names in one run: a producer that writes another name into each trace must not fill the log.
MOST_NAMES = 20


class ForeignTraces:
    """Warns once that no trace so far is of a portfolio's pipeline, and again only for a new name.

    Args:
        clock: Returns seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._pipelines: set[str] = set()
        self._names: Counter[str] = Counter()
        self._said: set[str] = set()
        self._first_at: float | None = None
        self._has_own = False

    def slice_stored(self, scored: ScoredSlice, seconds_by_stage: Mapping[str, float]) -> None:
        """Count the traces of pipelines without a portfolio."""
        self._has_own = self._has_own or scored.tables["trace_ids"].num_rows > 0
        if self._has_own or not scored.foreign:
            return
        for name, n in scored.foreign.items():
            if name in self._names or len(self._names) < MOST_NAMES:
                self._names[name] += n
        if self._first_at is None:
            self._first_at = self._clock()

    def source_state(self, state: SourceState) -> None:
        """Log the warning when it is due."""
        if self._has_own or self._first_at is None or self._clock() - self._first_at < WARN_SECONDS:
            return
        names = dict(self._names)
        if not self._said.issuperset(names):
            self._said.update(names)
            log.warning("%s", foreign_text("every trace that was read since the start", names, self._pipelines))

    def portfolios_changed(self, portfolios: Sequence[Portfolio]) -> None:
        """Begin anew where the portfolios name other pipelines."""
        pipelines = {portfolio.pipeline for portfolio in portfolios}
        if pipelines != self._pipelines:
            self._pipelines, self._first_at, self._has_own = pipelines, None, False
            self._names.clear()
            self._said.clear()
