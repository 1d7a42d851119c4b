"""A metric under design: its keys in the portfolio and the data that the critic needs."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from gapwatch.design.patterns.library_uses import CodePlace

#: Families of requests and runs that fail, whatever in them does.
FAILED_RUNS = ("failed_requests", "failed_runs")
#: Families whose spans stand around whole requests and runs.
WHOLE_RUNS = (*FAILED_RUNS, "agent_steps", "agent_exits")
#: Families of cascade metrics, whose direction only a practitioner can give.
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
#: Family of the judge that reads what a search was asked and what it found.
OF_PASSAGES = "passages_bear_on_query"
#: A family of several routes or steps has the name of the function before it, and the number of the step after it.
_CASCADE = re.compile(rf"(^|_)({'|'.join(sorted(CASCADE_FAMILIES))})(_\d+)?$")


def without_number(family: str) -> str:
    """Return a family without the number that tells two of a component apart."""
    return re.sub(r"_\d+$", "", family)


@dataclass
class RubricDraft:
    """Rubric of a judge.

    Attributes:
        criterion: The question to the judge.
        steps: Reasoning steps, in order.
        inputs: Fields of a span that the judge reads.
        scale: Score from 5 to 1 by its description.
        pass_at: Lowest score that passes.
        output_schema: JSON schema of the judge's answer.
    """

    criterion: str
    steps: list[str]
    inputs: list[str]
    scale: dict[str, int]
    pass_at: int
    output_schema: dict[str, Any]


@dataclass
class MetricReview:
    """The critic's review of one metric.

    Attributes:
        metric: Name of the metric.
        component: Id of its component.
        status: pass, flag or reject.
        rules: Rules that object.
        reasoning: At most three objections.
        findings: None for a pass; else pipelineFit, validityConditions, dataAssumptions, concerns.
        suggested_fix: For the first rule; None for a pass.
        direction: claim, evidence (or None) and verdict (verified or unverified).
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
        name: Name in the portfolio.
        component: Id of the component.
        source: `catalog` (from a pattern or a kind of component), `judge`, `composite` or `cost`.
        family: The name without the component's id.
        purpose: What it measures, in words.
        concern: Concern of the portfolio, such as `latency`.
        claim: As in the portfolio.
        evidence: Lines of code, as text.
        symbols: Functions that show the evidence.
        places: Lines of code.
        pattern: Code pattern that it covers, or "".
        tier: Tier that it measures, or "".
        spans: Names of the spans that it reads.
        fields: Fields that those spans must carry.
        when: As in the portfolio.
        valid_when: Condition under which its value is meaningful, in words.
        per_trace: How the units of one trace are combined.
        better: lower, higher or unknown.
        of: Statistic that the direction is about.
        direction_verdict: verified or unverified.
        direction_evidence: Line or fact that verifies the direction.
        fact: Id of the fact that verifies the direction, or None.
        threshold: As in the portfolio.
        threshold_source: fact, code or none.
        severity: page, ticket or note; "" for no alert.
        action: First step of whoever handles the alert.
        targets: Places where it is used, such as `dashboard`.
        is_of_cache: Of a route: whether its first arm is a cache.
        told_at: Line of an answer that stands for a failure; whoever counts those counts what this metric counts.
        monitors: Metrics that monitor it between judgements.
        questions: Ids of the questions that affect it.
        rubric: Of a judge.
        parts: Weights of a composite by metric.
        cost_bundle: Cost scorer, quality scorer and formula of a cost metric.
        is_exported: False for a judge without a model.
        goal_words: Concerns of the goal that it serves.
        limit_place: Line from which the limit of its claim is taken; None where the claim has none of the code's.
        direction_place: Line that says which side is bad; None where the claim says it, or nothing does.
        prompts: Of a judge: the texts that the model is sent.
        evidence_from: Of a judge: lines that fetch what the answer must rest on.
        demand: Of a judge: how much its prompt asks for, 0 to 2.5.
        is_of_trace: Whether it is about the whole trace; a judge then reads all of it.
        doubt: Why it comes in by name alone; empty where it may be selected.
        tools: Of a judge of a trace: other components whose spans hold what it needs.
        answered: Names of its spans that the program emits already, with all that it needs.
        unanswered: Names of its other spans, with the reason.
        is_of_model: Of a parse: whether a model wrote the text; of a fallback: whether an arm of its step asks a model;
            of failures that are handled: whether their function reaches one.
        members: Components that share it; empty where it is about its own component alone.
        group: Id of the component that stands for the members, or "".
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
    is_of_cache: bool = False
    told_at: CodePlace | None = None
    monitors: list[str] = field(default_factory=list)
    questions: list[str] = field(default_factory=list)
    rubric: RubricDraft | None = None
    parts: dict[str, float] = field(default_factory=dict)
    cost_bundle: dict[str, Any] | None = None
    is_exported: bool = True
    goal_words: list[str] = field(default_factory=list)
    limit_place: CodePlace | None = None
    direction_place: CodePlace | None = None
    prompts: list[CodePlace] = field(default_factory=list)
    evidence_from: list[CodePlace] = field(default_factory=list)
    demand: float = 0.0
    is_of_trace: bool = False
    doubt: str = ""
    tools: list[str] = field(default_factory=list)
    answered: list[str] = field(default_factory=list)
    unanswered: dict[str, str] = field(default_factory=dict)
    is_of_model: bool = True
    members: list[str] = field(default_factory=list)
    group: str = ""

    @property
    def owners(self) -> list[str]:
        """Components whose spans it reads."""
        return [*(self.members or [self.component]), *self.tools]

    @property
    def is_answered(self) -> str:
        """`yes`, `partly` or `no`: whether the spans that the program emits already answer it."""
        if not self.answered:
            return "no"
        return "partly" if self.unanswered else "yes"

    @property
    def says_by_itself(self) -> bool:
        """True if the words of its claim say which traces fail: a check, labels that are bad, a limit or a mark."""
        form = self.claim["form"]
        if self.is_cascade or self.claim.get("field") == "tier":
            return False
        return form in ("check", "judge") or bool(self.claim.get("limit") or self.claim.get("bad"))

    @property
    def is_cascade(self) -> bool:
        """True if only a practitioner can say which direction is better."""
        return _CASCADE.search(self.family) is not None

    @property
    def reads_search(self) -> bool:
        """True for the judge that reads a search, and no reply of a model."""
        return self.family == OF_PASSAGES

    @property
    def is_designed(self) -> bool:
        """True if it counts for the five-metric rule; metrics of the catalogue do not."""
        return self.source in ("judge", "composite")
