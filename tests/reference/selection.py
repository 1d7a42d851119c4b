"""Which traces are chosen, with which probability, and when they happened."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass

from tests.reference.envelope import Trace, text_of
from tests.reference.json_text import Json
from tests.reference.predicates import Written, holds
from tests.reference.values import Place, number_of

BUCKET_SECONDS = 30
_YEAR_1 = -62_135_596_800
_YEAR_10000 = 253_402_300_800
_KEPT_LIKE = {"unknown": "fail", "error": "fail", "skip": "pass"}


@dataclass(frozen=True)
class Chance:
    """The stratum of a place and its rate."""

    stratum: str | None
    rate: float


def position(trace_id: str) -> float:
    """`u` of a trace: uniform in [0, 1), the same for all metrics and all runs."""
    return int(hashlib.sha256(f"gapwatch/1/{trace_id}".encode()).hexdigest()[:13], 16) / 2**52


def chance_of(metric: Written, place: Place) -> Chance:
    """The first stratum whose `when` is true, else the rate of the metric."""
    sample = metric.get("sample") or {}
    for stratum in sample.get("strata") or []:
        if holds(stratum["when"], place) is True:
            return Chance(stratum["name"], stratum.get("rate", 1.0))
    return Chance(None, sample.get("rate", 1.0))


def keep_rate(metric: Written, state: str, default: dict[str, float]) -> float:
    """With which probability a row of this outcome is kept, where its place was evaluated."""
    keep = {**default, **((metric.get("sample") or {}).get("keep") or {})}
    if state == "warn":
        return float(keep.get("warn", keep["pass"]))
    return float(keep[_KEPT_LIKE.get(state, state)])


def publisher_probability(trace: Trace) -> float:
    """With which probability the publisher kept this trace; 1 where it says nothing usable."""
    number = number_of(trace.record.get("sampling_probability"))
    return number if isinstance(number, float) and 0 < number <= 1 else 1.0


def moment(value: Json) -> float | None:
    """Epoch seconds within the years 1 to 9999, else None."""
    number = number_of(value)
    return number if isinstance(number, float) and _YEAR_1 <= number < _YEAR_10000 else None


def unit_moment(trace: Trace, timestamp: float | None) -> float | None:
    """When a unit happened: the trace's end, else its latest span end, else its start, else the record's timestamp."""
    ends = [end for span in trace.spans if (end := moment(span.get("ended_at"))) is not None]
    candidates = (
        moment(trace.record.get("ended_at")),
        max(ends, default=None),
        moment(trace.record.get("started_at")),
        _timestamp(timestamp),
    )
    return next((candidate for candidate in candidates if candidate is not None), None)


def event_moment(place: Place, timestamp: float | None) -> float | None:
    """When a span happened; for the trace itself, when the unit did."""
    if place.index < 0:
        return unit_moment(place.trace, timestamp)
    record, span = place.trace.record, place.span
    values = (span.get("ended_at"), record.get("ended_at"), span.get("started_at"), record.get("started_at"))
    return next(
        (found for value in values if (found := moment(value)) is not None),
        _timestamp(timestamp),
    )


def _timestamp(timestamp: float | None) -> float | None:
    is_usable = timestamp is not None and math.isfinite(timestamp) and _YEAR_1 <= timestamp < _YEAR_10000
    return timestamp if is_usable else None


def bucket_of(at: float | None) -> int | None:
    """Start of the bucket of a moment, in epoch seconds."""
    return None if at is None else math.floor(at / BUCKET_SECONDS) * BUCKET_SECONDS


def text_or_none(value: Json) -> str | None:
    """Text of a field of the envelope; None where it is absent."""
    return None if value is None else text_of(value)
