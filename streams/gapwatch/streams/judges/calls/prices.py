"""Weekly caps and token prices of the judges of a portfolio."""

from __future__ import annotations

from collections.abc import Sequence

from gapwatch.scorers.errors import UsageError
from gapwatch.scorers.portfolio.claim import JudgedClaim
from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.sinks.verdicts.budget_leases import Caps
from gapwatch.streams.judges.models.model_maker import PriceFinder, TokenPrice
from gapwatch.streams.judges.settings import JudgeSettings

#: Stands for an unknown price of a model without a cap.
FREE: TokenPrice = (0.0, 0.0)


def caps_of(portfolios: Sequence[Portfolio], settings: JudgeSettings | None) -> Caps:
    """Return the weekly caps in US dollars from portfolios and settings.

    Args:
        portfolios: The portfolios.
        settings: Settings of the judges; None: caps of the portfolios only.
    """
    by_name = settings.usd_per_week if settings is not None else {}
    by_portfolio = {
        p.portfolio: p.budget.judge_usd_per_week
        for p in portfolios
        if p.budget is not None and p.budget.judge_usd_per_week is not None
    }
    by_metric = {(p.portfolio, m.name): by_name[m.name] for p in portfolios for m in p.metrics if m.name in by_name}
    return Caps(by_portfolio, by_metric)


def check_caps(portfolios: Sequence[Portfolio], settings: JudgeSettings) -> None:
    """Check that every cap of the settings names a metric of the portfolios.

    Raises:
        UsageError: A cap names a metric that no portfolio has.
    """
    unknown = set(settings.usd_per_week) - {m.name for p in portfolios for m in p.metrics}
    if unknown:
        raise UsageError(
            f"usd_per_week of the judge settings names {', '.join(sorted(unknown))}, which no portfolio has as a metric"
        )


def listed_prices(portfolios: Sequence[Portfolio], price_of: PriceFinder) -> dict[str, TokenPrice | None]:
    """Return the price of every judge's model; None if it is not known."""
    return {model: price_of(model) for portfolio in portfolios for _, models in _judged(portfolio) for model in models}


def known_prices(portfolios: Sequence[Portfolio], caps: Caps, price_of: PriceFinder) -> dict[str, TokenPrice]:
    """Return the price of every judge's model; `FREE` if it is not known.

    Args:
        portfolios: Portfolios of the judges.
        caps: Weekly caps.
        price_of: Returns the price of a model.

    Raises:
        UsageError: The price of a model with a cap is not known.
    """
    found = listed_prices(portfolios, price_of)
    for portfolio in portfolios:
        for metric, models in _judged(portfolio):
            capped = portfolio.portfolio in caps.portfolios or (portfolio.portfolio, metric) in caps.metrics
            unknown = next((model for model in models if found[model] is None), None)
            if capped and unknown is not None:
                raise UsageError(
                    f"the price of {unknown} is not known, so Gapwatch cannot enforce the weekly cap on {metric}; "
                    "add it under `prices` of the judge settings"
                )
    return {model: price or FREE for model, price in found.items()}


def _judged(portfolio: Portfolio) -> list[tuple[str, list[str]]]:
    """Return the judged metrics of a portfolio with the models of their judges."""
    claims = [(metric.name, metric.claim) for metric in portfolio.metrics]
    return [(name, [j.model for j in claim.judges]) for name, claim in claims if isinstance(claim, JudgedClaim)]
