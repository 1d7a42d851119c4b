"""Alert rules: bad direction, severity, bound and monitored quantities of each metric, read from a portfolio."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from gapwatch.scorers.portfolio.claim import (
    CompositeClaim,
    JudgedClaim,
    LabelClaim,
    MeasureClaim,
    PythonClaim,
    RatioClaim,
)
from gapwatch.scorers.portfolio.metric import Metric
from gapwatch.scorers.portfolio.polarity import is_about_ways
from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.sinks.store.registration import metric_direction
from gapwatch.streams.alerting.rules.bound import Bound, bound_of
from gapwatch.streams.detectors.margins.min_change import FACTOR, SHARE

DEFAULT_PAGES_PER_MONTH = 1.0
DEFAULT_TICKETS_PER_MONTH = 10.0
#: Unit of the numbers of judges, composites and Python scorers.
SCORE = "points"


@dataclass(frozen=True)
class AlertRule:
    """Alert rule of one metric.

    Attributes:
        pipeline: Pipeline of the metric.
        metric: Name of the metric.
        component: Id of the component; None for the trace.
        severity: Highest severity that an alert may have: page, ticket or note.
        bad_side: 1 where a rising failure rate is bad, -1 where a falling one is, 0 where nobody confirmed either.
        is_cascade: The metric says which way a step went, such as a tier, a fallback or a retry.
        question: Id of the open question whose answer gives the direction; None without one.
        min_ratio: Smallest growth that pages, by the lower bound of its interval; None for the detectors' default.
        min_bad_per_hour: Bad units an hour above the expected ones that a page needs; None for the default.
        blind_above_ratio: A series is blind where its minimum detectable change is above this ratio; None: never.
        limit: Bound on a quantity of the metric; None without one.
        min_factor: Smallest factor of a share that is told; see `MinChange`.
        min_share: Smallest difference of a share that is told.
        is_ratio: The metric is a ratio: only its bound is checked.
        time_zone: IANA name, for the hours of the week.
        units_per_month: Declared volume in traces in 30 days; None where the observed one counts.
        numbers: The numbers are monitored besides the failures: of a measure, or the scores of verdicts.
        number_side: 1 where larger numbers are bad, -1 where smaller ones are, 0 where nobody confirmed either.
        number_pages: The confirmed direction is that of the numbers, not only that of the failure rate.
        number_unit: Unit of the numbers, for people.
        labels: The labels are monitored, by `unit` or by `span`; None where the failure rate says all of them.
    """

    pipeline: str
    metric: str
    component: str | None
    severity: str
    bad_side: int
    is_cascade: bool
    question: str | None
    min_ratio: float | None
    min_bad_per_hour: float | None
    blind_above_ratio: float | None
    limit: Bound | None
    time_zone: str
    units_per_month: float | None
    numbers: bool = False
    number_side: int = 0
    number_pages: bool = False
    number_unit: str = ""
    labels: str | None = None
    is_ratio: bool = False
    min_factor: float = FACTOR
    min_share: float = SHARE

    @property
    def may_page(self) -> bool:
        """True where a shift of the rate may page: the portfolio asks for pages, and the direction is confirmed."""
        return self.severity == "page" and self.bad_side != 0

    @property
    def kinds(self) -> tuple[str, ...]:
        """Monitored quantities: failing traces and sessions, undecided traces, and numbers or labels of the claim."""
        if self.is_ratio:
            return ()
        also = (*(["numbers"] if self.numbers else []), *(["labels"] if self.labels else []))
        return ("rate", "sessions", "unknown", *also)

    def pages_on(self, kind: str) -> bool:
        """Return True where a shift of this quantity may page."""
        if kind == "numbers":
            return self.severity == "page" and self.number_pages and self.number_side != 0
        return self.may_page and kind in ("rate", "sessions")

    def side_of(self, kind: str) -> int:
        """Return the bad direction of a monitored quantity: 1 up, -1 down, 0 where nobody confirmed either.

        More undecided units are bad for every metric. Labels have no direction: those that fail count in the failure
        rate.
        """
        return {"unknown": 1, "numbers": self.number_side, "labels": 0}.get(kind, self.bad_side)

    def is_turned(self, before: AlertRule | None) -> bool:
        """Return True where the bad direction differs from that of an earlier rule; False without an earlier rule."""
        sides = (self.bad_side, self.number_side)
        return before is not None and (before.bad_side, before.number_side) != sides

    def as_json(self) -> dict[str, Any]:
        """Return the rule as JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> AlertRule:
        """Return the rule from `as_json`."""
        return cls(**{**value, "limit": Bound.from_json(value["limit"])})


