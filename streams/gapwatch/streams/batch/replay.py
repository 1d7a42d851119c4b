"""Scores files of traces without a broker, by the same function and with the same rows as a live run."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from gapwatch.scorers.errors import UsageError
from gapwatch.scorers.plan.plan import compile_plan
from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.scorers.scoring.score import Scorer, score
from gapwatch.scorers.scoring.scorer_host import ScorerHost
from gapwatch.scorers.slices.event_clock import EventClock, SliceClocks
from gapwatch.scorers.slices.selection import Selection, fixed_selection
from gapwatch.scorers.slices.slices import RecordSlice, ScoredSlice
from gapwatch.sinks.reading.lane_commits import event_clocks, facet_names
from gapwatch.sinks.store.ledger import imbalance
from gapwatch.sinks.store.store import Store
from gapwatch.streams.alerting.evaluation.shift_watch import ShiftWatch
from gapwatch.streams.batch.file_texts import store_file_texts
from gapwatch.streams.pipeline.run_summary import RunSummary
from gapwatch.streams.pipeline.slice_pieces import MOST_TICKS
from gapwatch.streams.sources.file_source import FileSource

if TYPE_CHECKING:
    from gapwatch.streams.pipeline.judge_result import JudgeResult

#: Called after every stored slice with its file and the counts so far.
OnProgress = Callable[[FileSource, RunSummary], None]


@dataclass(frozen=True)
class ReplayOptions:
    """Options of a replay.

    Attributes:
        source_name: Name of the source, for a single file; required for standard input.
        scorers: Host of the `@scorer` functions.
        alerts: Detect shifts and broken thresholds, in each file as a lane of its own.
        judge: Answers the pending judge requests when the files are read; None: they stay pending.
        on_progress: Called after every slice.
        lane: Lane of all records; None: `file:` and the name of each file.
    """

    source_name: str | None = None
    scorers: ScorerHost | None = None
    alerts: bool = False
    judge: Callable[[Store, Sequence[Portfolio]], JudgeResult] | None = None
    on_progress: OnProgress | None = None
    lane: str | None = None


def replay(
    files: Sequence[str], portfolios: Sequence[Portfolio], store_path: Path, options: ReplayOptions = ReplayOptions()
) -> RunSummary:
    """Score the records of files that are not in the store yet, and store the results.

    Args:
        files: Paths of JSON lines, plain, .gz or .zst; `-` for standard input.
        portfolios: Each of another pipeline.
        store_path: The store; created if it does not exist.
        options: Name of the source, scorers, alerts and judges.

    Raises:
        UsageError: A file, a portfolio or the store is invalid; raised before anything is read.
        JobError: The store cannot be written.
    """
    _check_names(files, options.source_name)
    started = time.perf_counter()
    result = RunSummary()
    policy = fixed_selection(portfolios)
    try:
        scorer = Scorer(compile_plan(portfolios), options.scorers)
    except ValueError as error:
        raise UsageError(str(error)) from error
    with contextlib.ExitStack() as opened:
        # All files are opened before the store is made: one that is missing must not leave an empty store behind.
        sources = [opened.enter_context(FileSource(path, options.source_name, options.lane)) for path in files]
        store = opened.enter_context(Store.open(store_path, create=True))
        for portfolio in portfolios:
            store.register(portfolio, [row for row in policy.rows() if row["portfolio_sha"] == portfolio.sha])
        for source in sources:
            watch = ShiftWatch.open(store, portfolios, source.lane) if options.alerts else None
            _replay_source(source, scorer, policy, _SourceWriter(store, watch, result), options.on_progress)
            if watch is not None:
                watch.save(store)
                store_file_texts(store, source)
            source.close()
        if options.judge is not None:
            result.add_judged(options.judge(store, portfolios))
        result.ledger_imbalance = imbalance(store.cursor())
    result.seconds = time.perf_counter() - started
    return result


def _check_names(files: Sequence[str], source_name: str | None) -> None:
    if source_name is not None and len(files) > 1:
        raise UsageError("--source is for a single file; replay the other files separately")
    if "-" in files and source_name is None:
        raise UsageError("standard input has no name; give it one with --source")
    by_name: dict[str, str] = {}
    for path in files:
        first = by_name.setdefault(Path(path).name, path)
        if Path(first).resolve() != Path(path).resolve():
            raise UsageError(
                f"{first} and {path} have the same name {Path(path).name!r} in the store; "
                "replay them separately, and give one another name with --source"
            )


class _SourceWriter:
    """Writes scored slices one after the other, and runs the detectors on them."""

    def __init__(self, store: Store, watch: ShiftWatch | None, result: RunSummary) -> None:
        self.store = store
        self.result = result
        self._watch = watch

    def write(self, scored: ScoredSlice) -> ScoredSlice:
        now = datetime.now(UTC)
        if self._watch is None:
            self.store.write_slice(scored, now)
            return scored
        taken = self._watch.take(scored, now)
        self.store.write_slice(taken.scored, now, also=taken.steps)
        self.result.alerts = (self.result.alerts or 0) + taken.opened
        return taken.scored


def _replay_source(
    source: FileSource, scorer: Scorer, policy: Selection, writer: _SourceWriter, on_progress: OnProgress | None
) -> None:
    position = writer.store.position(source.lane, source.name, 0)
    start, prefix = (position.to_offset, position.prefix_sha256) if position else (0, None)
    if position:
        writer.result.duplicates += position.records

    # While one slice is committed, the next is read and scored; DuckDB releases the interpreter lock meanwhile.
    with ThreadPoolExecutor(1, "store") as thread:
        pending: Future[ScoredSlice] | None = None
        clocks: Mapping[str, EventClock] = event_clocks(writer.store, source.lane, source.name, 0)
        names = facet_names(writer.store, source.lane, source.name, 0)
        for records, is_end in _with_end(source.slices(start, prefix)):
            rest: RecordSlice | None = replace(records, clocks=SliceClocks(clocks, is_end=is_end), names=names)
            while rest is not None:
                scored = score(scorer, policy, rest, MOST_TICKS)
                clocks, names, rest = scored.clocks, scored.names, rest.rest(scored)
                _finish(pending, source, writer.result, on_progress)
                pending = thread.submit(writer.write, scored)
                # Only the future holds it, and the next slice replaces that: at most two scored slices in memory.
                del scored
        _finish(pending, source, writer.result, on_progress)


def _with_end(slices: Iterator[RecordSlice]) -> Iterator[tuple[RecordSlice, bool]]:
    """Yield each slice, and whether it is the last one."""
    following = next(slices, None)
    while following is not None:
        records, following = following, next(slices, None)
        yield records, following is None


def _finish(
    pending: Future[ScoredSlice] | None, source: FileSource, result: RunSummary, on_progress: OnProgress | None
) -> None:
    if pending is None:
        return
    result.add(pending.result())
    if on_progress is not None:
        on_progress(source, result)
