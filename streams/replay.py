"""Scores files of traces without a broker: the same function, the same rows as the stream."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from scorers.errors import JobError, UsageError
from scorers.plan import compile_plan
from scorers.policy import Policy, fixed_policy
from scorers.portfolio import Portfolio
from scorers.score import Scorer, score
from scorers.scorer_host import ScorerHost
from scorers.slices import RecordSlice, ScoredSlice
from sinks.ledger import imbalance
from sinks.store import Store
from streams.alerting.shift_watch import ShiftWatch
from streams.file_source import FileSource

if TYPE_CHECKING:
    from streams.judge_result import JudgeResult


@dataclass
class ReplayResult:
    """What one run did; a run that finds nothing new has zeros.

    Attributes:
        read, dead_letters, foreign: Records by what became of them.
        duplicates: Records that an earlier run had kept; in no sum.
        spans: Spans of the records read.
        outcomes: Metric to ledger state to number of spans.
        rows: Gap rows stored.
        alerts: Alerts opened, those resolved since among them; None where nobody watched.
        ledger_imbalance: By how much the store's sums disagree; 0 is good.
        judged: What judging did; None where nobody was asked.
        seconds: Wall time.
    """

    read: int = 0
    dead_letters: int = 0
    foreign: int = 0
    duplicates: int = 0
    spans: int = 0
    outcomes: dict[str, dict[str, int]] = field(default_factory=dict)
    rows: int = 0
    alerts: int | None = None
    ledger_imbalance: int = 0
    seconds: float = 0.0
    judged: JudgeResult | None = None

    def add_judged(self, judged: JudgeResult) -> None:
        """Move what was judged from pending to what it became; also what waited from an earlier run."""
        self.judged = judged
        for metric, states in judged.outcomes.items():
            counted = self.outcomes.setdefault(metric, {})
            for state, n in states.items():
                counted[state] = counted.get(state, 0) + n
            waiting = counted.pop("pending", 0) - states.total()
            if waiting > 0:
                counted["pending"] = waiting

    def check_balanced(self, store: Path) -> None:
        """See that every record and span is in the sums of the store that all went into.

        Raises:
            JobError: It is not.
        """
        if self.ledger_imbalance:
            raise JobError(
                f"the ledger of {store} does not balance (by {self.ledger_imbalance}); gapwatch ledger --store {store} "
                "shows where. This is a defect of Gapwatch: keep the store and report it"
            )

    @property
    def records(self) -> int:
        """Records that were new."""
        return self.read + self.dead_letters + self.foreign

    def add(self, scored: ScoredSlice) -> None:
        """Add what one kept slice held."""
        ledger = scored.tables["ledger"].to_pylist()
        for entry in ledger:
            if entry["metric"] is not None:
                states = self.outcomes.setdefault(entry["metric"], {})
                states[entry["state"]] = states.get(entry["state"], 0) + entry["n"]
            elif entry["state"] == "read":
                self.read += entry["n"]
            elif entry["state"] == "dead_letter":
                self.dead_letters += entry["n"]
            elif entry["state"] == "foreign":
                self.foreign += entry["n"]
        self.spans += scored.spans
        self.rows += scored.tables["gaps"].num_rows

    def as_json(self) -> dict[str, object]:
        """Return the object that `gapwatch replay --json` ends with."""
        return {
            "records": self.records,
            "read": self.read,
            "dead_letters": self.dead_letters,
            "foreign": self.foreign,
            "duplicates": self.duplicates,
            "traces": self.read,
            "spans": self.spans,
            "outcomes": self.outcomes,
            "rows": self.rows,
            **({} if self.alerts is None else {"alerts": self.alerts}),
            "ledger_imbalance": self.ledger_imbalance,
            **({} if self.judged is None else {"judged": self.judged.as_json()}),
            "seconds": round(self.seconds, 3),
            "traces_per_second": round(self.read / self.seconds, 1) if self.seconds > 0 else 0.0,
        }


#: Called after every kept slice with the source it came from and the result so far.
OnProgress = Callable[[FileSource, ReplayResult], None]


def replay(
    files: Sequence[str],
    portfolios: Sequence[Portfolio],
    store_path: Path,
    *,
    source_name: str | None = None,
    scorers: ScorerHost | None = None,
    alerts: bool = False,
    on_progress: OnProgress | None = None,
    judge: Callable[[Store, Sequence[Portfolio]], JudgeResult] | None = None,
) -> ReplayResult:
    """Score the records of files that are not in the store yet, and keep what was found.

    Args:
        files: Paths of JSON lines, plain, .gz or .zst; `-` for standard input.
        portfolios: Each of another pipeline.
        store_path: The store; made where there is none.
        source_name: Name of the source; for one file only, required for standard input.
        scorers: Host of the `@scorer` functions.
        alerts: Watch the files for shifts, each as a lane of its own, as a stream would be watched.
        on_progress: Told after every slice.
        judge: Judges what waits in the store when the files are read; None: it stays pending.

    Raises:
        UsageError: Before anything is read: a file, the portfolios or the store are not what they should be.
        JobError: The store could not be written on.
    """
    _check_names(files, source_name)
    started = time.perf_counter()
    result = ReplayResult()
    policy = fixed_policy(portfolios)
    try:
        scorer = Scorer(compile_plan(portfolios), scorers)
    except ValueError as error:
        raise UsageError(str(error)) from error
    with contextlib.ExitStack() as opened:
        # All files are opened before the store is made: one that is missing must not leave an empty store behind.
        sources = [opened.enter_context(FileSource(path, source_name)) for path in files]
        store = opened.enter_context(Store.open(store_path, create=True))
        for portfolio in portfolios:
            store.register(portfolio, [row for row in policy.rows() if row["portfolio_sha"] == portfolio.sha])
        for source in sources:
            watch = ShiftWatch.open(store, portfolios, source.lane) if alerts else None
            _replay_source(source, scorer, policy, _Keeper(store, watch, result), on_progress)
            if watch is not None:
                watch.save(store)
            source.close()
        if judge is not None:
            result.add_judged(judge(store, portfolios))
        result.ledger_imbalance = imbalance(store.cursor())
    result.seconds = time.perf_counter() - started
    return result


def _check_names(files: Sequence[str], source_name: str | None) -> None:
    if source_name is not None and len(files) > 1:
        raise UsageError("--source names one file; replay the others by themselves")
    if "-" in files and source_name is None:
        raise UsageError("standard input has no name; give it one with --source")
    by_name: dict[str, str] = {}
    for path in files:
        first = by_name.setdefault(Path(path).name, path)
        if Path(first).resolve() != Path(path).resolve():
            raise UsageError(
                f"{first} and {path} are both source {Path(path).name!r}; "
                "replay them one by one, and give one another name with --source"
            )


class _Keeper:
    """Keeps scored slices, one after the other, and watches what they bring."""

    def __init__(self, store: Store, watch: ShiftWatch | None, result: ReplayResult) -> None:
        self.store = store
        self.result = result
        self._watch = watch

    def keep(self, data: bytes) -> ScoredSlice:
        scored, now = ScoredSlice.from_ipc(data), datetime.now(UTC)
        if self._watch is None:
            self.store.keep(scored, now)
            return scored
        taken = self._watch.take(scored, now)
        self.store.keep(taken.scored, now, also=taken.steps)
        self.result.alerts = (self.result.alerts or 0) + taken.opened
        return taken.scored


def _replay_source(
    source: FileSource, scorer: Scorer, policy: Policy, keeper: _Keeper, on_progress: OnProgress | None
) -> None:
    position = keeper.store.position(source.lane, source.name, 0)
    start, prefix = (position.to_offset, position.prefix_sha256) if position else (0, None)
    if position:
        keeper.result.duplicates += position.records

    # While one slice is committed, the next is read and scored; DuckDB lets go of the interpreter lock meanwhile.
    with ThreadPoolExecutor(1, "keeper") as thread:
        pending: Future[ScoredSlice] | None = None
        for scored in _scored(source.slices(start, prefix), scorer, policy):
            _finish(pending, source, keeper.result, on_progress)
            pending = thread.submit(keeper.keep, scored)
        _finish(pending, source, keeper.result, on_progress)


def _scored(slices: Iterator[RecordSlice], scorer: Scorer, policy: Policy) -> Iterator[bytes]:
    for records in slices:
        yield score(scorer, policy, records).to_ipc()


def _finish(
    pending: Future[ScoredSlice] | None, source: FileSource, result: ReplayResult, on_progress: OnProgress | None
) -> None:
    if pending is None:
        return
    result.add(pending.result())
    if on_progress is not None:
        on_progress(source, result)
