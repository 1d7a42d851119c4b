"""Portfolios compiled for scoring."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scorers.errors import UsageError
from scorers.plan import compile_plan
from scorers.policy import fixed_policy
from scorers.portfolio import Portfolio
from scorers.score import Scorer
from scorers.scorer_host import ScorerHost
from streams.thinning import written_keeps


@dataclass(frozen=True)
class Regime:
    """Portfolios ready to score by.

    Attributes:
        portfolios: Each of another pipeline.
        scorer: Of all of them; for one thread.
        written: With which probability rows are kept as written, for `thinning`.
    """

    portfolios: tuple[Portfolio, ...]
    scorer: Scorer
    written: Mapping[tuple[str, str, str], float]


def make_regime(portfolios: Sequence[Portfolio], scorers: ScorerHost | None = None) -> Regime:
    """Compile portfolios.

    Raises:
        UsageError: Two claim one pipeline, or a Python scorer is missing.
    """
    try:
        scorer = Scorer(compile_plan(portfolios), scorers)
    except ValueError as error:
        raise UsageError(str(error)) from error
    pipelines = {portfolio.sha: portfolio.pipeline for portfolio in portfolios}
    return Regime(tuple(portfolios), scorer, written_keeps(pipelines, fixed_policy(portfolios)))
