"""Sampling settings of one metric: shares of spans that are evaluated and of rows that are stored."""

from __future__ import annotations

from pydantic import Field

from gapwatch.scorers.portfolio.predicate import WrittenPredicate
from gapwatch.scorers.portfolio.schema_types import Rate, Text, WrittenModel


class Keep(WrittenModel):
    """Share of a metric's rows that is stored, by outcome; the counts do not depend on it.

    Attributes:
        fail: Share of fails, unknowns and errors.
        warn: Share of warnings; that of passes by default.
        pass_: Share of passes and skips; written `pass`.
    """

    fail: Rate = 1.0
    warn: Rate | None = None
    pass_: Rate = Field(default=0.02, alias="pass")

    def of(self, outcome: str) -> float:
        """Return the probability with which a row of `outcome` is stored.

        Args:
            outcome: pass, warn, fail, skip, unknown, error.
        """
        if outcome == "warn" and self.warn is not None:
            return self.warn
        return self.fail if outcome in ("fail", "unknown", "error") else self.pass_


class Stratum(WrittenModel):
    """Spans that are evaluated at another rate; a span belongs to the first stratum whose `when` is true.

    Attributes:
        name: Unique in the metric; a value of the facet `stratum`.
        when: Condition for a span to belong to it.
        rate: Share of its traces that is evaluated.
    """

    name: Text
    when: WrittenPredicate
    rate: Rate


class Sample(WrittenModel):
    """Sampling settings of one metric.

    Attributes:
        rate: Share of the traces that a judge or a Python scorer evaluates, outside of strata.
        strata: Strata, in the order in which they are tried.
        keep: Share of the rows that is stored.
    """

    rate: Rate = 1.0
    strata: tuple[Stratum, ...] = ()
    keep: Keep = Keep()
