"""Addresses that a portfolio gives: where a trace can be looked at, and what to do about a metric."""

from __future__ import annotations

from urllib.parse import quote

from gapwatch.scorers.portfolio.portfolio import Portfolio


def trace_link(portfolio: Portfolio | None, trace_id: str) -> str | None:
    """Return where a trace can be looked at; None where the portfolio does not say.

    Args:
        portfolio: Of its pipeline.
        trace_id: As it came: whatever stands in it stays one part of the address.
    """
    if portfolio is None or portfolio.trace_url is None:
        return None
    return portfolio.trace_url.replace("{trace_id}", quote(trace_id, safe=""))


def runbook_link(portfolio: Portfolio | None, metric: str) -> str | None:
    """Return what to do about a metric; None where the portfolio does not say."""
    if portfolio is None or portfolio.runbook_url is None:
        return None
    return portfolio.runbook_url.replace("{metric}", quote(metric, safe=""))
