"""Words of the start block about how spans are read."""

from __future__ import annotations

from collections.abc import Sequence

from gapwatch.scorers.portfolio.portfolio import Portfolio

#: Lines about what is not used.
DROPPED = [
    "metrics; spans of HTTP, databases and the like, unless a rule of the portfolio names them",
    "log records that hold no content of a model call (counted as foreign)",
]


def mapping_words(portfolios: Sequence[Portfolio]) -> list[str]:
    """Return a line for each portfolio: its rules, or that the conventions alone name steps."""
    lines = []
    for one in portfolios:
        rules = one.spans
        parts = [(len(rules.components), "for components"), (len(rules.drop), "for what is dropped")]
        parts += [(len(rules.tiers), "for components with tiers"), (len(rules.attributes), "for attributes")]
        told = ", ".join(f"{n} {what}" for n, what in parts if n)
        if told:
            lines.append(f"{one.portfolio}: by the conventions, and rules of the portfolio: {told}")
        else:
            lines.append(f"{one.portfolio}: by the conventions; traces whose service.name is {one.pipeline!r}")
    return lines
