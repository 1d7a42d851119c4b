"""Counts what a run, a replay or a backfill has done, for its report."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from gapwatch.scorers.errors import JobError
from gapwatch.scorers.slices.slices import ScoredSlice

if TYPE_CHECKING:
    from gapwatch.streams.pipeline.judge_result import JudgeResult


@dataclass
class RunSummary:
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
