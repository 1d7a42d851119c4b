"""Findings of a closed tick: a detector that changed its phase, or a bound that broke or holds again."""

from __future__ import annotations

from dataclasses import dataclass

from gapwatch.sinks.reading.example_rows import ValuePart
from gapwatch.streams.alerting.rules.breach import Breach
from gapwatch.streams.alerting.series.slice_units import SeriesKey
from gapwatch.streams.detectors.watch import Transition


@dataclass(frozen=True, order=True)
class Watched:
    """Monitored row of a fleet: a series, and the quantity of it that is monitored (`AlertRule.kinds`).

    The repr of this class is part of the ids of alerts.
    """

    series: SeriesKey
    kind: str


@dataclass(frozen=True)
class Part:
    """Part of a series' values whose share moved.

    Attributes:
        name: Name in words, such as `above the old p95`.
        statistic: Quantile of the numbers that shows the move best, in (0, 1); None for labels.
        above: Numbers of the part are larger than this; None without a lower end.
        below: Numbers of the part are at most this; None without an upper end.
        outside: The part is everything above `above` or up to `below`, not what lies between them.
        labels: Labels of the part; empty for numbers, and for labels that are rare or new.
    """

    name: str
    statistic: float | None = None
    above: float | None = None
    below: float | None = None
    outside: bool = False
    labels: tuple[str, ...] = ()

    def as_value_part(self, *, inside: bool) -> ValuePart:
        """Return the part as a condition on rows of the store: rows inside the part, or outside of it."""
        labels = self.labels if self.statistic is None else None
        return ValuePart(labels, self.above, self.below, self.outside, inside)


@dataclass(frozen=True)
class Finding:
    """One finding of a closed tick.

    Attributes:
        watched: Series and quantity.
        tick: Tick of event time.
        transition: Change of a detector's phase; None for a bound.
        breach: Bound that broke or holds again; None for a detector.
        part: Part of the numbers or labels that moved; None for rates.
    """

    watched: Watched
    tick: int
    transition: Transition | None = None
    breach: Breach | None = None
    part: Part | None = None


def part_beyond(breach: Breach) -> Part | None:
    """Return the part of the values that a bound is about; None for failing traces, and for ratios, which have none."""
    bound = breach.bound
    if bound.label is not None:
        return Part(bound.label, labels=(bound.label,))
    if bound.of in ("failure_rate", "ratio"):
        return None
    end = None if bound.of == "sum" else bound.value  # no single number is beyond the bound of a sum
    above, below = (end, None) if bound.is_ceiling else (None, end)
    return Part(f"beyond the bound of {bound.of}", bound.level or 0.5, above, below)
