"""Terms of judging: a portfolio with the token prices of its judges and its weekly caps, as one frozen value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gapwatch.scorers.errors import UsageError
from gapwatch.scorers.portfolio.claim import JudgedClaim
from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.sinks.verdicts.budget_leases import Caps
from gapwatch.streams.judges.settings import JudgeSettings, vendor_of

#: US dollars per token, input and output.
TokenPrice = tuple[float, float]
#: Stands for an unknown price of a model without a cap.
FREE: TokenPrice = (0.0, 0.0)


@dataclass(frozen=True)
class JudgeTerms:
    """Portfolio with what its judges may cost.

    Attributes:
        portfolio: The portfolio.
        prices: Price of every judge's model; None where it is not known.
        caps: Its weekly caps.
    """

    portfolio: Portfolio
    prices: Mapping[str, TokenPrice | None]
    caps: Caps

    def price(self, model: str) -> TokenPrice:
        """Return the price of a judge's model; `FREE` if it is not known."""
        return self.prices[model] or FREE

    def check_prices(self, is_capped: bool = False) -> None:
        """Check that the price of every model with a cap is known.

        Args:
            is_capped: True: every metric may have a cap that is not known here.

        Raises:
            UsageError: A price is not known.
        """
        name = self.portfolio.portfolio
        for metric, models in _judged(self.portfolio):
            has_cap = is_capped or name in self.caps.portfolios or (name, metric) in self.caps.metrics
            for model in models:
                if has_cap and self.prices[model] is None:
                    raise UsageError(
                        f"the price of {model} is not known, so Gapwatch cannot enforce the weekly cap on {metric}; "
                        "add it under `prices` of the judge settings"
                    )


def terms_of(portfolio: Portfolio, settings: JudgeSettings) -> JudgeTerms:
    """Return the terms of a portfolio.

    Raises:
        UsageError: The settings lack the provider of a model.
    """
    models = {model for _, models in _judged(portfolio) for model in models}
    prices = {model: price_of(model, settings) for model in sorted(models)}
    return JudgeTerms(portfolio, prices, caps_of([portfolio], settings))


def checked_terms(portfolios: Iterable[Portfolio], settings: JudgeSettings) -> tuple[JudgeTerms, ...]:
    """Return the terms of portfolios, if their caps can be enforced.

    Raises:
        UsageError: A cap of the settings names a metric that no portfolio has, or the price of a model with a cap is
            not known.
    """
    terms = tuple(terms_of(portfolio, settings) for portfolio in portfolios)
    unknown = set(settings.usd_per_week) - {metric for one in terms for _, metric in one.caps.metrics}
    if unknown:
        raise UsageError(
            f"usd_per_week of the judge settings names {', '.join(sorted(unknown))}, which no portfolio has as a metric"
        )
    for one in terms:
        one.check_prices()
    return terms


def caps_of(portfolios: Iterable[Portfolio], settings: JudgeSettings | None) -> Caps:
    """Return the weekly caps of portfolios in US dollars; without settings, those that stand in the portfolios."""
    by_name = settings.usd_per_week if settings is not None else {}
    by_portfolio, by_metric = {}, {}
    for portfolio in portfolios:
        if portfolio.budget is not None and portfolio.budget.judge_usd_per_week is not None:
            by_portfolio[portfolio.portfolio] = portfolio.budget.judge_usd_per_week
        for name in {metric.name for metric in portfolio.metrics} & by_name.keys():
            by_metric[portfolio.portfolio, name] = by_name[name]
    return Caps(by_portfolio, by_metric)


def price_of(model: str, settings: JudgeSettings) -> TokenPrice | None:
    """Return the price of a model: from the settings, or litellm's price list if its adapter is used; None otherwise.

    Raises:
        UsageError: The settings lack the model's provider.
    """
    provider = settings.provider(vendor_of(model))
    written = settings.prices.get(model) or settings.prices.get("*")
    if written is not None:
        return written.input / 1e6, written.output / 1e6
    if provider.adapter != "litellm":
        return None
    from gapwatch.streams.judges.models.quiet_litellm import listed_price

    return listed_price(model)


def _judged(portfolio: Portfolio) -> list[tuple[str, list[str]]]:
    """Return the judged metrics of a portfolio with the models of their judges."""
    claims = [(metric.name, metric.claim) for metric in portfolio.metrics]
    return [(name, [j.model for j in claim.judges]) for name, claim in claims if isinstance(claim, JudgedClaim)]
