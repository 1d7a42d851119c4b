"""What judging of requests did, as reports and `--json` tell it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from gapwatch.scorers.judges.judgement import Judgement
from gapwatch.sinks.verdicts.closing import Closed


@dataclass
class JudgeResult:
    """What judging did.

    Attributes:
        closed: Requests that ended.
        dropped: Judgements of requests that had ended before.
        left: Requests that still wait.
        outcomes: Metric to state to number of spans.
        errors: Number of judgements without a verdict, by the first word of the reason.
        suspicions: Texts that seem to speak to their judge, by pipeline and kind.
        usd: What was paid.
        calls: Calls that were paid for.
        cached: Requests answered from memory.
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
        """Add what one batch did."""
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
        """Return it as commands print it."""
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
