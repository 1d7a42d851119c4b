"""`JudgeResult`: counts of answered judge requests, for reports and `--json`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from gapwatch.scorers.judges.judgement import Judgement
from gapwatch.sinks.verdicts.closing import Closed


@dataclass
class JudgeResult:
    """Counts of one judging run.

    Attributes:
        closed: Requests that were answered.
        dropped: Judgements of requests that had been answered before.
        left: Requests that are still pending.
        outcomes: Number of spans by metric and state.
        errors: Number of judgements without a verdict, by the first word of the reason.
        suspicions: Number of texts that seem to address their judge, by pipeline and kind.
        usd: Cost in US dollars.
        calls: Calls that were paid for.
        cached: Requests answered from the cache.
    """

    closed: int = 0
    dropped: int = 0
    left: int = 0
    outcomes: dict[str, Counter[str]] = field(default_factory=dict)
    errors: Counter[str] = field(default_factory=Counter)
    suspicions: Counter[tuple[str, str]] = field(default_factory=Counter)
    usd: float = 0.0
    calls: int = 0
    cached: int = 0

    def add(self, closed: Closed, judgements: Sequence[Judgement]) -> None:
        """Add one batch.

        Args:
            closed: Result of storing the batch.
            judgements: The batch.
        """
        self.closed += closed.closed
        self.dropped += closed.dropped
        self.usd += closed.usd
        for metric, states in closed.outcomes.items():
            self.outcomes.setdefault(metric, Counter()).update(states)
        for judgement in judgements:
            self.calls += len(judgement.calls)
            if judgement.state == "error":
                self.errors[(judgement.reason or "").partition(":")[0]] += 1

    def as_json(self) -> dict[str, object]:
        """Return the object that commands print with `--json`."""
        return {
            "closed": self.closed,
            "dropped": self.dropped,
            "left": self.left,
            "outcomes": {metric: dict(states) for metric, states in sorted(self.outcomes.items())},
            "errors": dict(sorted(self.errors.items())),
            "suspicions": {f"{pipeline}: {kind}": n for (pipeline, kind), n in sorted(self.suspicions.items())},
            "usd": round(self.usd, 6),
            "calls": self.calls,
            "cached": self.cached,
        }
