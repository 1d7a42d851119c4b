"""The facts of an alert: what moved, how much, since when, how sure; and the one place that knows their JSON.

They are stored with the first step of an alert, sent to the topic `alerts`, posted by the webhook and shown to people.
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
    """A share or a ratio with its 95 % interval; None stands for a number that is not finite."""

    value: float | None
    lower: float | None
    upper: float | None

    def to_json(self) -> list[float | None]:
        """Return it as JSON values."""
        return [self.value, self.lower, self.upper]

    @classmethod
    def from_json(cls, value: list[float | None] | None) -> ShareEstimate | None:
        """Return what `to_json` gave; None for null."""
        return None if value is None else cls(*value)


@dataclass(frozen=True)
class Counts:
    """Units since the change, or in the window of a bound.

    Attributes:
        units: All of them.
        moved: Those of the kind whose share moved.
    """

    units: int
    moved: int


@dataclass(frozen=True)
class AlertEvidence:
    """How sure a detector is.

    Attributes:
        log10: log10 of the evidence; None where it is not finite.
        limit_log10: log10 of what was needed; None where none is asked for.
    """

    log10: float | None
    limit_log10: float | None


@dataclass(frozen=True)
class PromisedBound:
    """The bound of a portfolio that the rate is held to.

    Attributes:
        operator: How the rate stands to `value` when all is well: <, <=, > or >=.
        value: The bound.
        window_seconds: Over how long.
    """

    operator: str
    value: float
    window_seconds: int


@dataclass(frozen=True)
class ChangePoint:
    """When a change began. Times are naive UTC.

    Attributes:
        learned: Units that the baseline was learned from.
        bad_per_hour: Bad units an hour beyond the expected; None where it is not finite.
        at: The likeliest begin.
        earliest: Begin of the 95 % set.
        latest: Its end.
        is_truncated: It may have begun earlier than `earliest`.
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
        """Return what `to_json` gave; None where there is no time of a change."""
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
    """The facts of an alert.

    Attributes:
        unit: trace or session: what is counted.
        is_cascade: The metric is of the cascade family, whose direction only a person can tell.
        units_per_month: Declared volume: traces in 30 days.
        before: Share of the units before; None where it is not known.
        after: Share of the units since the change, or in the window of a bound.
        ratio: `after` over `before`.
        question: Id of the question that would settle the direction; None where none is asked.
        watched: What of the series is watched: rate, sessions, unknown, numbers, labels, or bound.
        went_up: The share, or the number, rose.
        polarity: worse, better, or unknown where nobody confirmed which way is better; None where nothing is said.
        kind: cascade (a confirmed bad direction), shift, unknown or bound; empty where the alert does not say.
        part: The part of the values that moved; None for rates.
        number_unit: Of the numbers, for people.
        evidence: How sure a detector is; None for a bound.
        counts: Units behind it; None where no change is named.
        bound: The bound that it speaks of; None for a detector.
        change: When the change began; None where no change is named.
        cause: What the store says of the cause; only in the step that opens the alert.
    """

    unit: str
    is_cascade: bool
    units_per_month: float
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

    @property
    def part_grew(self) -> bool:
        """Whether the share of the part that moved grew."""
        return self.went_up if self.change is None else self.change.part_grew

    def to_json(self) -> dict[str, Any]:
        """Return them as JSON values; the order of the keys is part of what is stored and sent."""
        return {
            "unit": self.unit,
            "cascade": self.is_cascade,
            "units_per_month": self.units_per_month,
            "before": None if self.before is None else self.before.to_json(),
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
        return {"bound": [self.bound.operator, self.bound.value], "window_seconds": self.bound.window_seconds}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> AlertFacts:
        """Return what `to_json` gave, also with other keys beside it; what an old alert does not say is empty."""
        estimates = (ShareEstimate.from_json(value.get(name)) for name in ("before", "after", "ratio"))
        before, after, ratio = estimates
        return cls(
            unit=value.get("unit", "trace"),
            is_cascade=value.get("cascade", False),
            units_per_month=value.get("units_per_month", 0.0),
            before=before,
            after=after,
            ratio=ratio,
            question=value.get("question"),
            watched=value.get("watched", ""),
            went_up=value.get("went_up", True),
            polarity=value.get("verdict"),
            kind=value.get("kind", ""),
            part=_part(value),
            number_unit=value.get("number_unit") or "",
            evidence=_evidence(value),
            counts=_counts(value),
            bound=_bound(value),
            change=ChangePoint.from_json(value),
            cause=Cause.from_json(value),
        )


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
    return Counts(value["units"], value["moved"]) if value.get("units") is not None else None


def _bound(value: Mapping[str, Any]) -> PromisedBound | None:
    if not value.get("bound"):
        return None
    operator, promised = value["bound"]
    return PromisedBound(operator, promised, value.get("window_seconds") or 0)
