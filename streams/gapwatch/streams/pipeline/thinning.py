"""Bounds the stored rows of a metric that fails all the time, by lowering the probability of storing a row.

Each partition is divided into windows of a fixed number of offsets. At the end of a window, its counts decide the
probabilities of the next one. A decision therefore depends on the records alone, not on the clock, nor on where a
slice or a process ended, and a backfill repeats it. Counts and rates are not affected; they come from ticks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gapwatch.scorers.plan.codes import OUTCOME_NAMES
from gapwatch.scorers.slices.selection import Selection
from gapwatch.scorers.slices.slices import ScoredSlice
from gapwatch.streams.pipeline.thinning_options import ThinningOptions

#: Outcomes whose rows are thinned. The portfolio alone decides about rows that pass.
THINNED_OUTCOMES = ("warn", "fail", "unknown", "error")
_IDS = {name: number for number, name in enumerate(OUTCOME_NAMES)}
#: The probability rises again only if rows fall below this share of the limit; the gap prevents oscillation.
_CALM = 0.25


@dataclass
class PartitionThinning:
    """Thinning of one partition: the factors in force, and the counts of the current window.

    Attributes:
        options: Size of a window, and most rows in it.
        window: Number of the current window: its first offset divided by the size.
        factors: Factors of the probability of storing a row, by (pipeline, metric, outcome); 1 if missing.
        counts: Spans of the current window so far, by (pipeline, metric, outcome).
    """

    options: ThinningOptions
    window: int
    factors: dict[tuple[str, str, str], float] = field(default_factory=dict)
    counts: dict[tuple[str, str, str], int] = field(default_factory=dict)

    def enter(self, offset: int, written: Mapping[tuple[str, str, str], float]) -> int | None:
        """Advance to the window of an offset, and decide at the end of each window on the way.

        Args:
            offset: First offset of the next slice.
            written: Probability of storing a row without thinning, from `written_keeps`.

        Returns:
            The first offset under changed factors, or None if nothing changed.
        """
        window = offset // self.options.window
        before = dict(self.factors)
        since = None
        # After one empty window nothing is thinned; further empty windows change nothing.
        for passed in range(self.window, min(window, self.window + 2)):
            self._decide(written)
            if self.factors != before and since is None:
                since = (passed + 1) * self.options.window
        self.window = window
        return since if self.factors != before else None

    def count(self, scored: ScoredSlice) -> None:
        """Count a slice of the current window."""
        ledger = scored.tables["ledger"].select(["pipeline", "metric", "state", "n"]).to_pydict()
        for pipeline, metric, state, n in zip(*ledger.values(), strict=True):
            if metric is not None and state in THINNED_OUTCOMES:
                key = (pipeline, metric, state)
                self.counts[key] = self.counts.get(key, 0) + n

    def _decide(self, written: Mapping[tuple[str, str, str], float]) -> None:
        limit = self.options.rows
        factors = {}
        for key in self.factors.keys() | self.counts.keys():
            rows = self.counts.get(key, 0) * written.get(key, 0.0)
            factor = self.factors.get(key, 1.0)
            if rows * factor > limit or rows * factor < limit * _CALM:
                factor = 1.0
                while limit and rows * factor > limit:
                    factor /= 2
            if factor < 1.0:
                factors[key] = factor
        self.factors, self.counts = factors, {}


def written_keeps(pipelines: Mapping[str, str], fixed: Selection) -> dict[tuple[str, str, str], float]:
    """Return the probability of storing a row without thinning, by (pipeline, metric, outcome).

    Args:
        pipelines: Pipeline by sha of the portfolio.
        fixed: The selection without thinning.
    """
    keeps = {}
    for (sha, metric), selection in fixed.metrics.items():
        share = 1.0 if selection.selects else float(selection.rates.max())
        for outcome in THINNED_OUTCOMES:
            keeps[pipelines[sha], metric, outcome] = float(selection.keep[_IDS[outcome]]) * share
    return keeps
