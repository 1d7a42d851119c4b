"""Whole slices: portfolios that load, and the raw records that meet them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from hypothesis import strategies as st

from tests.reference.portfolio_maker import make_portfolio
from tests.reference.trace_maker import make_record


@dataclass(frozen=True)
class DrawnPortfolio:
    """Seeds of one portfolio."""

    pipeline: str
    metrics: list[int]
    composites: list[int]


@dataclass(frozen=True)
class DrawnSlice:
    """One slice and the portfolios in force, by their seeds: what fails is small enough to print and to make again.

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
        """The portfolios as YAML gives them."""
        return [
            make_portfolio(self._salted(seeds.metrics), self._salted(seeds.composites), seeds.pipeline)
            for seeds in self.portfolio_seeds
        ]

    @cached_property
    def values(self) -> list[bytes | None]:
        """The raw records, most of them of the first pipeline; None where a record has no value."""
        pipelines = [seeds.pipeline for seeds in self.portfolio_seeds]
        weighted = [pipelines[0]] * 12 + pipelines * 2 + ["foreign"]
        return [make_record(seed, weighted) for seed in self._salted(self.record_seeds)]

    def _salted(self, seeds: list[int]) -> list[int]:
        return [self.salt << 24 | seed for seed in seeds]


_SEED = st.integers(0, 2**24 - 1)
_TIMESTAMPS = st.one_of(st.none(), st.sampled_from([1_774_166_401.5, 1_774_166_460.0, 0.0, -1e15, 1e15]))


@st.composite
def _seeds(draw: st.DrawFn, least: int, most: int) -> list[int]:
    """Seeds whose number is spread evenly; a plain list would have about six most of the time."""
    size = draw(st.integers(least, most))
    return draw(st.lists(_SEED, min_size=size, max_size=size))


@st.composite
def slices(draw: st.DrawFn, max_records: int = 40, max_metrics: int = 24) -> DrawnSlice:
    """One slice over one or two portfolios; it shrinks by dropping records and metrics."""
    portfolios = [DrawnPortfolio("p", draw(_seeds(1, max_metrics)), draw(_seeds(0, 6)))]
    if draw(st.integers(0, 4)) == 4:
        portfolios.append(DrawnPortfolio("q", draw(_seeds(1, 3)), []))
    records = draw(_seeds(1, max_records))
    has_timestamps = draw(st.booleans())
    stamps = [draw(_TIMESTAMPS) for _ in records] if has_timestamps else None
    return DrawnSlice(draw(_SEED), portfolios, records, stamps)
