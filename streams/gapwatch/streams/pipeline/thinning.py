"""A metric that fails all the time may not flood the store: its rows are thinned, by steps that anybody can repeat.

Each partition is divided into windows of a fixed number of offsets. Where one ends, the spans that it counted decide
how rows are kept in the next one. So a step is a function of the records alone: not of the clock, nor of where a slice
or a process happened to end. Counts and rates are not touched; they come from ticks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gapwatch.scorers.plan.codes import OUTCOME_NAMES
from gapwatch.scorers.slices.selection import Selection
from gapwatch.scorers.slices.slices import ScoredSlice
from gapwatch.streams.pipeline.thinning_options import ThinningOptions

#: Outcomes whose rows are thinned. Rows of those that pass are as many as the portfolio asks for.
THINNED_OUTCOMES = ("warn", "fail", "unknown", "error")
_IDS = {name: number for number, name in enumerate(OUTCOME_NAMES)}
#: Rows are kept more often again only where they are fewer than this share of the limit, lest steps come and go.
_CALM = 0.25


@dataclass
class PartitionThinning:
    """What is thinned in one partition, and what its current window has counted.

    Attributes:
        window: Number of the current window: its first offset divided by the size.
        factors: In force, by (pipeline, metric, outcome).
        counts: Spans of the current window so far, by (pipeline, metric, outcome).
    """

    options: ThinningOptions
    window: int
    factors: dict[tuple[str, str, str], float] = field(default_factory=dict)
    counts: dict[tuple[str, str, str], int] = field(default_factory=dict)

    def enter(self, offset: int, written: Mapping[tuple[str, str, str], float]) -> int | None:
        """Go to the window of an offset; decide what follows from those that end on the way.

        Args:
            offset: Where the next slice begins.
            written: With which probability rows are kept without thinning; as `written_keeps`.

        Returns:
            The first offset for which other factors hold than before, or None where all stays as it is.
        """
        window = offset // self.options.window
        before = dict(self.factors)
        since = None
        # After an empty window nothing is thinned, and nothing changes in further empty ones.
        for passed in range(self.window, min(window, self.window + 2)):
            self._decide(written)
            if self.factors != before and since is None:
                since = (passed + 1) * self.options.window
        self.window = window
        return since if self.factors != before else None

    def count(self, scored: ScoredSlice) -> None:
        """Count a slice that lies in the current window."""
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
    """Return with which probability rows of thinned outcomes are kept as written.

    Args:
        pipelines: By portfolio sha.
        fixed: The policy without thinning.
    """
    keeps = {}
    for (sha, metric), policy in fixed.metrics.items():
        share = 1.0 if policy.selects else float(policy.rates.max())
        for outcome in THINNED_OUTCOMES:
            keeps[pipelines[sha], metric, outcome] = float(policy.keep[_IDS[outcome]]) * share
    return keeps
