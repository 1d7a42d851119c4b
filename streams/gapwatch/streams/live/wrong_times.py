"""Notes records whose time is far from that of their neighbours, and late data: in the log, `/healthz` and `/metrics`.

The hosts that wrote such records are named where the records name them.
"""

from __future__ import annotations

import logging
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence

import pyarrow.compute as pc

from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.scorers.printable import shown
from gapwatch.scorers.slices.slices import ScoredSlice
from gapwatch.scorers.slices.wrong_clocks import WrongClock, host_text
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

#: Hosts of a pipeline that are named in the log and in `/metrics`; with a new name in each record, neither may grow.
MOST_HOSTS = 20
# Hosts in a note of `/healthz`.
_IN_NOTE = 3
#: Metric of the records of each host.
HOSTS = "gapwatch_wrong_clock_records_total"
_OTHER, _UNNAMED = "other", "unnamed"

#: (pipeline, what is counted) to its number: read, ahead and behind count records, also of one host; units and late
#: count units.
Counts = Counter[tuple[str, str]]


class WrongTimes:
    """Counts wrong times and late data by pipeline, over the last hour of the wall clock.

    Args:
        note: Sets the note of `/healthz`; an empty text clears it.
        show: Shows the samples of a metric by their label values.
        clock: Returns seconds.
    """

    def __init__(
        self,
        note: Callable[[str], None],
        show: Callable[[str, Mapping[tuple[str, ...], float]], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._note, self._show, self._clock = note, show, clock
        # (Pipeline, host, state) to records since the start.
        self._hosts: Counter[tuple[str, str, str]] = Counter()
        self._hour: deque[tuple[float, Counts]] = deque()

    def slice_stored(self, scored: ScoredSlice, seconds_by_stage: Mapping[str, float]) -> None:
        """Count the records and units of a slice, and log the first record of each host with a wrong time."""
        now, counts = self._clock(), _counts(scored)
        if not self._hour or now - self._hour[-1][0] > _STEP_SECONDS:
            self._hour.append((now, Counter()))
        self._hour[-1][1].update(counts)
        for wrong in scored.wrong_clocks:
            self._take(wrong, scored)
        if scored.wrong_clocks:
            self._show(HOSTS, {(of, host or _UNNAMED, state): float(n) for (of, host, state), n in self._hosts.items()})

    def _take(self, wrong: WrongClock, scored: ScoredSlice) -> None:
        """Count the records of a host, and log a host that is new."""
        key = (wrong.pipeline, wrong.host, wrong.state)
        named = sum(pipeline == wrong.pipeline for pipeline, *_ in self._hosts)
        if key not in self._hosts and named >= MOST_HOSTS:
            self._hosts[wrong.pipeline, _OTHER, wrong.state] += wrong.n
            return
        is_new = key not in self._hosts
        self._hosts[key] += wrong.n
        self._hour[-1][1][wrong.pipeline, f"{wrong.state} {host_text(wrong.host)}"] += wrong.n
        if is_new:
            log.warning(
                "pipeline %s: %d %s of %s in %s [%d], offsets %d to %d, with a time %s%s. Look at the clock of the "
                "host. They count without a time and change no alert; gapwatch_records_total has state=%s. Further "
                "ones of it are counted and not logged",
                shown(wrong.pipeline), wrong.n, "record" if wrong.n == 1 else "records", host_text(wrong.host),
                shown(scored.topic), scored.partition, scored.from_offset, scored.to_offset - 1, _TEXTS[wrong.state],
                f", such as trace {shown(wrong.trace_id)}" if wrong.trace_id else "", wrong.state,
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
                hosts = Counter(
                    {name: n for (of, name), n in counts.items() if of == pipeline and name.startswith(f"{state} ")}
                )
                names = "; ".join(
                    f"{n:,} of {name.removeprefix(f'{state} ')}" for name, n in hosts.most_common(_IN_NOTE)
                )
                notes.append(
                    f"pipeline {shown(pipeline)}: {share:.0%} of the records of the last hour are {text}"
                    + (f" ({names})" if names else "")
                )
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
