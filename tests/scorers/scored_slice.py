"""Scores raw records with portfolios given as Python values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import yaml

from gapwatch.scorers.loading.load import parse_portfolio
from gapwatch.scorers.plan.plan import Plan, compile_plan
from gapwatch.scorers.scoring.score import Scorer, score, score_together
from gapwatch.scorers.scoring.scorer_host import ScorerHost
from gapwatch.scorers.slices.selection import Selection, fixed_selection
from gapwatch.scorers.slices.slices import RecordSlice, ScoredSlice


class Product:
    """Portfolios, compiled once, with the selection that they define.

    Args:
        portfolios: As YAML would give them.
        scorers: Where Python scorers run, for portfolios that name any.
    """

    def __init__(self, portfolios: Sequence[dict[str, Any]], scorers: ScorerHost | None = None) -> None:
        texts = [
            yaml.dump(portfolio, allow_unicode=True, sort_keys=False, Dumper=yaml.CSafeDumper)
            for portfolio in portfolios
        ]
        parsed = [parse_portfolio(text) for text in texts]
        self.plan: Plan = compile_plan(parsed)
        self.selection: Selection = fixed_selection(parsed)
        self._scorer = Scorer(self.plan, scorers)

    def score(self, records: RecordSlice, most_ticks: int | None = None) -> ScoredSlice:
        """Score one slice."""
        return score(self._scorer, self.selection, records, most_ticks)

    def score_together(self, slices: Sequence[RecordSlice]) -> list[ScoredSlice]:
        """Score several slices together."""
        return score_together(self._scorer, self.selection, slices)


def record_slice(
    values: Sequence[bytes | None],
    timestamps: Sequence[float | None] | None = None,
    first_offset: int = 0,
) -> RecordSlice:
    """Return a slice of these records at consecutive offsets."""
    seconds = None
    if timestamps is not None:
        seconds = np.array([np.nan if stamp is None else stamp for stamp in timestamps], dtype=np.float64)
    return RecordSlice(
        lane="live",
        topic="traces",
        partition=3,
        from_offset=first_offset,
        to_offset=first_offset + len(values),
        offsets=np.arange(first_offset, first_offset + len(values), dtype=np.int64),
        values=pa.array(values, type=pa.binary()),
        timestamps=seconds,
    )
