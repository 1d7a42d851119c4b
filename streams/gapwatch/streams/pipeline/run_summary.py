"""`RunSummary`: counts of a run, a replay or a backfill, for its report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from gapwatch.scorers.errors import JobError
from gapwatch.scorers.printable import shown
from gapwatch.scorers.slices.slices import ScoredSlice

if TYPE_CHECKING:
    from gapwatch.streams.pipeline.judge_result import JudgeResult


@dataclass
class RunSummary:
    """Counts of one run; all are 0 if there was nothing new.

    Attributes:
        read: Records that were scored.
        dead_letters: Records that are not a valid trace.
        foreign: Records of a pipeline without a portfolio.
        duplicates: Records that an earlier run had stored; not part of any other count.
        spans: Spans of the records read.
        outcomes: Number of spans by metric and ledger state.
        rows: Gap rows stored.
        alerts: Alerts opened, including those resolved since; None if alerts were off.
        ledger_imbalance: Difference between the store's sums; 0 if the ledger balances.
        judged: Result of judging; None if no judge was asked.
        seconds: Wall time.
        wrong_clocks: Records with a wrong time by state of the ledger and host, as `WrongClock` names it.
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
    wrong_clocks: Counter[tuple[str, str]] = field(default_factory=Counter)

    def add_judged(self, judged: JudgeResult) -> None:
        """Move judged spans from pending to their state, including those of an earlier run."""
        self.judged = judged
        for metric, states in judged.outcomes.items():
            counted = self.outcomes.setdefault(metric, {})
            for state, n in states.items():
                counted[state] = counted.get(state, 0) + n
            waiting = counted.pop("pending", 0) - states.total()
            if waiting > 0:
                counted["pending"] = waiting

    def check_balanced(self, store: Path) -> None:
        """Check that every record and span is accounted for in the store.

        Args:
            store: The store, for the message.

        Raises:
            JobError: The ledger does not balance.
        """
        if self.ledger_imbalance:
            raise JobError(
                f"the ledger of {store} does not balance (difference {self.ledger_imbalance}); gapwatch ledger "
                f"--store {store} shows where. This is a defect of Gapwatch: keep the store and report it"
            )

    def check_any_trace(self, what: str, pipelines: Iterable[str], store: Path) -> None:
        """Check that at least one record was a trace of the portfolios; so is a run that found nothing new.

        Args:
            what: The source, for the message, such as `topic traces`.
            pipelines: Pipelines of the portfolios, for the message.
            store: The store, for the message.

        Raises:
            JobError: There were records, and not one was such a trace.
        """
        if self.has_any_trace:
            return
        parts = []
        if self.dead_letters:
            parts.append(f"{self.dead_letters:,} not a trace (gapwatch dead-letters --store {store} says why)")
        if self.foreign:
            names = ", ".join(f"{shown(name, 60)!r}" for name in sorted(pipelines))
            parts.append(f"{self.foreign:,} of another pipeline than the portfolio's, {names}")
        raise JobError(f"{what}: not one of the {self.records:,} records could be scored: {', '.join(parts)}")

    @property
    def has_any_trace(self) -> bool:
        """True unless there were new records and not one was scored, now or earlier."""
        return not self.records or self.read > 0 or self.duplicates > 0

    @property
    def records(self) -> int:
        """Number of new records."""
        return self.read + self.dead_letters + self.foreign

    def add(self, scored: ScoredSlice) -> None:
        """Add one stored slice."""
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
        for wrong in scored.wrong_clocks:
            self.wrong_clocks[wrong.state, wrong.host] += wrong.n
        self.spans += scored.spans
        self.rows += scored.tables["gaps"].num_rows

    def as_json(self) -> dict[str, object]:
        """Return the object that `--json` prints."""
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
