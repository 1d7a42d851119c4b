"""Which way a metric may move: its direction, its threshold, and when to wake somebody."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from gapwatch.scorers.portfolio.schema_types import Flag, NotNegative, Number, Positive, Prose, Text, WrittenModel

Better = Literal["lower", "higher", "unknown"]
#: What of a metric is meant: `failure_rate`, or for a measure `mean` and the like.
Quantity = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]*$", max_length=100)]

#: Names of the cascade family, whose direction only a practitioner can tell.
CASCADE_FAMILY = (
    "tier_hit_rate",
    "fallback_depth",
    "fallback_rate",
    "cache_hit_rate",
    "retry_count",
    "retry_success_rate",
    "refusal_rate",
    "escalation_rate",
    "rag_hit_rate",
)
_CASCADE_NAME = re.compile(rf"(^|_)({'|'.join(CASCADE_FAMILY)})(_|$)")


class Direction(WrittenModel):
    """Which way is better, and whether a person confirmed it.

    Attributes:
        better: The way; unknown is watched on both sides.
        of: What moves.
        verdict: verified by a fact or a cited line, or only suggested.
        fact: Id of the fact that verifies it.
        evidence: Line of code that it was read from.
    """

    better: Better
    of: Quantity = "failure_rate"
    verdict: Literal["verified", "unverified"] = "unverified"
    fact: Text | None = None
    evidence: Prose | None = None


class Threshold(WrittenModel):
    """A bound that the metric as a whole shall keep.

    Attributes:
        of: What is bounded.
        operator: How it stands to `value` when all is well.
        value: The bound.
        window: Over which time: a number and s, m, h, d or w.
        min_units: Units below which nothing is said.
        justification: Where the bound comes from.
    """

    of: Quantity = "failure_rate"
    operator: Literal["<", "<=", ">", ">="]
    value: Number
    window: Annotated[str, StringConstraints(pattern=r"^[1-9][0-9]{0,5}[smhdw]$")] = "1h"
    min_units: Annotated[int, Field(strict=True, ge=1)] | None = None
    justification: Prose | None = None


class Alert(WrittenModel):
    """When a shift of the metric wakes somebody.

    Attributes:
        severity: page (critical), ticket (warning), note (info).
        cascade: The metric is of the cascade family, whatever its name.
        min_ratio: Smallest ratio of the rates, new to old, that is worth telling.
        min_bad_per_hour: Fewer bad units an hour are not worth telling.
        blind_above_ratio: A shift above this ratio that could not be seen is told as a blind spot.
    """

    severity: Literal["page", "ticket", "note"] = "ticket"
    cascade: Flag = False
    min_ratio: Annotated[float, Field(strict=True, ge=1)] | None = None
    min_bad_per_hour: NotNegative | None = None
    blind_above_ratio: Positive | None = None


def is_cascade_name(name: str) -> bool:
    """Say whether a metric's name is one of the cascade family, alone or as whole words of a longer name."""
    return _CASCADE_NAME.search(name) is not None
