"""Hypothesis strategies for slices: portfolios that load, and raw records for them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from hypothesis import strategies as st

from tests.reference.portfolio_maker import make_portfolio
from tests.reference.trace_maker import make_record


@dataclass(frozen=True)
class DrawnPortfolio:
    """Seeds of one generated portfolio."""

    pipeline: str
    metrics: list[int]
    composites: list[int]


@dataclass(frozen=True)
class DrawnSlice:
    """Seeds of one slice and its portfolios: a failing example is short to print and can be generated again.

    Attributes:
        salt: Part of every seed, so that the small numbers that Hypothesis likes are not always the same values.
        portfolio_seeds: Seeds of the portfolios, each of its own pipeline.
        record_seeds: Seeds of the raw records.
        timestamps: Epoch seconds per record, None where unknown; None where the source has none.
    """

    salt: int
    portfolio_seeds: list[DrawnPortfolio]
    record_seeds: list[int]
    timestamps: list[float | None] | None

    @cached_property
    def portfolios(self) -> list[dict[str, Any]]:
        """Return the portfolios as Python values of their YAML."""
        return [
            make_portfolio(self._salted(seeds.metrics), self._salted(seeds.composites), seeds.pipeline)
            for seeds in self.portfolio_seeds
        ]

    @cached_property
    def values(self) -> list[bytes | None]:
        """Return the raw records, most of them of the first pipeline; None for a record without a value."""
        pipelines = [seeds.pipeline for seeds in self.portfolio_seeds]
        weighted = [pipelines[0]] * 12 + pipelines * 2 + ["foreign"]
        return [make_record(seed, weighted) for seed in self._salted(self.record_seeds)]

    def _salted(self, seeds: list[int]) -> list[int]:
        return [self.salt << 24 | seed for seed in seeds]


_SEED = st.integers(0, 2**24 - 1)
_TIMESTAMPS = st.one_of(st.none(), st.sampled_from([1_774_166_401.5, 1_774_166_460.0, 0.0, -1e15, 1e15]))


@st.composite
def _seeds(draw: st.DrawFn, least: int, most: int) -> list[int]:
    """Return seeds whose number is evenly distributed; a plain list would mostly have about six."""
    size = draw(st.integers(least, most))
    return draw(st.lists(_SEED, min_size=size, max_size=size))


@st.composite
def slices(draw: st.DrawFn, max_records: int = 40, max_metrics: int = 24) -> DrawnSlice:
    """Return a slice over one or two portfolios; it shrinks by dropping records and metrics."""
    portfolios = [DrawnPortfolio("p", draw(_seeds(1, max_metrics)), draw(_seeds(0, 6)))]
    if draw(st.integers(0, 4)) == 4:
        portfolios.append(DrawnPortfolio("q", draw(_seeds(1, 3)), []))
    records = draw(_seeds(1, max_records))
    has_timestamps = draw(st.booleans())
    stamps = [draw(_TIMESTAMPS) for _ in records] if has_timestamps else None
    return DrawnSlice(draw(_SEED), portfolios, records, stamps)
