"""Cause of an alert: parts that hold the excess, values that were new, example traces; and their JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, TypeVar

from gapwatch.sinks.store.utc_text import parse_utc, utc_text

Entry = TypeVar("Entry", bound="LabelShare | NewValue | NotedNear | AlertExample | CountedShare | MeanShare")


@dataclass(frozen=True)
class CountedShare:
    """Share of the excess in one release, model, tier or stratum, by counts.

    Attributes:
        value: Name of the part.
        share: Share of the excess; above 1 where other parts moved the other way.
        units: Units of the part since the change.
        moved: Units of the kind whose share moved, among `units`.
        before_units: Units of the part before the change.
        before_moved: Units of the kind whose share moved, among `before_units`.
    """

    value: str
    share: float
    units: int
    moved: int
    before_units: int
    before_moved: int


@dataclass(frozen=True)
class MeanShare:
    """Share of the excess in one release, model, tier or stratum, by the sum of its numbers.

    Attributes:
        value: Name of the part.
        share: Share of the excess; above 1 where other parts moved the other way.
        units: Units of the part since the change.
        mean: Mean of their numbers.
        before_units: Units of the part before the change.
        before_mean: Mean of their numbers; None without units.
    """

    value: str
    share: float
    units: int
    mean: float
    before_units: int
    before_mean: float | None


@dataclass(frozen=True)
class LabelShare:
    """Share of one label among the spans, 0 to 1, before and since the change."""

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
    """Note that a person left near the change; `at` is naive UTC."""

    at: datetime
    text: str
    by: str | None


@dataclass(frozen=True)
class AlertExample:
    """One trace that shows what moved.

    Attributes:
        trace_id: Id of the trace.
        at: Event time, naive UTC.
        observed: Observed value; None where the store holds no row of it.
        release: Release of the trace; None where the trace names none.
        url: Address that shows the trace; None where the portfolio gives no `trace_url`.
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
        q: The quantile, in (0, 1); None in old alerts, which mean the quantile of their part.
        before: Value before the change; None where it is not known.
        after: Value since the change; None where it is not known.
    """

    q: float | None
    before: float | None
    after: float | None

    def to_json(self) -> dict[str, float | None]:
        """Return it as JSON values."""
        return {**({} if self.q is None else {"q": self.q}), "before": self.before, "after": self.after}

    @classmethod
    def from_json(cls, value: Mapping[str, float | None] | None) -> QuantileMove | None:
        """Return the move from `to_json`; None for null."""
        return cls(value.get("q"), value.get("before"), value.get("after")) if value else None


@dataclass(frozen=True)
class Cause:
    """Likely cause of an alert, read from the store when the alert is opened.

    Attributes:
        shares: Facet to the parts with the largest shares of the excess, largest first.
        labels: Labels whose share moved most.
        new: Releases and models that were first seen near the change.
        notes: Notes that people left near the change.
        examples: Traces that show what moved.
        quantile: Move of one quantile of the numbers; None for rates and labels.
        runbook_url: Address of the runbook; None where the portfolio gives no `runbook_url`.
    """

    shares: Mapping[str, tuple[CountedShare | MeanShare, ...]]
    labels: tuple[LabelShare, ...] = ()
    new: tuple[NewValue, ...] = ()
    notes: tuple[NotedNear, ...] = ()
    examples: tuple[AlertExample, ...] = ()
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
        """Return the cause from `to_json`; None where the JSON holds no cause."""
        if "shares" not in value:
            return None
        return cls(
            shares={facet: tuple(map(_share, parts)) for facet, parts in value["shares"].items()},
            labels=_entries(LabelShare, value.get("labels")),
            new=_entries(NewValue, value.get("new")),
            notes=_entries(NotedNear, value.get("annotations")),
            examples=_entries(AlertExample, value.get("examples")),
            quantile=QuantileMove.from_json(value.get("values")),
            runbook_url=value.get("runbook_url"),
        )


def _share(value: Mapping[str, Any]) -> CountedShare | MeanShare:
    return _entry(MeanShare, value) if "mean" in value else _entry(CountedShare, value)


def _entries(kind: type[Entry], values: Iterable[Mapping[str, Any]] | None) -> tuple[Entry, ...]:
    return tuple(_entry(kind, value) for value in values or ())


def _entry(kind: type[Entry], value: Mapping[str, Any]) -> Entry:
    """Return an entry whose JSON keys are its fields; a field that the JSON lacks is None."""
    known: dict[str, Any] = {field.name: value.get(field.name) for field in fields(kind)}
    if known.get("at") is not None:
        known["at"] = parse_utc(known["at"])
    return kind(**known)


def _entries_json(entries: Iterable[Entry]) -> list[dict[str, Any]]:
    return [{field.name: _plain(getattr(entry, field.name)) for field in fields(entry)} for entry in entries]


def _plain(value: Any) -> Any:
    return utc_text(value) if isinstance(value, datetime) else value
