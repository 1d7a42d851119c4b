"""Selection probabilities of one metric, as its portfolio writes them."""

from __future__ import annotations

from pydantic import Field

from gapwatch.scorers.portfolio.predicate import WrittenPredicate
from gapwatch.scorers.portfolio.schema_types import Rate, Text, WrittenModel


class Keep(WrittenModel):
    """Which share of a metric's rows is stored, by outcome; the counts do not depend on it.

    Attributes:
        fail: Of fails, unknowns and errors.
        warn: Of warnings; like passes where not given.
        pass_: Of passes and skips; written `pass`.
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
    """Spans that are evaluated at a rate of their own; the first stratum whose `when` is true counts.

    Attributes:
        name: Unique in the metric; a value of the facet `stratum`.
        when: What makes a span belong to it.
        rate: Share of its traces that is evaluated.
    """

    name: Text
    when: WrittenPredicate
    rate: Rate


class Sample(WrittenModel):
    """Selection of one metric.

    Attributes:
        rate: Share of the traces that a judge or a Python scorer sees, outside every stratum.
        strata: In the order in which they are tried.
        keep: Share of the rows that is stored.
    """

    rate: Rate = 1.0
    strata: tuple[Stratum, ...] = ()
    keep: Keep = Keep()
