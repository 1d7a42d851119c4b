"""Live values of `/metrics` of `gapwatch run`: receives every stored slice and answers each scrape from memory.

writer thread ──slice_stored──▶ [slices not yet counted] ──▶ counts ──▶ page     a scrape counts the new slices; without
                                                                                 new ones it reuses the series' samples
"""

from __future__ import annotations

import platform
import threading
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
from prometheus_client.core import Metric, Sample
from prometheus_client.registry import Collector

from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.scorers.slices.facet_names import OTHER
from gapwatch.scorers.slices.slices import ScoredSlice
from gapwatch.scorers.slices.tables import LEDGER, TICKS
from gapwatch.scorers.version import program_version
from gapwatch.sinks.metrics.families import FAMILIES
from gapwatch.sinks.metrics.family_samples import Cells, FamilySamples, make_registry
from gapwatch.sinks.metrics.health import BROKER_SILENCE_SECONDS
from gapwatch.sinks.metrics.labels import LabelSets
from gapwatch.sinks.metrics.live_counts import LiveCounts
from gapwatch.sinks.metrics.series_samples import SAMPLE_LIMIT, unwatched_samples, watched_samples
from gapwatch.sinks.store.ledger import imbalance
from gapwatch.sinks.store.store import Store

#: Largest number of tick rows that wait for a scrape. Larger: more memory, about 200 bytes a row. Smaller: slices are
#: counted while the stream waits, which takes 20 ms for this many rows.
_WAITING_LIMIT = 50_000

#: Bucket bounds of the durations of stages, seconds.
STAGE_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_STAGE_LIMIT = 16

#: Number of remembered movements of a partition's end: an hour at one a second.
_ENDS_LIMIT = 3_600

SOURCE_STATES = ("connecting", "joining", "running", "stopping", "stopped")

_TICK_COLUMNS = [name for name in TICKS.names if name not in ("component", "epoch", "fold_bucket", "score_sum_squares")]
_KEPT_COLUMNS = {"ticks": _TICK_COLUMNS, "ledger": LEDGER.names, "dead_letters": ["lane", "source_topic", "cause"]}


