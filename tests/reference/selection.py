"""Selection of traces, its probabilities, and event times."""

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
    """Stratum of a place, and its rate."""

    stratum: str | None
    rate: float


def position(trace_id: str) -> float:
    """Return `u` of a trace: uniform in [0, 1), the same for all metrics and all runs."""
    return int(hashlib.sha256(f"gapwatch/1/{trace_id}".encode()).hexdigest()[:13], 16) / 2**52


def chance_of(metric: Written, place: Place) -> Chance:
    """Return the first stratum whose `when` is true, else the rate of the metric."""
    sample = metric.get("sample") or {}
    for stratum in sample.get("strata") or []:
        if holds(stratum["when"], place) is True:
            return Chance(stratum["name"], stratum.get("rate", 1.0))
    return Chance(None, sample.get("rate", 1.0))


def keep_rate(metric: Written, state: str, default: dict[str, float]) -> float:
    """Return the probability that a row with this outcome is stored, if its place was evaluated."""
    keep = {**default, **((metric.get("sample") or {}).get("keep") or {})}
    if state == "warn":
        return float(keep.get("warn", keep["pass"]))
    return float(keep[_KEPT_LIKE.get(state, state)])


def publisher_probability(trace: Trace) -> float:
    """Return the probability with which the publisher sent this trace; an invalid one counts as 1."""
    number = number_of(trace.record.get("sampling_probability"))
    return number if isinstance(number, float) and 0 < number <= 1 else 1.0


def moment(value: Json) -> float | None:
    """Return epoch seconds within the years 1 to 9999, else None."""
    number = number_of(value)
    return number if isinstance(number, float) and _YEAR_1 <= number < _YEAR_10000 else None


def unit_moment(trace: Trace, timestamp: float | None) -> float | None:
    """Return the time of a unit: the trace's end, else its latest span end, its start, or the record's timestamp."""
    ends = [end for span in trace.spans if (end := moment(span.get("ended_at"))) is not None]
    candidates = (
        moment(trace.record.get("ended_at")),
        max(ends, default=None),
        moment(trace.record.get("started_at")),
        _timestamp(timestamp),
    )
    return next((candidate for candidate in candidates if candidate is not None), None)


def event_moment(place: Place, timestamp: float | None) -> float | None:
    """Return the time of a span; that of the unit for the trace itself."""
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
    """Return the start of a moment's bucket, in epoch seconds."""
    return None if at is None else math.floor(at / BUCKET_SECONDS) * BUCKET_SECONDS


def text_or_none(value: Json) -> str | None:
    """Return the text of a field of the envelope; None where it is absent."""
    return None if value is None else text_of(value)
