"""What a portfolio says of alerts on one metric: which way is bad, how loud, and which bound it shall keep."""

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
from gapwatch.scorers.portfolio.direction import Threshold
from gapwatch.scorers.portfolio.metric import Metric
from gapwatch.scorers.portfolio.polarity import is_cascade
from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.sinks.store.registration import metric_direction
from gapwatch.streams.detectors.contexts import TICK_SECONDS

#: Traces a month where a portfolio declares no volume; a fleet of another size has other delays, by a logarithm.
DEFAULT_UNITS_PER_MONTH = 1_000_000.0
DEFAULT_PAGES_PER_MONTH = 1.0
DEFAULT_TICKETS_PER_MONTH = 10.0
#: Units below which a bound is not asked for, where the portfolio names none.
DEFAULT_MIN_UNITS = 30
#: Unit of the numbers of judges, composites and Python scorers.
SCORE = "points"
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


@dataclass(frozen=True)
class RateBound:
    """The bound that the failure rate of a metric shall keep.

    Attributes:
        operator: How the rate stands to `value` when all is well: <, <=, > or >=.
        value: The bound.
        window_ticks: Over how many ticks.
        min_units: Units in the window below which nothing is said.
    """

    operator: str
    value: float
    window_ticks: int
    min_units: int

    @property
    def is_ceiling(self) -> bool:
        """Whether the rate shall stay below."""
        return self.operator in ("<", "<=")


