"""`Regime`: portfolios compiled for scoring."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gapwatch.scorers.errors import UsageError
from gapwatch.scorers.plan.plan import compile_plan
from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.scorers.scoring.score import Scorer
from gapwatch.scorers.scoring.scorer_host import ScorerHost
from gapwatch.scorers.slices.selection import fixed_selection
from gapwatch.streams.pipeline.thinning import written_keeps


@dataclass(frozen=True)
class Regime:
    """Compiled portfolios.

    Attributes:
        portfolios: The portfolios, each of another pipeline.
        scorer: Scorer of all of them; for one thread.
        written: Probability of storing a row as the portfolio gives it, by (pipeline, metric, outcome); for `thinning`.
    """

    portfolios: tuple[Portfolio, ...]
    scorer: Scorer
    written: Mapping[tuple[str, str, str], float]


def make_regime(portfolios: Sequence[Portfolio], scorers: ScorerHost | None = None) -> Regime:
    """Compile portfolios.

    Args:
        portfolios: Each of another pipeline.
        scorers: Host of the Python scorers; None: the portfolios need none.

    Raises:
        UsageError: Two portfolios are for one pipeline, or a Python scorer is missing.
    """
    try:
        scorer = Scorer(compile_plan(portfolios), scorers)
    except ValueError as error:
        raise UsageError(str(error)) from error
    pipelines = {portfolio.sha: portfolio.pipeline for portfolio in portfolios}
    return Regime(tuple(portfolios), scorer, written_keeps(pipelines, fixed_selection(portfolios)))
