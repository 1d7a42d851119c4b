"""Caps and token prices are values, read once from portfolios and settings."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from gapwatch.scorers.errors import UsageError
from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.sinks.store.store import Store
from gapwatch.sinks.verdicts.budget_leases import Caps, week_of
from gapwatch.sinks.verdicts.intake import VerdictIntake
from gapwatch.streams.judges.calls.terms import FREE, caps_of, checked_terms, terms_of
from tests.scorers.judges.rubrics import judged_metric, portfolio_of
from tests.streams.judges.judged_store import settings

PRICES = {"openai/gpt-4.1-mini": {"input": 1, "output": 4}}


def judged_portfolio(**top: object) -> Portfolio:
    other = judged_metric("polite")
    other["claim"]["judges"] = [{"model": "local/free"}]
    return portfolio_of(judged_metric(), other, **top)


def test_caps_are_those_of_the_portfolio_and_of_the_settings() -> None:
    capped = judged_portfolio(budget={"judge_usd_per_week": 2.0})
    name = capped.portfolio

    assert caps_of([capped], None) == Caps({name: 2.0}, {})
    assert caps_of([judged_portfolio()], settings(usd_per_week={"polite": 1.0})) == Caps({}, {(name, "polite"): 1.0})
    with pytest.raises(UsageError, match="no_such"):
        checked_terms([judged_portfolio()], settings(usd_per_week={"no_such": 1.0}))


def test_terms_have_the_price_of_each_model_and_the_caps_of_their_portfolio() -> None:
    portfolio = judged_portfolio(budget={"judge_usd_per_week": 2.0})
    terms = terms_of(portfolio, settings(prices=PRICES, usd_per_week={"polite": 1.0}))

    assert terms.prices == {"openai/gpt-4.1-mini": (1e-6, 4e-6), "local/free": None}
    assert terms.price("local/free") == FREE
    assert terms.caps == Caps({portfolio.portfolio: 2.0}, {(portfolio.portfolio, "polite"): 1.0})
    for_all = settings(prices={**PRICES, "*": {"input": 2, "output": 3}})
    assert terms_of(portfolio, for_all).prices == {"openai/gpt-4.1-mini": (1e-6, 4e-6), "local/free": (2e-6, 3e-6)}


def test_a_price_is_needed_only_under_a_cap() -> None:
    portfolio, capped = judged_portfolio(), judged_portfolio(budget={"judge_usd_per_week": 2.0})
    checked_terms([portfolio], settings(prices=PRICES))
    checked_terms([portfolio], settings(prices=PRICES, usd_per_week={"faithful": 1.0}))

    refused = "price of local/free is not known, so Gapwatch cannot enforce the weekly cap on polite"
    with pytest.raises(UsageError, match=refused):
        checked_terms([capped], settings(prices=PRICES))
    with pytest.raises(UsageError, match=refused):
        checked_terms([portfolio], settings(prices=PRICES, usd_per_week={"polite": 1.0}))
    with pytest.raises(UsageError, match=refused):
        terms_of(portfolio, settings(prices=PRICES)).check_prices(is_capped=True)


def test_the_intake_lends_up_to_the_caps_that_it_was_handed_last(tmp_path: Path) -> None:
    portfolio = judged_portfolio()
    name, pipeline = portfolio.portfolio, portfolio.pipeline
    with Store.open(tmp_path / "s.duckdb", create=True) as store:
        intake = VerdictIntake(store, store.write_slice, [portfolio], Caps({}, {(name, "faithful"): 1.0}))
        assert intake.look() == {}
        now = datetime.now(UTC)
        while intake.money.lease(name, "faithful", 0.01, 1.0, now).lease is not None:
            pass
        at_the_cap = intake.look()
        intake.portfolios_changed([portfolio], Caps({}, {(name, "faithful"): 100.0}))
        lease = intake.money.lease(name, "faithful", 0.01, 100.0, now).lease

        assert at_the_cap == {(pipeline, "faithful"): 0.125}
        assert intake.look() == {}
        assert lease is not None
        assert (lease.week, lease.usd) == (week_of(datetime.now(UTC)), pytest.approx(99 / 8, rel=0.01))
