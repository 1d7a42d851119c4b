"""The cause of an alert as the store knows it: which parts hold it, what was new, which traces show it; its JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, TypeVar

from gapwatch.sinks.store.utc_text import parse_utc, utc_text

Entry = TypeVar("Entry", bound="LabelShare | NewValue | NotedNear | Example | CountedShare | MeanShare")


@dataclass(frozen=True)
class CountedShare:
    """The share of the excess that one release, model, tier or stratum holds, by counts.

    Attributes:
        value: Name of the part.
        share: Of the excess; may be above 1 where other parts moved the other way.
        units: Since the change.
        moved: Of these, those of the kind whose share moved.
        before_units: Before the change.
        before_moved: Of these.
    """

    value: str
    share: float
    units: int
    moved: int
    before_units: int
    before_moved: int


@dataclass(frozen=True)
class MeanShare:
    """The share of the excess that one release, model, tier or stratum holds, by the sum of its numbers.

    Attributes:
        value: Name of the part.
        share: Of the excess; may be above 1 where other parts moved the other way.
        units: Since the change.
        mean: Of their numbers.
        before_units: Before the change.
        before_mean: Of their numbers; None without units.
    """

    value: str
    share: float
    units: int
    mean: float
    before_units: int
    before_mean: float | None


@dataclass(frozen=True)
class LabelShare:
    """The share of one label among the spans, before and since the change."""

    value: str
    before: float
    after: float


@dataclass(frozen=True)
class NewValue:
    """A release or a model that was first seen near the change; `at` is naive UTC."""

    facet: str
    value: str
    at: datetime


@dataclass(frozen=True)
class NotedNear:
    """What somebody noted near the change; `at` is naive UTC."""

    at: datetime
    text: str
    by: str | None


@dataclass(frozen=True)
class Example:
    """One trace that shows what moved.

    Attributes:
        trace_id: Its id.
        at: Event time, naive UTC.
        observed: What was seen; None where nothing was kept.
        release: Of the trace; None where it names none.
        url: Where it can be looked at; None where the portfolio does not say.
    """

    trace_id: str
    at: datetime
    observed: str | None
    release: str | None
    url: str | None


@dataclass(frozen=True)
class QuantileMove:
    """One quantile of the numbers before and since the change.

    Attributes:
        q: Which, in (0, 1); None in alerts that do not say: the one of their part.
        before: None where it is not known.
        after: None where it is not known.
    """

    q: float | None
    before: float | None
    after: float | None

    def to_json(self) -> dict[str, float | None]:
        """Return it as JSON values."""
        return {**({} if self.q is None else {"q": self.q}), "before": self.before, "after": self.after}

    @classmethod
    def from_json(cls, value: Mapping[str, float | None] | None) -> QuantileMove | None:
        """Return what `to_json` gave; None for null."""
        return cls(value.get("q"), value.get("before"), value.get("after")) if value else None


@dataclass(frozen=True)
class Cause:
    """What the store says of the cause when the alert is opened.

    Attributes:
        shares: Facet to the parts with the largest shares of the excess, largest first.
        labels: Labels whose share moved most.
        new: Releases and models that were first seen near the change.
        notes: What people noted near it.
        examples: Traces that show what moved.
        quantile: How a quantile of the numbers moved; None for what is no number.
        runbook_url: What to do; None where the portfolio does not say.
    """

    shares: Mapping[str, tuple[CountedShare | MeanShare, ...]]
    labels: tuple[LabelShare, ...] = ()
    new: tuple[NewValue, ...] = ()
    notes: tuple[NotedNear, ...] = ()
    examples: tuple[Example, ...] = ()
    quantile: QuantileMove | None = None
    runbook_url: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "shares": {facet: _entries_json(parts) for facet, parts in self.shares.items()},
            "labels": _entries_json(self.labels),
            "new": _entries_json(self.new),
            "annotations": _entries_json(self.notes),
            "examples": _entries_json(self.examples),
            **({} if self.quantile is None else {"values": self.quantile.to_json()}),
            "runbook_url": self.runbook_url,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Cause | None:
        """Return what `to_json` gave; None where nothing of it is there."""
        if "shares" not in value:
            return None
        return cls(
            shares={facet: tuple(map(_share, parts)) for facet, parts in value["shares"].items()},
            labels=_entries(LabelShare, value.get("labels")),
            new=_entries(NewValue, value.get("new")),
            notes=_entries(NotedNear, value.get("annotations")),
            examples=_entries(Example, value.get("examples")),
            quantile=QuantileMove.from_json(value.get("values")),
            runbook_url=value.get("runbook_url"),
        )


def _share(value: Mapping[str, Any]) -> CountedShare | MeanShare:
    return _entry(MeanShare, value) if "mean" in value else _entry(CountedShare, value)


def _entries(kind: type[Entry], values: Iterable[Mapping[str, Any]] | None) -> tuple[Entry, ...]:
    return tuple(_entry(kind, value) for value in values or ())


def _entry(kind: type[Entry], value: Mapping[str, Any]) -> Entry:
    """Return an entry whose JSON keys are its fields; what the JSON lacks is None."""
    known: dict[str, Any] = {field.name: value.get(field.name) for field in fields(kind)}
    if known.get("at") is not None:
        known["at"] = parse_utc(known["at"])
    return kind(**known)


def _entries_json(entries: Iterable[Entry]) -> list[dict[str, Any]]:
    return [{field.name: _plain(getattr(entry, field.name)) for field in fields(entry)} for entry in entries]


def _plain(value: Any) -> Any:
    return utc_text(value) if isinstance(value, datetime) else value
