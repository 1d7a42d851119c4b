"""Weekly caps and token prices of judges, as values that are computed when a portfolio is loaded."""

from __future__ import annotations

from collections.abc import Sequence

from gapwatch.scorers.errors import UsageError
from gapwatch.scorers.portfolio.claim import JudgedClaim
from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.sinks.verdicts.budget_leases import Caps
from gapwatch.streams.judges.models.model_maker import PriceFinder, TokenPrice
from gapwatch.streams.judges.settings import JudgeSettings

#: Price of a model whose price is not known and which no cap bounds.
FREE: TokenPrice = (0.0, 0.0)


def caps_of(portfolios: Sequence[Portfolio], settings: JudgeSettings | None) -> Caps:
    """Return the weekly caps that portfolios and settings write down."""
    by_name = settings.usd_per_week if settings is not None else {}
    by_portfolio = {
        p.portfolio: p.budget.judge_usd_per_week
        for p in portfolios
        if p.budget is not None and p.budget.judge_usd_per_week is not None
    }
    by_metric = {(p.portfolio, m.name): by_name[m.name] for p in portfolios for m in p.metrics if m.name in by_name}
    return Caps(by_portfolio, by_metric)


def check_caps(portfolios: Sequence[Portfolio], settings: JudgeSettings) -> None:
    """Hold the settings against the portfolios that they are for.

    Raises:
        UsageError: The settings cap a metric that no portfolio has.
    """
    unknown = set(settings.usd_per_week) - {m.name for p in portfolios for m in p.metrics}
    if unknown:
        raise UsageError(f"usd_per_week names {', '.join(sorted(unknown))}, which no portfolio has")


def listed_prices(portfolios: Sequence[Portfolio], price_of: PriceFinder) -> dict[str, TokenPrice | None]:
    """Return the price of every judge's model; None where it is not known."""
    return {model: price_of(model) for portfolio in portfolios for _, models in _judged(portfolio) for model in models}


def known_prices(portfolios: Sequence[Portfolio], caps: Caps, price_of: PriceFinder) -> dict[str, TokenPrice]:
    """Return the price of every judge's model; `FREE` where it is not known.

    Raises:
        UsageError: It is not known, and a cap depends on it.
    """
    found = listed_prices(portfolios, price_of)
    for portfolio in portfolios:
        for metric, models in _judged(portfolio):
            capped = portfolio.portfolio in caps.portfolios or (portfolio.portfolio, metric) in caps.metrics
            unknown = next((model for model in models if found[model] is None), None)
            if capped and unknown is not None:
                raise UsageError(
                    f"the price of {unknown} is not known, so the cap on {metric} cannot be kept; "
                    "write it under `prices` of the settings"
                )
    return {model: price or FREE for model, price in found.items()}


def _judged(portfolio: Portfolio) -> list[tuple[str, list[str]]]:
    """Return the judged metrics of a portfolio, each with the models of its judges."""
    claims = [(metric.name, metric.claim) for metric in portfolio.metrics]
    return [(name, [j.model for j in claim.judges]) for name, claim in claims if isinstance(claim, JudgedClaim)]
