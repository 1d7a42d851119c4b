"""Scores the retained records of a topic again, in a lane of their own, under the selections of the live run.

The same function over the same records under the same selections gives the same rows and ticks. Results go to the store
of the live run once it has ended, or, beside it, to a store of their own. A backfill raises no alerts and sends nothing
to Kafka.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from gapwatch.publisher.kafka_settings import KafkaSettings
from gapwatch.scorers.errors import StoreHeldError, UsageError
from gapwatch.scorers.loading.load import parse_stored_portfolio
from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.scorers.scoring.score import score
from gapwatch.scorers.scoring.scorer_host import ScorerHost
from gapwatch.scorers.slices.facet_names import FacetNames
from gapwatch.scorers.slices.selection import Selection, recorded_factors, recorded_shedding, thinned_selection
from gapwatch.scorers.slices.slices import RecordSlice
from gapwatch.sinks.commands.options import reading
from gapwatch.sinks.reading.lane_commits import facet_names
from gapwatch.sinks.reading.stored_portfolios import portfolio_text
from gapwatch.sinks.store.ledger import imbalance
from gapwatch.sinks.store.positions import scored_until
from gapwatch.sinks.store.recorded_selections import SelectionStep, selection_steps
from gapwatch.sinks.store.store import Store
from gapwatch.sinks.store.store_reader import StoreReader
from gapwatch.streams.pipeline.pipeline import LIVE
from gapwatch.streams.pipeline.regime import Regime, make_regime
from gapwatch.streams.pipeline.run_summary import RunSummary
from gapwatch.streams.pipeline.slice_pieces import MOST_TICKS, pieces
from gapwatch.streams.sources.raw_slice import RawSlice
from gapwatch.streams.sources.topic_check import wait_for_topic
from gapwatch.streams.sources.topic_range import OffsetRange, TopicRange

log = logging.getLogger("gapwatch.backfill")


@dataclass(frozen=True)
class BackfillOptions:
    """Range and lane of a backfill.

    Attributes:
        topic: Kafka topic.
        from_time: First time in seconds since the epoch, by the records' timestamps.
        to_time: End time in seconds since the epoch, exclusive.
        name: Name of the lane, `backfill:<name>`; the same name continues an interrupted backfill.
    """

    topic: str
    from_time: float
    to_time: float
    name: str

    @property
    def lane(self) -> str:
        """Lane of the results."""
        return f"backfill:{self.name}"


class Backfill:
    """One backfill into the store of the live run.

    Args:
        options: Range and lane.
        kafka: The cluster.
        store: Store of the live run. Without `into`, no other process may have it open.
        into: Store of the results, made if there is none; the live run's is only read, also while the run writes it.
            None: the store of the live run.
        portfolios: Portfolios to score by instead of the recorded ones, without thinning; empty: as recorded.
        scorers: Host of the Python scorers.
        on_progress: Called after each stored piece.

    Attributes:
        result: Counts so far.
    """

    def __init__(
        self,
        options: BackfillOptions,
        kafka: KafkaSettings,
        store: Path,
        portfolios: Sequence[Portfolio] = (),
        scorers: ScorerHost | None = None,
        on_progress: Callable[[RunSummary], None] = lambda result: None,
        into: Path | None = None,
    ) -> None:
        self._options, self._kafka, self._live, self._path = options, kafka, store, into or store
        self._portfolios, self._scorers, self._on_progress = tuple(portfolios), scorers, on_progress
        self._recorded: dict[str, Portfolio] = {}
        self._regimes: dict[tuple[str, ...], Regime] = {}
        self._names: dict[int, FacetNames] = {}
        self._selections: dict[tuple[str, tuple[str, ...]], Selection] = {}
        self.result = RunSummary()

    def run(self) -> RunSummary:
        """Score the records that are not in the lane yet.

        Raises:
            UsageError: The topic or the store does not exist, or the live run has not scored a part of the range.
            JobError: The store cannot be written, or Kafka stops delivering records.
        """
        is_apart = self._path != self._live
        with self._open(create=is_apart) as store:
            with reading(self._live) if is_apart else contextlib.closing(store.cursor()) as recorded:
                asyncio.run(self._run(store, recorded))
            self.result.ledger_imbalance = imbalance(store.cursor())
        return self.result

    def _open(self, *, create: bool) -> Store:
        try:
            return Store.open(self._path, create=create)
        except StoreHeldError as error:
            raise UsageError(f"{error}; or give --into a store for the results, which works beside a run") from error

    async def _run(self, store: Store, recorded: StoreReader) -> None:
        options = self._options
        partitions = await wait_for_topic(self._kafka, options.topic)
        async with TopicRange(self._kafka, options.topic) as topic:
            ranges = await topic.between(options.from_time, options.to_time, partitions)
            wanted = {number: self._wanted(store, number, found) for number, found in ranges.items()}
            steps = {number: self._steps(recorded, number, *wanted[number]) for number in wanted}
            self._load(store, recorded, steps)
            for portfolio in self._portfolios:
                store.register(portfolio, [])
            async for raw in topic.slices(wanted):
                await asyncio.to_thread(self._score, store, raw, steps[raw.partition])

    def _wanted(self, store: Store, number: int, found: OffsetRange) -> tuple[int, int]:
        position = store.position(self._options.lane, self._options.topic, number)
        begin = position.to_offset if position is not None else found.begin
        if begin < found.first:
            log.warning(
                "partition %d: the topic's retention has deleted offsets %d to %d; they are not scored",
                number, begin, found.first,
            )  # fmt: skip
        return begin, max(begin, found.end)

    def _steps(self, recorded: StoreReader, number: int, begin: int, end: int) -> list[SelectionStep]:
        """Return the selections over a range; the first one is in force at its beginning."""
        if self._portfolios:
            fixed = thinned_selection(self._portfolios, {})
            return [SelectionStep(0, fixed.id, tuple(fixed.rows()))]
        where = (LIVE, self._options.topic, number)
        steps = selection_steps(recorded, *where)
        known_to = scored_until(recorded, *where)
        first = steps[0].from_offset if steps else 0
        if begin < end and (not steps or begin < first or end > known_to):
            raise UsageError(
                f"topic {self._options.topic!r}, partition {number}: the range has offsets {begin} to {end}, but the "
                f"live run has scored only {first} to {known_to}; choose other times, or give a --portfolio to score by"
            )
        return steps

    def _load(self, store: Store, recorded: StoreReader, steps: Mapping[int, Sequence[SelectionStep]]) -> None:
        """Read the recorded portfolios of the steps, and record both in a store that does not have them."""
        if self._portfolios:
            return
        for number, its in steps.items():
            for step in its:
                for sha in step.portfolio_shas:
                    if sha not in self._recorded:
                        self._recorded[sha] = self._recorded_portfolio(recorded, sha)
                    place = {
                        "lane": self._options.lane, "source_topic": self._options.topic, "source_partition": number,
                        "from_offset": step.from_offset,
                    }  # fmt: skip
                    rows = [{**row, **place} for row in step.rows if row["portfolio_sha"] == sha]
                    if self._path != self._live:
                        store.register(self._recorded[sha], rows)

    def _recorded_portfolio(self, recorded: StoreReader, sha: str) -> Portfolio:
        text = portfolio_text(recorded, sha)
        if text is None:
            raise UsageError(
                f"the store {self._live} does not have the portfolio {sha[:12]} that the live run scored by; give the "
                "portfolio with --portfolio"
            )
        return parse_stored_portfolio(text, f"<portfolio {sha[:12]} of the store>")

    def _score(self, store: Store, raw: RawSlice, steps: Sequence[SelectionStep]) -> None:
        for records in pieces(raw, self._options.lane, [step.from_offset for step in steps]):
            step = next(step for step in reversed(steps) if step.from_offset <= records.from_offset)
            regime = self._regime(step)
            names = self._names.get(raw.partition)
            if names is None:
                names = facet_names(store, self._options.lane, raw.topic, raw.partition)
            rest: RecordSlice | None = replace(records, names=names)
            while rest is not None:
                scored = score(regime.scorer, self._selection(regime, step), rest, MOST_TICKS)
                rest, self._names[raw.partition] = rest.rest(scored), scored.names
                store.write_slice(scored, datetime.now(UTC))
                self.result.add(scored)
                self._on_progress(self.result)

    def _regime(self, step: SelectionStep) -> Regime:
        shas = step.portfolio_shas
        if shas not in self._regimes:
            portfolios = self._portfolios or tuple(self._recorded[sha] for sha in shas)
            self._regimes[shas] = make_regime(portfolios, self._scorers)
        return self._regimes[shas]

    def _selection(self, regime: Regime, step: SelectionStep) -> Selection:
        key = (step.policy, step.portfolio_shas)
        if key not in self._selections:
            factors = recorded_factors(regime.portfolios, step.rows)
            # The recorded id, because it is a column of the rows.
            selection = thinned_selection(regime.portfolios, factors, recorded_shedding(regime.portfolios, step.rows))
            self._selections[key] = replace(selection, id=step.policy)
        return self._selections[key]
