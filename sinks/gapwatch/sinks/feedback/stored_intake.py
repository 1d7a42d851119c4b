"""Intake of feedback for a store that no other process holds: it counts by the latest stored portfolios."""

from __future__ import annotations

from contextlib import closing

from gapwatch.scorers.loading.load import parse_stored_portfolio
from gapwatch.sinks.feedback.intake import FeedbackIntake
from gapwatch.sinks.reading.stored_portfolios import latest_portfolio_texts
from gapwatch.sinks.store.store import Store


def stored_intake(store: Store) -> FeedbackIntake:
    """Return the intake of a store that is open for writing; feedback whose trace came meanwhile is joined."""
    with closing(store.cursor()) as con:
        portfolios = [parse_stored_portfolio(text) for text in latest_portfolio_texts(con)]
    intake = FeedbackIntake(store, portfolios)
    intake.look()
    return intake