@dataclass(frozen=True)
class AlertRule:
    """What is known of a metric that may alert.

    Attributes:
        pipeline: Whose metric it is.
        metric: Its name.
        component: Id of the component; None for the trace.
        severity: page, ticket or note: the loudest that it may be.
        bad_side: 1 where a rising failure rate is bad, -1 where a falling one is, 0 where nobody confirmed either.
        is_cascade: It is of the cascade family, whose direction only a person can tell.
        question: Id of the open question that would settle the direction; None where there is none.
        min_ratio: Growth that a page needs at least, by the bound of its interval; None for the detectors' default.
        min_bad_per_hour: Bad units an hour beyond the expected that a page needs; None for the detectors' default.
        blind_above_ratio: The series counts as blind where only larger changes would have been seen; None: never.
        limit: The threshold; None where there is none on the failure rate.
        time_zone: IANA name, for the hours of the week.
        units_per_month: Declared volume: traces in 30 days.
        numbers: Its numbers are watched, not only whether they fail: it is a measure, or its verdicts have scores.
        number_side: 1 where larger numbers are bad, -1 where smaller ones are, 0 where nobody confirmed either.
        number_pages: The direction of the numbers themselves is confirmed, not only that of the failure rate.
        number_unit: Of the numbers, for people.
        labels: Its labels are watched, by `unit` or by `span`; None where failing and passing is all they say.
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
    limit: RateBound | None
    time_zone: str
    units_per_month: float
    numbers: bool = False
    number_side: int = 0
    number_pages: bool = False
    number_unit: str = ""
    labels: str | None = None

    @property
    def may_page(self) -> bool:
        """Whether a shift of its rate may page: asked for, and its direction confirmed."""
        return self.severity == "page" and self.bad_side != 0

    @property
    def kinds(self) -> tuple[str, ...]:
        """What of it is watched: failures of traces, of sessions, the undecided, and what its claim has besides."""
        also = (*(["numbers"] if self.numbers else []), *(["labels"] if self.labels else []))
        return ("rate", "sessions", "unknown", *also)

    def pages_on(self, kind: str) -> bool:
        """Whether a shift of what is watched may page."""
        if kind == "numbers":
            return self.severity == "page" and self.number_pages and self.number_side != 0
        return self.may_page and kind in ("rate", "sessions")

    def side_of(self, kind: str) -> int:
        """Return which way is bad for what is watched: 1 up, -1 down, 0 where nobody confirmed either.

        That fewer units can be told is bad whatever the metric. Labels have no way: which of them fail is in the rate.
        """
        return {"unknown": 1, "numbers": self.number_side, "labels": 0}.get(kind, self.bad_side)

    def is_turned(self, before: AlertRule | None) -> bool:
        """Say whether another way is bad than by the rule of before; no where there was none."""
        sides = (self.bad_side, self.number_side)
        return before is not None and (before.bad_side, before.number_side) != sides

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> AlertRule:
        """Return what `as_json` gave."""
        limit = value["limit"]
        return cls(**{**value, "limit": None if limit is None else RateBound(**limit)})


@dataclass(frozen=True)
class AlarmBudget:
    """False alarms that a team can bear in 30 days, over all series of a pipeline.

    Attributes:
        pages: Of pages; 0 for no pages by detectors.
        tickets: Of tickets and notes.
    """

    pages: float
    tickets: float


def budget_of(portfolio: Portfolio) -> AlarmBudget:
    """Return the budget of a portfolio; where it names none, one page and ten tickets a month."""
    pages, tickets = portfolio.budget.pages_per_month, portfolio.budget.tickets_per_month
    return AlarmBudget(
        DEFAULT_PAGES_PER_MONTH if pages is None else pages,
        DEFAULT_TICKETS_PER_MONTH if tickets is None else tickets,
    )


def rules_of(portfolios: Sequence[Portfolio]) -> list[AlertRule]:
    """Return a rule for each metric with an `alert`, in the order of the portfolios."""
    return [_rule(portfolio, metric) for portfolio in portfolios for metric in portfolio.metrics if _is_watched(metric)]


def _is_watched(metric: Metric) -> bool:
    return metric.alert is not None and not isinstance(metric.claim, RatioClaim)


def _rule(portfolio: Portfolio, metric: Metric) -> AlertRule:
    assert metric.alert is not None  # `_is_watched`
    a_day = portfolio.volume.traces_per_day
    return AlertRule(
        pipeline=portfolio.pipeline,
        metric=metric.name,
        component=metric.component,
        severity=metric.alert.severity,
        bad_side=_bad_side(portfolio, metric),
        is_cascade=is_cascade(metric),
        question=next((q.id for q in portfolio.questions if metric.name in q.decides), None),
        min_ratio=metric.alert.min_ratio,
        min_bad_per_hour=metric.alert.min_bad_per_hour,
        blind_above_ratio=metric.alert.blind_above_ratio,
        limit=_limit(metric.threshold),
        **_values(portfolio, metric),
        time_zone=portfolio.time_zone,
        units_per_month=DEFAULT_UNITS_PER_MONTH if a_day is None else 30.0 * a_day,
    )


def _bad_side(portfolio: Portfolio, metric: Metric) -> int:
    """Return which way of the failure rate is bad; 0 unless a fact or a cited line verifies it."""
    direction = metric_direction(portfolio, metric)
    if direction is None or direction["verdict"] != "verified" or direction["of"] != "failure_rate":
        return 0
    return {"lower": 1, "higher": -1}.get(direction["better"], 0)


def _values(portfolio: Portfolio, metric: Metric) -> dict[str, Any]:
    """Return what is watched of a claim besides its failures."""
    claim = metric.claim
    if isinstance(claim, MeasureClaim | JudgedClaim | CompositeClaim | PythonClaim):
        side, pages = _number_side(portfolio, metric, _failing_end(claim))
        unit = claim.unit if isinstance(claim, MeasureClaim) else SCORE
        return {"numbers": True, "number_side": side, "number_pages": pages, "number_unit": unit}
    if isinstance(claim, LabelClaim):
        # With one good and one bad label their shares are the failure rate.
        passing = None if claim.labels is None else len(claim.labels) - len(claim.bad)
        if passing is None or passing > 1 or len(claim.bad) > 1:
            return {"labels": "unit" if metric.per_trace == "worst" else "span"}
    return {}


def _failing_end(claim: MeasureClaim | JudgedClaim | CompositeClaim | PythonClaim) -> int:
    """Return at which end numbers fail: 1 for large ones, -1 for small ones, 0 where nobody knows."""
    if isinstance(claim, MeasureClaim):
        return 0 if claim.limit is None else 1 if claim.limit.max is not None else -1
    if isinstance(claim, JudgedClaim):
        return -1  # of every scale the highest is the best
    return -1 if isinstance(claim, CompositeClaim) and claim.pass_at is not None else 0


def _number_side(portfolio: Portfolio, metric: Metric, failing_end: int) -> tuple[int, bool]:
    """Return which way of the numbers is bad, and whether that may page.

    A direction of the numbers (`of: mean` and the like) says it. One of the failure rate says it through the end at
    which numbers fail: towards it is bad. But short of the limit nothing is broken, so it is a ticket at most.
    """
    direction = metric_direction(portfolio, metric)
    if direction is None or direction["verdict"] != "verified" or direction["better"] not in ("lower", "higher"):
        return 0, False
    side = 1 if direction["better"] == "lower" else -1
    return (side, True) if direction["of"] != "failure_rate" else (side * failing_end, False)


def _limit(threshold: Threshold | None) -> RateBound | None:
    if threshold is None or threshold.of != "failure_rate":
        return None
    seconds = int(threshold.window[:-1]) * _SECONDS[threshold.window[-1]]
    ticks = max(-(-seconds // TICK_SECONDS), 1)
    return RateBound(threshold.operator, threshold.value, ticks, threshold.min_units or DEFAULT_MIN_UNITS)
