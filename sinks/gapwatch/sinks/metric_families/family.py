"""`Family`: one metric of the exposition, with its type, unit, labels and help text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["counter", "gauge", "histogram"]


@dataclass(frozen=True)
class Family:
    """One metric of the exposition.

    Attributes:
        name: Name in Prometheus; for a histogram without `_bucket`.
        kind: Prometheus type.
        unit: Unit of the values, for people.
        labels: Names of the labels.
        meaning: Help text, one or two sentences.
        lasting: Whether a counter is rebuilt from the store at start. Otherwise it begins at 0 with the process.
    """

    name: str
    kind: Kind
    unit: str
    labels: tuple[str, ...]
    meaning: str
    lasting: bool = False


def own_family(name: str, kind: Kind, unit: str, meaning: str, *labels: str, lasting: bool = False) -> Family:
    """Return a metric of Gapwatch that is of no monitored series."""
    return Family(f"gapwatch_{name}", kind, unit, labels, meaning, lasting)
