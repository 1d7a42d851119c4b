"""Bound that a portfolio sets on a quantity of a metric, as the watch holds it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from gapwatch.scorers.portfolio.bounded_quantity import (
    SHARES,
    is_ceiling,
    number_range,
    quantile_level,
    window_seconds,
)
from gapwatch.scorers.portfolio.claim import LabelClaim, MeasureClaim, RatioClaim
from gapwatch.scorers.portfolio.metric import Metric
from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.streams.detectors.contexts import TICK_SECONDS

#: Units in the window below which a bound is not checked, where the portfolio gives no `min_units`.
DEFAULT_MIN_UNITS = 30
#: Unit of a share; the numbers of a metric have the unit of its claim.
SHARE = "share"


@dataclass(frozen=True)
class RatioParts:
    """Metrics whose sums a ratio divides.

    Attributes:
        version: Version of the ratio metric: its series has no ticks that carry one.
        numerator, denominator: Names of the metrics.
        sums_numbers: For each of the two, whether its numbers are summed; else its good traces are counted.
    """

    version: str
    numerator: str
    denominator: str
    sums_numbers: tuple[bool, bool]


@dataclass(frozen=True)
class Bound:
    """Bound on a quantity of a metric.

    Attributes:
        of: failure_rate, share, p95 (or another quantile), mean, sum or ratio.
        is_ceiling: The quantity must stay below `value`; else above it.
        operator: Comparison with `value` that must hold: <, <=, > or >=.
        value: The bound, in `unit`.
        window_ticks: Length of the window, in ticks of 30 seconds.
        min_units: Units in the window below which the bound is not checked.
        unit: Unit of the quantity; `share` for shares.
        level: Level of a quantile, in (0, 1); None for another quantity.
        label: Label whose share is bounded; None for another quantity.
        of_spans: The labels of spans are counted, scaled down to one a trace; else those of whole traces.
        least: Smallest number that the metric can have.
        most: Largest number that the metric can have; None where none is known.
        parts: Parts of a ratio; None for another quantity.
    """

    of: str
    is_ceiling: bool
    operator: str
    value: float
    window_ticks: int
    min_units: int
    unit: str
    level: float | None = None
    label: str | None = None
    of_spans: bool = False
    least: float = 0.0
    most: float | None = None
    parts: RatioParts | None = None

    @property
    def quantity(self) -> str:
        """The quantity, with its label: `p95`, `share of fallback`."""
        return f"{self.of} of {self.label}" if self.label is not None else self.of

    @property
    def window_seconds(self) -> int:
        """Length of the window."""
        return self.window_ticks * TICK_SECONDS

    def is_within(self, value: float) -> bool:
        """Return whether a value of the quantity is within the bound."""
        return value <= self.value if self.is_ceiling else value >= self.value

    def as_json(self) -> dict[str, Any]:
        """Return the bound as JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, Any] | None) -> Bound | None:
        """Return the bound from `as_json`; None for null."""
        if value is None:
            return None
        parts = value["parts"]
        if parts is not None:
            parts = RatioParts(**{**parts, "sums_numbers": tuple(parts["sums_numbers"])})
        return cls(**{**value, "parts": parts})


def bound_of(portfolio: Portfolio, metric: Metric) -> Bound | None:
    """Return the bound that a metric's threshold sets; None without a threshold."""
    threshold, claim = metric.threshold, metric.claim
    if threshold is None:
        return None
    ends = number_range(claim)
    return Bound(
        of=threshold.of,
        is_ceiling=is_ceiling(threshold),
        operator=threshold.operator,
        value=threshold.value,
        window_ticks=max(-(-window_seconds(threshold) // TICK_SECONDS), 1),
        min_units=threshold.min_units or DEFAULT_MIN_UNITS,
        unit=_unit(portfolio, metric),
        level=quantile_level(threshold.of),
        label=threshold.label,
        of_spans=isinstance(claim, LabelClaim) and metric.per_trace != "worst",
        least=ends.least,
        most=None if ends.most == float("inf") else ends.most,
        parts=_parts(portfolio, metric),
    )


def _unit(portfolio: Portfolio, metric: Metric) -> str:
    assert metric.threshold is not None
    if metric.threshold.of in SHARES:
        return SHARE
    if isinstance(metric.claim, RatioClaim):
        units = [_summed_unit(portfolio, name) for name in (metric.claim.numerator, metric.claim.denominator)]
        return SHARE if units == ["", ""] else f"{units[0] or 'traces'} per {units[1] or 'good trace'}"
    return _number_unit(metric)


def _summed_unit(portfolio: Portfolio, name: str) -> str:
    metric = _metric(portfolio, name)
    return metric.claim.unit if isinstance(metric.claim, MeasureClaim) else ""


def _number_unit(metric: Metric) -> str:
    return metric.claim.unit if isinstance(metric.claim, MeasureClaim) else "points"


def _parts(portfolio: Portfolio, metric: Metric) -> RatioParts | None:
    claim = metric.claim
    if not isinstance(claim, RatioClaim):
        return None
    names = claim.numerator, claim.denominator
    top, bottom = (isinstance(_metric(portfolio, name).claim, MeasureClaim) for name in names)
    return RatioParts(metric.version, *names, (top, bottom))


def _metric(portfolio: Portfolio, name: str) -> Metric:
    return next(metric for metric in portfolio.metrics if metric.name == name)
