"""Whole slices: portfolios that load, and the raw records that meet them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from tests.reference.portfolio_maker import make_portfolio
from tests.reference.trace_maker import make_record

#: How many times more examples are tried than in an everyday run: a deep run sets it to 20 or more.
DEPTH = int(os.environ.get("GAPWATCH_TEST_DEPTH", "1"))


@dataclass(frozen=True)
class DrawnSlice:
    """One slice and the portfolios in force.

    Attributes:
        portfolios: As YAML gives them, each of its own pipeline.
        values: The raw records; None where a record has no value.
        timestamps: Epoch seconds per record, None where unknown; None where the source has none.
    """

    portfolios: list[dict[str, Any]]
    values: list[bytes | None]
    timestamps: list[float | None] | None


_SEEDS = st.integers(0, 2**48)
_TIMESTAMPS = st.one_of(st.none(), st.sampled_from([1_774_166_401.5, 1_774_166_460.0, 0.0, -1e15, 1e15]))


@st.composite
def portfolios(draw: st.DrawFn, pipeline: str = "p", max_metrics: int = 24) -> dict[str, Any]:
    """One portfolio; it shrinks by dropping metrics."""
    seeds = draw(st.lists(_SEEDS, min_size=1, max_size=max_metrics, unique=True))
    return make_portfolio(seeds, draw(st.lists(_SEEDS, max_size=3, unique=True)), pipeline)


@st.composite
def slices(draw: st.DrawFn, max_records: int = 24) -> DrawnSlice:
    """One slice over one or two portfolios; it shrinks by dropping records."""
    drawn = [draw(portfolios("p"))]
    if draw(st.integers(0, 4)) == 4:
        drawn.append(draw(portfolios("q", max_metrics=3)))
    pipelines = ("p",) * 12 + tuple(portfolio["pipeline"] for portfolio in drawn) * 2 + ("foreign",)
    seeds = draw(st.lists(_SEEDS, min_size=1, max_size=max_records, unique=True))
    has_timestamps = draw(st.booleans())
    return DrawnSlice(
        portfolios=drawn,
        values=[make_record(seed, pipelines) for seed in seeds],
        timestamps=[draw(_TIMESTAMPS) for _ in seeds] if has_timestamps else None,
    )
