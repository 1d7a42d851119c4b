"""Addresses from the templates of a portfolio: of a trace, and of the runbook of a metric."""

from __future__ import annotations

from urllib.parse import quote

from gapwatch.scorers.portfolio.portfolio import Portfolio


def trace_link(portfolio: Portfolio | None, trace_id: str) -> str | None:
    """Return the address that shows a trace; None where the portfolio gives no `trace_url`.

    Args:
        portfolio: Portfolio of the pipeline; None where it is not known.
        trace_id: Id as the trace carries it; it is escaped, so it stays one part of the address.
    """
    if portfolio is None or portfolio.trace_url is None:
        return None
    return portfolio.trace_url.replace("{trace_id}", quote(trace_id, safe=""))


def runbook_link(portfolio: Portfolio | None, metric: str) -> str | None:
    """Return the address of the runbook of a metric; None where the portfolio gives no `runbook_url`."""
    if portfolio is None or portfolio.runbook_url is None:
        return None
    return portfolio.runbook_url.replace("{metric}", quote(metric, safe=""))
