"""Scores the slices of a topic and writes them to the store: the file to read first.

    slices ──▶ group ──▶ pieces ──▶ score ──▶ write ──▶ observers, detectors, outbox relay
    of some              cut where    scoring   writer thread: rows, ticks, ledger, offsets, selections and outbox
    partitions           the          thread    in one transaction
                         selection
                         may change

Slices of different partitions that wait at the same time are one group: they are scored together, and one transaction
writes them, because both have a fixed price. While one group is written, the next is scored and one more gathers.
Slices are scored and written in the order in which they came; a slice is done when all of it is committed.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import groupby

from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.scorers.scoring.score import score_together
from gapwatch.scorers.slices.columns import BUCKET_SECONDS
from gapwatch.scorers.slices.event_clock import EventClock, SliceClocks
from gapwatch.scorers.slices.facet_names import FacetNames
from gapwatch.scorers.slices.selection import (
    EVALUATED,
    Selection,
    recorded_factors,
    recorded_shedding,
    thinned_selection,
)
from gapwatch.scorers.slices.slices import RecordSlice, ScoredSlice
from gapwatch.streams.pipeline.dead_letter_messages import dead_letter_messages
from gapwatch.streams.pipeline.gathered_slices import GatheredSlices
from gapwatch.streams.pipeline.judge_throttle import JudgeThrottle
from gapwatch.streams.pipeline.observer import RequestTaker
from gapwatch.streams.pipeline.partition_start import PartitionStart, read_start
from gapwatch.streams.pipeline.regime import Regime
from gapwatch.streams.pipeline.slice_pieces import MOST_TICKS, pieces, window_cuts
from gapwatch.streams.pipeline.slice_writer import PolicyRow, ScoredPiece, SliceWriter
from gapwatch.streams.pipeline.thinning import PartitionThinning
from gapwatch.streams.pipeline.thinning_options import ThinningOptions
from gapwatch.streams.sources.raw_slice import RawSlice

LIVE = "live"


@dataclass
class _Partition:
    """Scoring state of one partition.

    Attributes:
        next_offset: Beginning of the next slice, unless another process had the partition in between.
        thinning: Thinning of its rows.
        clocks: Event clock of each pipeline.
        names: Names that it counts apart.
        regime: Portfolios of its last slice; None after a start with other portfolios.
        selection: Selection in force; None after a start.
        since: First offset under that selection.
        recorded: Id of the last selection in the store.
        judge_rates: Factors of the judges' rates at the last slice.
        sheds: True if judging is skipped under that selection.
    """

    next_offset: int
    thinning: PartitionThinning
    clocks: Mapping[str, EventClock]
    names: FacetNames
    regime: Regime | None
    selection: Selection | None
    since: int
    recorded: str
    judge_rates: Mapping[tuple[str, str], float] = field(default_factory=dict)
    sheds: bool = False

    def advance(self, scored: ScoredSlice) -> None:
        """Move on to the end of a scored slice."""
        self.thinning.count(scored)
        self.clocks, self.names = scored.clocks, scored.names
        self.next_offset = scored.to_offset


@dataclass
class _Entered:
    """A piece whose selection is chosen.

    Attributes:
        partition: State of its partition.
        records: The piece.
        selection: The selection in force.
        recorded: Rows that record the selection, if it is new.
    """

    partition: _Partition
    records: RecordSlice
    selection: Selection
    recorded: Sequence[PolicyRow]


@dataclass
class _Waiting:
    """Pieces of a group of slices that are not scored yet.

    Attributes:
        regime: Portfolios that score all of them.
        sheds: Whether judging is skipped.
        slices: Each slice, its partition, and its pieces.
    """

    regime: Regime
    sheds: bool
    slices: list[tuple[RawSlice, _Partition, deque[RecordSlice]]] = field(default_factory=list)

    def __bool__(self) -> bool:
        return any(left for _, _, left in self.slices)


class Pipeline:
    """Scores slices and writes the results.

    Args:
        writer: Writes the results; its store says where partitions continue.
        regime: First portfolios.
        thinning: Bound on stored rows.
        throttle: Reduction of the judges' rates; read for each slice.
        judges: Answer the stored judge requests in this process; None: judges elsewhere do.
    """

    def __init__(
        self,
        writer: SliceWriter,
        regime: Regime,
        thinning: ThinningOptions,
        throttle: JudgeThrottle | None = None,
        judges: RequestTaker | None = None,
    ) -> None:
        self._writer, self._store = writer, writer.store
        self._regime, self._thinning = regime, thinning
        self._throttle, self._judges = throttle or JudgeThrottle(), judges
        self._partitions: dict[tuple[str, int], _Partition] = {}
        self._score_turn, self._write_turn = asyncio.Lock(), asyncio.Lock()
        self._gathering: GatheredSlices | None = None
        self._scoring = ThreadPoolExecutor(1, "scorer")

    @property
    def portfolios(self) -> tuple[Portfolio, ...]:
        """Portfolios that score the next slice."""
        return self._regime.portfolios

    async def take(self, raw: RawSlice) -> None:
        """Score and write one slice, with others that wait; it is stored when this returns.

        Raises:
            JobError: The store cannot be written; it has none of the slice, or only its first pieces.
        """
        if self._gathering is not None and self._gathering.add(raw):
            await self._gathering.stored()
            return
        group = self._gathering = GatheredSlices(raw)
        with group:
            await self._take_group(group)

    async def _take_group(self, group: GatheredSlices) -> None:
        loop = asyncio.get_running_loop()
        async with self._score_turn:  # asyncio locks are first come, first served: slices stay in order
            await group.gather()
            if self._gathering is group:
                self._gathering = None
            waiting, scored = await loop.run_in_executor(self._scoring, self._begin, group.slices)
            while waiting:  # what is scored is written first, which bounds memory
                async with self._write_turn:
                    await self._writer.thread.run(self._write, scored)
                scored = []
                scored = await loop.run_in_executor(self._scoring, self._score, waiting)
        async with self._write_turn:
            await self._writer.thread.run(self._write, scored)

    async def switch(self, regime: Regime) -> None:
        """Score by other portfolios from the next slice on; the store records the offset of each partition."""
        await self._writer.thread.run(self.register, regime)
        self._regime = regime

    def register(self, regime: Regime) -> None:
        """Store the portfolios; their selections follow with the first slices. Call it on the writer thread.

        Raises:
            UsageError: The detectors refuse the portfolios because of a stored answer; nothing has changed.
        """
        self._writer.register(regime.portfolios)
        if self._judges is not None:
            self._judges.portfolios_changed(regime.portfolios)

    # --- on the scoring thread

    def _begin(self, slices: Sequence[RawSlice]) -> tuple[_Waiting, list[ScoredPiece]]:
        """Cut slices into pieces, and return those that wait and the scored first one of each slice."""
        regime = self._regime
        waiting = _Waiting(regime, self._throttle.is_shedding)
        for raw in slices:
            cuts = window_cuts(raw, self._thinning.window) if self._thinning.rows else []
            waiting.slices.append((raw, self._partition(raw, regime), deque(pieces(raw, LIVE, cuts))))
        return waiting, self._score(waiting)

    def _score(self, waiting: _Waiting) -> list[ScoredPiece]:
        """Score the next piece of each slice, or its first records where it has too many ticks."""
        regime, scored = waiting.regime, list[ScoredPiece]()
        # The selection of a piece depends on what was found in the one before.
        entered = [
            (self._enter(partition, regime, _continued(left.popleft(), partition, raw), waiting.sheds), left)
            for raw, partition, left in waiting.slices
            if left
        ]
        for _, same in groupby(sorted(entered, key=_selection_id), key=_selection_id):
            together = list(same)
            for piece, (one, left) in zip(_scored_pieces(regime, [one for one, _ in together]), together, strict=True):
                scored.append(piece)
                rest = one.records.rest(piece.scored)
                if rest is not None:
                    left.appendleft(rest)
        return scored

    def _partition(self, raw: RawSlice, regime: Regime) -> _Partition:
        key = (raw.topic, raw.partition)
        known = self._partitions.get(key)
        if known is None or known.next_offset != raw.from_offset:
            window = self._thinning.window
            start = read_start(self._store, LIVE, raw.topic, raw.partition, raw.from_offset, window)
            known = self._partitions[key] = _started(start, raw.from_offset, self._thinning, regime)
        return known

    def _enter(self, partition: _Partition, regime: Regime, records: RecordSlice, sheds: bool) -> _Entered:
        """Choose the selection for these records."""
        recorded: Sequence[PolicyRow] = ()
        since = partition.thinning.enter(records.from_offset, regime.written)
        rates = self._throttle.rates
        is_other, is_load = partition.regime is not regime, partition.sheds is not sheds
        is_budget = partition.judge_rates != rates
        if is_other or is_load or is_budget or (since is None and partition.selection is None):
            since = records.from_offset
        if since is not None:
            cause = "portfolio" if is_other else "load" if is_load else "budget" if is_budget else "thinning"
            partition.regime, partition.since = regime, since
            partition.sheds, partition.judge_rates = sheds, rates
            factors = {(*key, EVALUATED): factor for key, factor in rates.items()}
            partition.selection = thinned_selection(regime.portfolios, {**partition.thinning.factors, **factors}, sheds)
            if partition.selection.id != partition.recorded:
                partition.recorded = partition.selection.id
                recorded = _policy_rows(partition.selection, records, since, cause)
        assert partition.selection is not None
        return _Entered(partition, records, partition.selection, recorded)

    # --- on the writer thread

    def _write(self, scored: Sequence[ScoredPiece]) -> None:
        self._writer.write_slices(scored, datetime.now(UTC))
        if self._judges is not None and any(piece.scored.tables["judge_requests"].num_rows for piece in scored):
            self._judges.requests_stored()

    def close(self, wait: bool = True) -> None:
        """End the scoring thread.

        Args:
            wait: First wait for the slice that it is scoring.
        """
        self._scoring.shutdown(wait=wait, cancel_futures=True)


def _continued(records: RecordSlice, partition: _Partition, raw: RawSlice) -> RecordSlice:
    """Return a piece of a slice with the clocks and names of its partition."""
    now = None if raw.caught_up_at is None else int(raw.caught_up_at // BUCKET_SECONDS)
    clocks = SliceClocks(partition.clocks, now, is_end=now is not None)
    return replace(records, clocks=clocks, names=partition.names)


def _started(start: PartitionStart, from_offset: int, options: ThinningOptions, regime: Regime) -> _Partition:
    """Return the scoring state of a partition from what the store knows of it."""
    thinning = PartitionThinning(options, start.window, counts=dict(start.counts))
    if start.selection is None:
        return _Partition(from_offset, thinning, start.clocks, start.names, None, None, from_offset, "")
    rows = start.selection.rows
    factors = recorded_factors(regime.portfolios, rows)
    thinning = replace(thinning, factors={key: factor for key, factor in factors.items() if key[2] != EVALUATED})
    is_same = {row["portfolio_sha"] for row in rows} == {portfolio.sha for portfolio in regime.portfolios}
    return _Partition(
        from_offset, thinning, start.clocks, start.names, regime if is_same else None, None, from_offset,
        start.selection.policy, {key[:2]: factor for key, factor in factors.items() if key[2] == EVALUATED},
        recorded_shedding(regime.portfolios, rows),
    )  # fmt: skip


def _selection_id(entered: tuple[_Entered, deque[RecordSlice]]) -> str:
    return entered[0].selection.id


def _scored_pieces(regime: Regime, entered: Sequence[_Entered]) -> Iterator[ScoredPiece]:
    """Score pieces under one selection together."""
    started = time.perf_counter()
    found = score_together(regime.scorer, entered[0].selection, [one.records for one in entered], MOST_TICKS)
    seconds = (time.perf_counter() - started) / len(entered)
    for one, scored in zip(entered, found, strict=True):
        one.partition.advance(scored)
        letters = dead_letter_messages(one.records, scored)
        yield ScoredPiece(scored, {"score": seconds}, one.recorded, letters)


def _policy_rows(selection: Selection, records: RecordSlice, since: int, cause: str) -> list[PolicyRow]:
    where = {"lane": records.lane, "source_topic": records.topic, "source_partition": records.partition}
    return [{**row, **where, "from_offset": since, "cause": cause} for row in selection.rows()]
