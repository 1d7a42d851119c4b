"""What a closed tick can bring: a detector that speaks, or a bound that breaks."""

from __future__ import annotations

from dataclasses import dataclass

from gapwatch.sinks.reading.example_rows import ValuePart
from gapwatch.streams.alerting.rules.bounds import Breach
from gapwatch.streams.alerting.series.slice_units import SeriesKey
from gapwatch.streams.detectors.watch import Transition


@dataclass(frozen=True, order=True)
class Watched:
    """One row of a fleet: a series, and what of it is watched (`AlertRule.kinds`)."""

    series: SeriesKey
    kind: str


@dataclass(frozen=True)
class Part:
    """The part of a series' values whose share moved.

    Attributes:
        name: In words: `above the old p95`.
        statistic: The quantile of the numbers that shows it best, in (0, 1); None for labels.
        above: The numbers in it are larger than this; None without a lower end.
        below: They are at most this; None without an upper end.
        outside: It is what lies above `above` or below `below`, not between them.
        labels: The labels in it; empty for numbers, and where they are rare or new.
    """

    name: str
    statistic: float | None = None
    above: float | None = None
    below: float | None = None
    outside: bool = False
    labels: tuple[str, ...] = ()

    def as_value_part(self, *, inside: bool) -> ValuePart:
        """Return it as a question to the store: for rows inside of it, or outside."""
        labels = self.labels if self.statistic is None else None
        return ValuePart(labels, self.above, self.below, self.outside, inside)


@dataclass(frozen=True)
class Finding:
    """Something that a closed tick brought.

    Attributes:
        watched: Where.
        tick: When, by event time.
        transition: What a detector says; None for a bound.
        breach: What a bound says; None for a detector.
        part: Of numbers and labels: which part of them moved; None for rates.
    """

    watched: Watched
    tick: int
    transition: Transition | None = None
    breach: Breach | None = None
    part: Part | None = None
