"""Notes records whose time is far from that of their neighbours, and late data, in the log and in `/healthz`."""

from __future__ import annotations

import logging
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence

import pyarrow.compute as pc

from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.scorers.printable import shown
from gapwatch.scorers.slices.slices import ScoredSlice
from gapwatch.sinks.metrics.source_state import SourceState

log = logging.getLogger("gapwatch.run")

#: Share of a pipeline's records or units in an hour above which `/healthz` has a note; the rules have the same.
MOST_SHARE = 0.01
_HOUR_SECONDS = 3_600.0
# Seconds whose counts are added up: an hour has 60 entries.
_STEP_SECONDS = 60.0
_TEXTS = {
    "ahead": "half an hour or more ahead of the other records",
    "behind": "two hours or more behind the other records",
}

#: (pipeline, what is counted) to its number: read, ahead and behind count records, units and late count units.
Counts = Counter[tuple[str, str]]


class WrongTimes:
    """Counts wrong times and late data by pipeline, over the last hour of the wall clock.

    Args:
        note: Sets the note of `/healthz`; an empty text clears it.
        clock: Returns seconds.
    """

    def __init__(self, note: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._note, self._clock = note, clock
        self._hour: deque[tuple[float, Counts]] = deque()
        self._said: set[tuple[str, str]] = set()

    def slice_stored(self, scored: ScoredSlice, seconds_by_stage: Mapping[str, float]) -> None:
        """Count the records and units of a slice, and log the first wrong time of each pipeline."""
        now, counts = self._clock(), _counts(scored)
        if not self._hour or now - self._hour[-1][0] > _STEP_SECONDS:
            self._hour.append((now, Counter()))
        self._hour[-1][1].update(counts)
        for (pipeline, state), n in counts.items():
            if state in _TEXTS and (pipeline, state) not in self._said:
                self._said.add((pipeline, state))
                log.warning(
                    "pipeline %s: %d %s in %s [%d], offsets %d to %d, with a time %s. Look at the clock of the host. "
                    "They count without a time and change no alert; gapwatch_records_total has state=%s. Further ones "
                    "are counted and not logged",
                    shown(pipeline), n, "record" if n == 1 else "records", shown(scored.topic), scored.partition,
                    scored.from_offset, scored.to_offset - 1, _TEXTS[state], state,
                )  # fmt: skip

    def source_state(self, state: SourceState) -> None:
        """Update the note."""
        while self._hour and self._clock() - self._hour[0][0] > _HOUR_SECONDS:
            self._hour.popleft()
        whole: Counts = sum((counts for _, counts in self._hour.copy()), Counter())
        self._note("; ".join(_notes(whole)))

    def portfolios_changed(self, portfolios: Sequence[Portfolio]) -> None:
        """Do nothing: pipelines are counted as they come."""


def _notes(counts: Counts) -> list[str]:
    notes = []
    for pipeline in sorted({name for name, _ in counts}):
        for state, text in _TEXTS.items():
            share = counts[pipeline, state] / max(counts[pipeline, "read"], 1)
            if share > MOST_SHARE:
                notes.append(f"pipeline {shown(pipeline)}: {share:.0%} of the records of the last hour are {text}")
        share = counts[pipeline, "late"] / max(counts[pipeline, "units"], 1)
        if share > MOST_SHARE:
            notes.append(f"pipeline {shown(pipeline)}: {share:.0%} of the units of the last hour came late")
    return notes


def _counts(scored: ScoredSlice) -> Counts:
    counts: Counts = Counter()
    ledger = scored.tables["ledger"]
    of_records = ledger.select(_LEDGER).filter(ledger["metric"].is_null())
    for pipeline, state, n in zip(*of_records.to_pydict().values(), strict=True):
        if pipeline is not None and state in ("read", *_TEXTS):
            counts[pipeline, state] += n
    ticks = scored.tables["ticks"]
    is_unit = pc.and_(pc.equal(ticks["facet"], "all"), pc.equal(ticks["level"], "unit"))
    # Only these columns: the filter would copy all of them, histograms included.
    pipelines, n, bucket, folded = (ticks[name].filter(is_unit) for name in ("pipeline", "n", "bucket", "fold_bucket"))
    late = pc.if_else(pc.greater(folded, bucket).fill_null(False), n, 0)
    for pipeline in pc.unique(pipelines).to_pylist():
        is_mine = pc.equal(pipelines, pipeline)
        for name, numbers in (("units", n), ("late", late)):
            counts[pipeline, name] += pc.sum(numbers.filter(is_mine)).as_py() or 0
    return counts


_LEDGER = ["pipeline", "state", "n"]
