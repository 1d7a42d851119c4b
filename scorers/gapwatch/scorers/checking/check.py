"""Checks portfolio files: reads each, collects its problems and warnings, and finds two for one pipeline."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from gapwatch.scorers.checking.warnings import Caution, portfolio_warnings
from gapwatch.scorers.errors import PortfolioError, Problem
from gapwatch.scorers.loading.load import load_portfolio
from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.scorers.printable import shown


@dataclass(frozen=True)
class CheckedPortfolio:
    """Result of checking one portfolio file.

    Attributes:
        file: Path as it was given.
        portfolio: The portfolio; None where it is refused.
        problems: Reasons for the refusal; empty for a valid portfolio.
        warnings: Likely oversights in a valid portfolio.
    """

    file: str
    portfolio: Portfolio | None
    problems: tuple[Problem, ...] = ()
    warnings: tuple[Caution, ...] = ()


def check_portfolio(*paths: str | Path, facts: Path | None = None) -> list[CheckedPortfolio]:
    """Check portfolios, each by itself and as a set that runs together.

    Args:
        paths: YAML files.
        facts: File of further facts that apply to all of them.

    Returns:
        One result for each path. A mistake in a file raises nothing.
    """
    checked = [_checked(path, facts) for path in paths]
    owners: dict[str, str] = {}
    for position, one in enumerate(checked):
        if one.portfolio is None:
            continue
        pipeline = one.portfolio.pipeline
        if pipeline in owners:
            text = f"{owners[pipeline]} claims the pipeline {shown(pipeline)}, too: only one of the two can run"
            checked[position] = replace(one, warnings=(*one.warnings, Caution("", text)))
        owners.setdefault(pipeline, one.file)
    return checked


def _checked(path: str | Path, facts: Path | None) -> CheckedPortfolio:
    try:
        portfolio = load_portfolio(path, facts)
    except PortfolioError as error:
        return CheckedPortfolio(str(path), None, tuple(error.problems))
    return CheckedPortfolio(str(path), portfolio, (), tuple(portfolio_warnings(portfolio)))
