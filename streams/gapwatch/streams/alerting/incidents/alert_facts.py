"""Facts of an alert (series, size, time, evidence) and their JSON, which no other module reads or writes.

The facts are stored with the step that opens an alert, sent to the topic `alerts`, posted to the webhook and shown to
people.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from gapwatch.sinks.store.utc_text import parse_utc, utc_text
from gapwatch.streams.alerting.incidents.alert_cause import Cause
from gapwatch.streams.alerting.rules.finding import Part


@dataclass(frozen=True)
class ShareEstimate:
    """Share or ratio with its 95 % interval; None stands for a number that is not finite."""

    value: float | None
    lower: float | None
    upper: float | None

    def to_json(self) -> list[float | None]:
        """Return it as JSON values."""
        return [self.value, self.lower, self.upper]

    @classmethod
    def from_json(cls, value: list[float | None] | None) -> ShareEstimate | None:
        """Return the estimate from `to_json`; None for null."""
        return None if value is None else cls(*value)


@dataclass(frozen=True)
class Counts:
    """Units since the change, or in the window of a bound.

    Attributes:
        units: All units.
        moved: Units of the kind whose share moved; None for the bound of a mean, a sum or a ratio.
    """

    units: int
    moved: int | None


@dataclass(frozen=True)
class AlertEvidence:
    """Evidence of a detector, and the threshold that it reached.

    Attributes:
        log10: log10 of the evidence; None where it is not finite.
        limit_log10: log10 of the threshold; None where the series has no threshold.
    """

    log10: float | None
    limit_log10: float | None


@dataclass(frozen=True)
class PromisedBound:
    """Bound that a portfolio sets on a quantity.

    Attributes:
        operator: Comparison of the quantity with `value` that must hold: <, <=, > or >=.
        value: The bound, in `unit`.
        window_seconds: Length of the window over which the quantity is taken.
        of: The quantity: failure_rate, p95, `share of fallback` and the like.
        unit: Unit of the quantity; `share` for shares.
    """

    operator: str
    value: float
    window_seconds: int
    of: str = "failure_rate"
    unit: str = "share"


@dataclass(frozen=True)
class ChangePoint:
    """Time at which a change began, with its 95 % set. Times are naive UTC.

    Attributes:
        learned: Units that the baseline was learned from.
        bad_per_hour: Bad units an hour above the expected number; None where it is not finite.
        at: Most likely begin.
        earliest: Begin of the 95 % set.
        latest: End of the 95 % set.
        is_truncated: The change may have begun earlier than `earliest`.
        part_grew: The share of the part that moved grew; else it shrank.
    """

    learned: int
    bad_per_hour: float | None
    at: datetime
    earliest: datetime
    latest: datetime
    is_truncated: bool
    part_grew: bool

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "learned": self.learned,
            "bad_per_hour": self.bad_per_hour,
            "change_at": utc_text(self.at),
            "change_from": utc_text(self.earliest),
            "change_to": utc_text(self.latest),
            "is_truncated": self.is_truncated,
            "part_grew": self.part_grew,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> ChangePoint | None:
        """Return the change point from `to_json`; None where the JSON holds no time of a change."""
        if value.get("change_at") is None:
            return None
        at, earliest, latest = (parse_utc(value[name]) for name in ("change_at", "change_from", "change_to"))
        return cls(
            value.get("learned", 0),
            value.get("bad_per_hour"),
            at,
            earliest,
            latest,
            value.get("is_truncated", False),
            value.get("part_grew", value.get("went_up", True)),
        )


@dataclass(frozen=True)
class AlertFacts:
    """Facts of an alert: what moved, by how much, since when, and with which evidence.

    Attributes:
        unit: Unit that is counted: trace or session.
        is_cascade: The metric says which way a step went; only a person can tell its direction.
        units_per_month: Declared volume in traces in 30 days; None where the threshold follows the observed volume.
        before: Share of the units before the change; None where it is not known.
        after: Share of the units since the change, or in the window of a bound.
        ratio: `after` over `before`.
        question: Id of the question whose answer gives the direction; None without such a question.
        watched: Monitored quantity of the series: rate, sessions, unknown, numbers, labels, or bound.
        went_up: The share (of numbers: the number) rose.
        polarity: worse, better, or unknown where nobody confirmed the direction; None where the step has no polarity.
        kind: cascade (a shift of a step from one way to another), shift, unknown or bound; empty for decisions.
        part: Part of the values that moved; None for rates.
        number_unit: Unit of the numbers, for people.
        evidence: Evidence of the detector; None for a bound.
        counts: Units since the change; None where no change is named.
        bound: The broken bound; None for a detector.
        change: Change point; None where no change is named.
        cause: Likely cause; only in the step that opens the alert.
        busiest_day: Units of the busiest day so far, where they set the threshold; None with a declared volume.
        is_of_hours: `before` is the share expected at the hours of the day since the change; else that of all hours.
    """

    unit: str
    is_cascade: bool
    units_per_month: float | None
    before: ShareEstimate | None
    after: ShareEstimate | None
    ratio: ShareEstimate | None
    question: str | None
    watched: str
    went_up: bool
    polarity: str | None
    kind: str
    part: Part | None = None
    number_unit: str = ""
    evidence: AlertEvidence | None = None
    counts: Counts | None = None
    bound: PromisedBound | None = None
    change: ChangePoint | None = None
    cause: Cause | None = None
    busiest_day: float | None = None
    is_of_hours: bool = False

    @property
    def part_grew(self) -> bool:
        """True where the share of the part that moved grew; the numbers beyond a bound are always too many."""
        if self.bound is not None and self.part is not None and self.part.statistic is not None:
            return True
        return self.went_up if self.change is None else self.change.part_grew

    def to_json(self) -> dict[str, Any]:
        """Return the facts as JSON values; the order of the keys is part of the stored and the sent form."""
        return {
            "unit": self.unit,
            "cascade": self.is_cascade,
            "units_per_month": self.units_per_month,
            **({} if self.busiest_day is None else {"busiest_day": self.busiest_day}),
            "before": None if self.before is None else self.before.to_json(),
            **({"before_at_hours": True} if self.is_of_hours else {}),
            "after": None if self.after is None else self.after.to_json(),
            "ratio": None if self.ratio is None else self.ratio.to_json(),
            "question": self.question,
            "watched": self.watched,
            **self._part_json(),
            **self._evidence_json(),
            "went_up": self.went_up,
            **({} if self.counts is None else {"units": self.counts.units, "moved": self.counts.moved}),
            **self._bound_json(),
            **({} if self.change is None else self.change.to_json()),
            "verdict": self.polarity,
            "kind": self.kind,
            **({} if self.cause is None else self.cause.to_json()),
        }

    def _part_json(self) -> dict[str, Any]:
        part = self.part
        if part is None:
            return {}
        if part.statistic is None:
            return {"part": part.name, "moved_labels": list(part.labels)}
        edges = {"above": part.above, "below": part.below, "outside": part.outside}
        return {"part": part.name, "number_unit": self.number_unit, "statistic": part.statistic, **edges}

    def _evidence_json(self) -> dict[str, Any]:
        if self.evidence is None:
            return {}
        return {"evidence_log10": self.evidence.log10, "limit_log10": self.evidence.limit_log10}

    def _bound_json(self) -> dict[str, Any]:
        if self.bound is None:
            return {}
        bound = self.bound
        return {
            "bound": [bound.operator, bound.value],
            "bound_of": bound.of,
            "bound_unit": bound.unit,
            "window_seconds": bound.window_seconds,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> AlertFacts:
        """Return the facts from `to_json`; other keys are ignored, and facts that an old alert lacks are empty."""
        estimates = (ShareEstimate.from_json(value.get(name)) for name in ("before", "after", "ratio"))
        before, after, ratio = estimates
        return cls(
            unit=value.get("unit", "trace"),
            is_cascade=value.get("cascade", False),
            units_per_month=value.get("units_per_month"),
            busiest_day=value.get("busiest_day"),
            before=before,
            after=after,
            ratio=ratio,
            question=value.get("question"),
            watched=value.get("watched", ""),
            went_up=value.get("went_up", True),
            polarity=value.get("verdict"),
            kind=_kind(value),
            part=_part(value),
            number_unit=value.get("number_unit") or "",
            evidence=_evidence(value),
            counts=_counts(value),
            bound=_bound(value),
            change=ChangePoint.from_json(value),
            cause=Cause.from_json(value),
            is_of_hours=value.get("before_at_hours", False),
        )


def _kind(value: Mapping[str, Any]) -> str:
    """Return the kind; alerts of earlier versions called every shift for the worse a cascade."""
    kind: str = value.get("kind", "")
    return "shift" if kind == "cascade" and not value.get("cascade", False) else kind


def _part(value: Mapping[str, Any]) -> Part | None:
    if not value.get("part"):
        return None
    if "statistic" not in value:
        return Part(value["part"], labels=tuple(value.get("moved_labels") or ()))
    edges = value.get("above"), value.get("below"), value.get("outside", False)
    return Part(value["part"], value["statistic"], *edges)


def _evidence(value: Mapping[str, Any]) -> AlertEvidence | None:
    if "evidence_log10" not in value:
        return None
    return AlertEvidence(value["evidence_log10"], value.get("limit_log10"))


def _counts(value: Mapping[str, Any]) -> Counts | None:
    return Counts(value["units"], value.get("moved")) if value.get("units") is not None else None


def _bound(value: Mapping[str, Any]) -> PromisedBound | None:
    if not value.get("bound"):
        return None
    operator, promised = value["bound"]
    of, unit = value.get("bound_of", "failure_rate"), value.get("bound_unit", "share")
    return PromisedBound(operator, promised, value.get("window_seconds") or 0, of, unit)
