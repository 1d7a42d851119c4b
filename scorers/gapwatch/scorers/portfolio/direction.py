"""Direction, threshold and alert settings of a metric, as types."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from gapwatch.scorers.portfolio.schema_types import Flag, NotNegative, Number, Positive, Prose, Text, WrittenModel

Better = Literal["lower", "higher", "unknown"]
#: A statistic of a metric: `failure_rate`, or for a measure `mean` and the like.
Quantity = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]*$", max_length=100)]

#: A quantity that a threshold bounds.
BoundedQuantity = Annotated[
    str, StringConstraints(pattern=r"^(failure_rate|share|mean|sum|ratio|p[1-9][0-9]?(_[0-9]{1,3})?)$")
]

#: Names of the cascade family. Only a practitioner knows which way is better for these.
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
    """The better direction of a metric, and whether it is verified.

    Attributes:
        better: The better direction; unknown is monitored on both sides.
        of: The quantity that moves.
        verdict: verified (by a fact or a cited line) or unverified (only suggested).
        fact: Id of the fact that verifies it.
        evidence: Line of code that it was read from.
    """

    better: Better
    of: Quantity = "failure_rate"
    verdict: Literal["verified", "unverified"] = "unverified"
    fact: Text | None = None
    evidence: Prose | None = None


class Threshold(WrittenModel):
    """A bound on a quantity of the metric.

    Attributes:
        of: The quantity that is bounded: failure_rate; share (of a label); p50, p95, p99_9 and the like, mean or sum of
            the numbers; ratio.
        label: The label whose share is bounded; only with `of: share`.
        operator: Relation of the quantity to `value` while all is well. `<` means the same as `<=`, and `>` the same as
            `>=`: a quantity that is surely beyond a bound is beyond both.
        value: The bound, in the unit of the quantity; a share is from 0 to 1.
        window: Time over which the quantity is computed: a number and s, m, h, d or w; 30s to 30d, in steps of 30s.
        min_units: With fewer units in the window, the bound is not checked; 30 by default.
        justification: Origin of the bound.
    """

    of: BoundedQuantity = "failure_rate"
    label: Text | None = None
    operator: Literal["<", "<=", ">", ">="]
    value: Number
    window: Annotated[str, StringConstraints(pattern=r"^[1-9][0-9]{0,5}[smhdw]$")] = "1h"
    min_units: Annotated[int, Field(strict=True, ge=1)] | None = None
    justification: Prose | None = None


class MinChange(WrittenModel):
    """Smallest change worth telling of a share: of failing traces, of a label, or of numbers above an old quantile.

    A smaller change is seen and not told: it is no evidence for an alert, and the log says that it is there. A change
    of either side counts: from 99 % to 98 % good is from 1 % to 2 % bad.

    Attributes:
        factor: The share must change at least by this factor; 1.25 by default.
        share: And at least by this difference, from 0 to below 1; 0.01 (one percentage point) by default.
    """

    factor: Annotated[float, Field(strict=True, ge=1, le=1000)] = 1.25
    share: Annotated[float, Field(strict=True, ge=0, lt=1)] = 0.01


class Alert(WrittenModel):
    """Alert settings: how a shift of the metric is reported.

    Attributes:
        severity: page (critical), ticket (warning), note (info).
        cascade: The metric is of the cascade family, whatever its name.
        min_change: Smallest change worth an alert of any severity; by default a factor of 1.25 and one point.
        min_ratio: Smallest ratio of the rates, new to old, by the lower bound of its interval, that pages. Only with
            severity: page.
        min_bad_per_hour: Smallest number of additional bad units per hour that pages. Only with severity: page.
        blind_above_ratio: The metric is reported as blind where its minimum detectable change in a day is above this.
    """

    severity: Literal["page", "ticket", "note"] = "ticket"
    cascade: Flag = False
    min_change: MinChange = MinChange()
    min_ratio: Annotated[float, Field(strict=True, ge=1)] | None = None
    min_bad_per_hour: NotNegative | None = None
    blind_above_ratio: Positive | None = None


def is_cascade_name(name: str) -> bool:
    """Return whether a metric's name is, or contains as whole words, a name of the cascade family."""
    return _CASCADE_NAME.search(name) is not None
