"""One metric while it is designed: what it will be in the portfolio, and everything that its critic must know."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from gapwatch.design.patterns.library_uses import CodePlace

#: Words of the cascade family (architecture, section 4), for names and for intents.
CASCADE_FAMILIES = frozenset(
    [
        "tier_hit_rate",
        "fallback_rate",
        "fallback_depth",
        "cache_hit_rate",
        "retry_count",
        "retry_success_rate",
        "refusal_rate",
        "escalation_rate",
        "rag_hit_rate",
        "breaker_open_rate",
    ]
)


@dataclass
class RubricDraft:
    """What a judge is asked.

    Attributes:
        inputs: Fields of a span.
        scale: Bands from 5 to 1, with their words.
    """

    criterion: str
    steps: list[str]
    inputs: list[str]
    scale: dict[str, int]
    pass_at: int
    output_schema: dict[str, Any]


@dataclass
class MetricReview:
    """What the critic says of a metric.

    Attributes:
        status: pass, flag or reject.
        findings: None for a pass; else pipelineFit, validityConditions, dataAssumptions, concerns.
        direction: claim, evidence or None, verdict verified or unverified.
    """

    metric: str
    component: str
    status: str
    rules: list[str]
    reasoning: str
    findings: dict[str, Any] | None
    suggested_fix: str | None
    direction: dict[str, Any]


@dataclass
class MetricDesign:
    """A metric with its evidence.

    Attributes:
        source: `catalog` (from a pattern or a kind), `judge`, `composite` or `cost`.
        family: What it measures, without the component's name.
        pattern: The code pattern that it covers, or "".
        tier: The tier that it targets, or "".
        spans: Names of the spans that it reads.
        fields: What those spans must carry.
        claim, when, threshold: As in the portfolio.
        threshold_source: fact, code or none.
        severity: page, ticket or note; "" for no alert.
        is_exported: False for what waits for a practitioner (a judge without a model).
    """

    name: str
    component: str
    source: str
    family: str
    purpose: str
    concern: str
    claim: dict[str, Any]
    evidence: list[str]
    symbols: list[str]
    places: list[CodePlace]
    pattern: str = ""
    tier: str = ""
    spans: list[str] = field(default_factory=list)
    fields: list[str] = field(default_factory=list)
    when: dict[str, Any] | None = None
    valid_when: str = ""
    per_trace: str = "any"
    better: str = "lower"
    of: str = "failure_rate"
    direction_verdict: str = "verified"
    direction_evidence: str = ""
    fact: str | None = None
    threshold: dict[str, Any] | None = None
    threshold_source: str = "none"
    severity: str = ""
    action: str = ""
    targets: list[str] = field(default_factory=list)
    monitors: list[str] = field(default_factory=list)
    questions: list[str] = field(default_factory=list)
    rubric: RubricDraft | None = None
    parts: dict[str, float] = field(default_factory=dict)
    cost_bundle: dict[str, Any] | None = None
    is_exported: bool = True
    goal_words: list[str] = field(default_factory=list)

    @property
    def is_cascade(self) -> bool:
        """Whether only a practitioner can tell which way is better."""
        return self.family in CASCADE_FAMILIES

    @property
    def is_designed(self) -> bool:
        """Whether it counts for the five-metric rule: the catalog's own do not."""
        return self.source in ("judge", "composite")