@dataclass(frozen=True)
class AlarmBudget:
    """False-alarm budget of a pipeline: false alarms allowed in 30 days, over all its series.

    Attributes:
        pages: False pages allowed; with 0 the detectors page nobody.
        tickets: False tickets and notes allowed.
    """

    pages: float
    tickets: float


def budget_of(portfolio: Portfolio) -> AlarmBudget:
    """Return the budget of a portfolio; one page and ten tickets a month where the portfolio gives none."""
    pages, tickets = portfolio.budget.pages_per_month, portfolio.budget.tickets_per_month
    return AlarmBudget(
        DEFAULT_PAGES_PER_MONTH if pages is None else pages,
        DEFAULT_TICKETS_PER_MONTH if tickets is None else tickets,
    )


def rules_of(portfolios: Sequence[Portfolio]) -> list[AlertRule]:
    """Return a rule for each metric with an `alert`, in the order of the portfolios."""
    return [_rule(one, metric) for one in portfolios for metric in one.metrics if metric.alert is not None]


def _rule(portfolio: Portfolio, metric: Metric) -> AlertRule:
    assert metric.alert is not None  # `rules_of`
    a_day = portfolio.volume.traces_per_day
    return AlertRule(
        pipeline=portfolio.pipeline,
        metric=metric.name,
        component=metric.component,
        severity=metric.alert.severity,
        bad_side=_bad_side(portfolio, metric),
        is_cascade=is_about_ways(metric),
        question=next((q.id for q in portfolio.questions if metric.name in q.decides), None),
        min_ratio=metric.alert.min_ratio,
        min_bad_per_hour=metric.alert.min_bad_per_hour,
        blind_above_ratio=metric.alert.blind_above_ratio,
        min_factor=metric.alert.min_change.factor,
        min_share=metric.alert.min_change.share,
        limit=bound_of(portfolio, metric),
        is_ratio=isinstance(metric.claim, RatioClaim),
        **_values(portfolio, metric),
        time_zone=portfolio.time_zone,
        units_per_month=None if a_day is None else 30.0 * a_day,
    )


def _bad_side(portfolio: Portfolio, metric: Metric) -> int:
    """Return the bad direction of the failure rate; 0 unless a fact or a cited line verifies it."""
    direction = metric_direction(portfolio, metric)
    if direction is None or direction["verdict"] != "verified" or direction["of"] != "failure_rate":
        return 0
    return {"lower": 1, "higher": -1}.get(direction["better"], 0)


def _values(portfolio: Portfolio, metric: Metric) -> dict[str, Any]:
    """Return the fields of `AlertRule` about numbers and labels of a claim."""
    claim = metric.claim
    if isinstance(claim, MeasureClaim | JudgedClaim | CompositeClaim | PythonClaim):
        side, pages = _number_side(portfolio, metric, _failing_end(claim))
        unit = claim.unit if isinstance(claim, MeasureClaim) else SCORE
        return {"numbers": True, "number_side": side, "number_pages": pages, "number_unit": unit}
    if isinstance(claim, LabelClaim):
        # With one good and one bad label, the shares of the labels are the failure rate.
        passing = None if claim.labels is None else len(claim.labels) - len(claim.bad)
        if passing is None or passing > 1 or len(claim.bad) > 1:
            return {"labels": "unit" if metric.per_trace == "worst" else "span"}
    return {}


def _failing_end(claim: MeasureClaim | JudgedClaim | CompositeClaim | PythonClaim) -> int:
    """Return the end at which numbers fail: 1 for large ones, -1 for small ones, 0 where it is not known."""
    if isinstance(claim, MeasureClaim):
        return 0 if claim.limit is None else 1 if claim.limit.max is not None else -1
    if isinstance(claim, JudgedClaim):
        return -1  # the highest value of every scale is the best
    return -1 if isinstance(claim, CompositeClaim) and claim.pass_at is not None else 0


def _number_side(portfolio: Portfolio, metric: Metric, failing_end: int) -> tuple[int, bool]:
    """Return the bad direction of the numbers, and True where a shift of them may page.

    A direction of the numbers (such as `of: mean`) gives it. A direction of the failure rate gives it through the end
    at which numbers fail: a move towards that end is bad. Short of the limit nothing is broken, so such a shift is a
    ticket at most.
    """
    direction = metric_direction(portfolio, metric)
    if direction is None or direction["verdict"] != "verified" or direction["better"] not in ("lower", "higher"):
        return 0, False
    side = 1 if direction["better"] == "lower" else -1
    return (side, True) if direction["of"] != "failure_rate" else (side * failing_end, False)
