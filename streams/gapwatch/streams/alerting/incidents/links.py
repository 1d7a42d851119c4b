"""Addresses and commands about an alert: its page, its runbook, a trace of it, and what to type."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from urllib.parse import quote

from gapwatch.scorers.errors import UsageError
from gapwatch.scorers.portfolio.portfolio import Portfolio


@dataclass
class PageAddress:
    """Address under which people reach the page of a run; empty until it is known, or without a page."""

    url: str = ""

    def learn(self, url: str) -> None:
        """Use the address at which the run listens, where no other one was given."""
        self.url = self.url or url


@dataclass(frozen=True)
class AlertLinks:
    """Places of one run where a person finds more about an alert.

    Attributes:
        store: Store as the command line names it; empty for none.
        page: Address of the page of the run.
        runbook: Address of runbooks with `{metric}`, for portfolios without `runbook_url`; empty for none.
        trace: Address of traces with `{trace_id}`, for portfolios without `trace_url`; empty for none.
    """

    store: str = ""
    page: PageAddress = field(default_factory=PageAddress)
    runbook: str = ""
    trace: str = ""

    def page_of(self, alert_id: str) -> str:
        """Return the address of the page of an alert; empty without a page."""
        base = self.page.url.rstrip("/")
        return f"{base}/alerts/{alert_id}" if base else ""

    def command(self, alert_id: str) -> str:
        """Return the command that explains an alert."""
        return f"gapwatch explain {alert_id}" + (f" --store {shlex.quote(self.store)}" if self.store else "")

    def fill(self, portfolio: Portfolio) -> Portfolio:
        """Return the portfolio with the addresses of the run where it gives none."""
        missing = {
            name: url
            for name, url in (("runbook_url", self.runbook), ("trace_url", self.trace))
            if url and getattr(portfolio, name) is None
        }
        return portfolio.model_copy(update=missing) if missing else portfolio


def check_template(text: str, option: str, name: str = "") -> str:
    """Return an address from the command line, with `{name}` in it where a name is given.

    Raises:
        UsageError: It is not an http or https address, or lacks the name, or has another one.
    """
    if not text:
        return text
    hole = f"{{{name}}}" if name else ""
    if not text.startswith(("http://", "https://")) or hole not in text or {*text.replace(hole, "")} & {*"{}"}:
        raise UsageError(f"{option} {text!r} is not an address: write https://host/{hole}")
    return text


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
    """Return the address of the runbook of a metric: its own, or that of the portfolio; None without one."""
    if portfolio is None:
        return None
    own = next((one.runbook_url for one in portfolio.metrics if one.name == metric), None)
    url = own or portfolio.runbook_url
    return None if url is None else url.replace("{metric}", quote(metric, safe=""))