@dataclass
class _Partition:
    """Position of a partition: next offset to store, end of the topic, and the times when the end moved."""

    kept: int | None = None
    end: int | None = None
    ends: deque[tuple[float, int]] = field(default_factory=deque)

    def see(self, kept: int, end: int, now: float) -> None:
        """Record a new position."""
        self.kept, self.end = kept, end
        if not self.ends or end > self.ends[-1][1]:
            self.ends.append((now, end))
            if len(self.ends) > _ENDS_LIMIT:  # keep every second one of the older half
                older = [self.ends.popleft() for _ in range(_ENDS_LIMIT // 2)]
                self.ends.extendleft(reversed(older[::2]))

    def lag_seconds(self, now: float) -> float:
        """Return for how many seconds the oldest record that is not stored has waited."""
        while self.ends and self.kept is not None and self.ends[0][1] <= self.kept:
            self.ends.popleft()
        return max(0.0, now - self.ends[0][0]) if self.ends else 0.0


@dataclass
class _Stage:
    counts: list[int] = field(default_factory=lambda: [0] * (len(STAGE_BOUNDS) + 1))
    seconds: float = 0.0


class LiveMetrics(Collector):
    """State behind `/metrics`. The writer thread calls `slice_stored`; any thread may call the other methods.

    Args:
        portfolios: Portfolios in force.
        lane: Lane to count.
        sample_limit: Largest number of samples of monitored series on a page.

    Attributes:
        registry: Registry that answers a scrape: these metrics and those of the process.
    """

    def __init__(self, portfolios: Sequence[Portfolio], lane: str = "live", sample_limit: int = SAMPLE_LIMIT) -> None:
        self._labels = LabelSets()
        self._portfolios = list(portfolios)
        for portfolio in portfolios:
            self._labels.add(portfolio)
        self._lane, self._sample_limit = lane, sample_limit
        self._lock = threading.Lock()  # guards the counts; held while a page is made
        self._brief_lock = threading.Lock()  # guards the small values; never held for long
        self._con = duckdb.connect(":memory:", config={"threads": 1, "enable_external_access": False})
        self._con.execute("SET TimeZone = 'UTC'")
        self._counts = LiveCounts(self._labels, lane)
        self._waiting: list[dict[str, pa.Table]] = []
        self._waiting_rows = 0
        self._watched: tuple[dict[str, list[Sample]], int] | None = None
        self._stored_imbalance = 0
        self._shown: dict[str, dict[tuple[str, ...], float]] = {}
        self._shown_histograms: dict[str, tuple[Sequence[float], list[Cells]]] = {}
        self._partitions: dict[tuple[str, int], _Partition] = {}
        self._spans: dict[str, int] = {}
        self._stages: dict[str, _Stage] = {}
        self._source_state, self._lost, self._committed_at = "", 0, 0.0
        self._answered_at: float | None = None
        self._store_path: Path | None = None
        self.registry = make_registry(self)

    # --- input

    def rebuild(self, store: Store) -> None:
        """Count the rows of a store, so that no counter falls; called once, before the first slice.

        Raises:
            JobError: The store cannot be read.
        """
        self._store_path = store.path
        cursor = store.cursor()
        try:
            with self._lock:
                environments = cursor.execute(
                    "SELECT environment FROM ticks WHERE lane = ? GROUP BY ALL ORDER BY min(seq), environment",
                    [self._lane],
                ).fetchall()
                for (name,) in environments:
                    self._labels.meet_environments([name])
                self._counts.take(cursor, time.time(), from_store=True)
                self._watched = None
            spans = cursor.execute(
                "SELECT source_topic, sum(spans)::BIGINT FROM offsets WHERE lane = ? GROUP BY ALL", [self._lane]
            ).fetchall()
            self._spans = dict(spans)
            self._stored_imbalance = imbalance(cursor)
        finally:
            cursor.close()
        with self._brief_lock:
            for (lane, topic, partition), position in store.positions().items():
                if lane == self._lane:
                    self._partition(topic, partition).kept = position.to_offset

    def slice_stored(self, scored: ScoredSlice, seconds_by_stage: Mapping[str, float]) -> None:
        """Count a stored slice.

        Args:
            scored: The slice.
            seconds_by_stage: Duration of each stage, in seconds.
        """
        if scored.lane != self._lane:
            return
        self._labels.meet_environments(pc.unique(scored.tables["ticks"]["environment"]).to_pylist())
        tables = {name: _compact(scored.tables[name], columns) for name, columns in _KEPT_COLUMNS.items()}
        with self._brief_lock:
            for stage, seconds in seconds_by_stage.items():
                self._note_seconds(stage, seconds)
            self._partition(scored.topic, scored.partition).kept = scored.to_offset
            self._spans[scored.topic] = self._spans.get(scored.topic, 0) + scored.spans
            self._committed_at = time.time()
            self._waiting.append(tables)
            self._waiting_rows += tables["ticks"].num_rows
            are_many = self._waiting_rows > _WAITING_LIMIT
        if are_many and self._lock.acquire(blocking=False):
            try:
                self._count_waiting()
            finally:
                self._lock.release()

    def source_state(
        self,
        state: str,
        positions: Mapping[tuple[str, int], tuple[int, int]] | None = None,
        lost: int = 0,
        broker_silence: float | None = None,
    ) -> None:
        """Set the state and the positions of the source.

        Args:
            state: One of `SOURCE_STATES`.
            positions: By topic and partition: the next offset to store, and the end of the readable records. A missing
                partition no longer belongs to this process.
            lost: Number of records so far that the topic's retention deleted before they were read.
            broker_silence: Seconds since a broker last answered; None before the first answer.
        """
        now = time.time()
        with self._brief_lock:
            self._source_state, self._lost = state, lost
            self._answered_at = None if broker_silence is None else time.monotonic() - broker_silence
            for key, partition in self._partitions.items():
                if positions is not None and key not in positions:
                    partition.end = None
                    partition.ends.clear()
            for (topic, number), (kept, end) in (positions or {}).items():
                self._partition(topic, number).see(kept, end, now)

    def portfolios_changed(self, portfolios: Sequence[Portfolio]) -> None:
        """Use the labels of the portfolios now in force. Counters of former ones stay."""
        with self._lock:
            self._count_waiting()
            self._portfolios = list(portfolios)
            for portfolio in portfolios:
                self._labels.add(portfolio)
            self._watched = None

    def environment_label(self, name: str) -> str:
        """Return the label of an environment: its own name, or `other`."""
        return name if name in self._labels.environments else OTHER

    def show(self, name: str, samples: Mapping[tuple[str, ...], float]) -> None:
        """Replace the samples of a family that another part of the program computes.

        Args:
            name: Name in `gapwatch.sinks.metrics.families` of a family that is not counted here.
            samples: Samples by label values, which come from closed sets.
        """
        family = FAMILIES[name]
        if any(len(key) != len(family.labels) for key in samples):
            raise ValueError(f"{name} has the labels {family.labels}")
        with self._brief_lock:
            self._shown = {**self._shown, name: dict(samples)}

    def show_histogram(self, name: str, bounds: Sequence[float], values: Iterable[Cells]) -> None:
        """Replace a histogram that another part of the program computes.

        Args:
            name: Name in `gapwatch.sinks.metrics.families` of a family that is not counted here.
            bounds: Upper bounds of its buckets, ascending.
            values: Label values; counts by bucket, the last beyond all bounds; sum.
        """
        shown = bounds, list(values)
        with self._brief_lock:
            self._shown_histograms = {**self._shown_histograms, name: shown}

    # --- output

    def collect(self) -> list[Metric]:
        """Return the families of a page for `registry`, without those of the process."""
        page = FamilySamples()
        with self._lock:
            self._count_waiting()
            if self._watched is None:
                self._watched = watched_samples(self._counts, self._con, self._sample_limit)
            watched, left_out = self._watched
            for name, values in unwatched_samples(self._counts, self._portfolios).items():
                page.add(name, values)
            self._add_counts(page)
        for name, samples in watched.items():
            page.add_samples(name, samples)
        page.add_one("gapwatch_samples_left_out", left_out)
        with self._brief_lock:
            self._add_source(page)
        self._add_program(page)
        for name, values in self._shown.items():
            page.add(name, values)
        for name, (bounds, cells) in self._shown_histograms.items():
            page.add_histogram(name, bounds, cells)
        return page.metrics()

    def _add_counts(self, page: FamilySamples) -> None:
        counts = self._counts
        page.add("gapwatch_unscored_spans_total", counts.left_out)
        page.add("gapwatch_judge_requests_pending", counts.pending)
        page.add("gapwatch_records_total", counts.consumed)
        page.add("gapwatch_other_names_total", counts.other_names)
        page.add("gapwatch_dead_letters_total", counts.dead_letters)
        page.add_one("gapwatch_ledger_imbalance", self._stored_imbalance + counts.disagreement)
        newest = {(one.pipeline,): counts.newest_slot(one.pipeline) for one in self._portfolios}
        page.add(
            "gapwatch_newest_event_timestamp_seconds",
            {key: slot * 300 for key, slot in newest.items() if slot is not None},
        )

    def _add_source(self, page: FamilySamples) -> None:
        page.add("gapwatch_consumed_spans_total", {(topic,): n for topic, n in self._spans.items()})
        now = time.time()
        silence = None if self._answered_at is None else time.monotonic() - self._answered_at
        unknown = silence if silence is not None and silence > BROKER_SILENCE_SECONDS else 0.0
        for (topic, number), partition in self._partitions.items():
            key = (topic, str(number))
            if partition.kept is not None:
                page.add("gapwatch_kept_offset", {key: partition.kept})
                if partition.end is not None:
                    page.add("gapwatch_lag_records", {key: max(0, partition.end - partition.kept)})
                    page.add("gapwatch_lag_seconds", {key: max(unknown, partition.lag_seconds(now))})
        if self._source_state:
            states = {*SOURCE_STATES, self._source_state}
            page.add(
                "gapwatch_source_state", {(state,): float(state == self._source_state) for state in sorted(states)}
            )
        if silence is not None:
            page.add_one("gapwatch_broker_answer_age_seconds", silence)
        page.add_one("gapwatch_records_lost_total", self._lost)
        stages = [((stage,), times.counts, times.seconds) for stage, times in self._stages.items()]
        page.add_histogram("gapwatch_slice_seconds", STAGE_BOUNDS, stages)
        if self._committed_at:
            page.add_one("gapwatch_last_commit_timestamp_seconds", self._committed_at)

    def _add_program(self, page: FamilySamples) -> None:
        versions = (program_version(), duckdb.__version__, platform.python_version())
        page.add("gapwatch_build_info", {versions: 1})
        page.add(
            "gapwatch_portfolio_info",
            {(one.pipeline, one.portfolio, str(one.version), one.sha[:12]): 1 for one in self._portfolios},
        )
        if self._store_path is not None:
            files = {"file": self._store_path, "log": self._store_path.with_name(self._store_path.name + ".wal")}
            page.add("gapwatch_store_bytes", {(part,): float(_size(path)) for part, path in files.items()})

    # --- counting

    def _count_waiting(self) -> None:
        """Count the waiting slices. The caller holds the lock."""
        with self._brief_lock:
            slices, self._waiting, self._waiting_rows = self._waiting, [], 0
        if not slices:
            return
        for name in _KEPT_COLUMNS:
            self._con.register(name, pa.concat_tables([tables[name] for tables in slices]))
        try:
            self._counts.take(self._con, time.time(), from_store=False)
        finally:
            for name in _KEPT_COLUMNS:
                self._con.unregister(name)
        self._watched = None

    def _partition(self, topic: str, number: int) -> _Partition:
        return self._partitions.setdefault((topic, number), _Partition())

    def _note_seconds(self, stage: str, seconds: float) -> None:
        name = stage if stage in self._stages or len(self._stages) < _STAGE_LIMIT else OTHER
        times = self._stages.setdefault(name, _Stage())
        times.seconds += seconds
        times.counts[next((i for i, bound in enumerate(STAGE_BOUNDS) if seconds <= bound), len(STAGE_BOUNDS))] += 1


def _compact(table: pa.Table, columns: Iterable[str]) -> pa.Table:
    """Return a copy of the counted columns: a slice of a larger buffer would keep the whole buffer in memory."""
    table = table.select(list(columns))
    if "facet" in table.column_names:
        return table.filter(pc.is_in(table["facet"], pa.array(["all", "tier"])))
    return table.take(pa.array(range(table.num_rows), pa.int64()))


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
