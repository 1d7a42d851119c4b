"""Block of lines at the start of `gapwatch run`: what is read, where results are, and what to type next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.scorers.version import program_version


@dataclass(frozen=True)
class StartFacts:
    """Facts that the block shows.

    Attributes:
        topic: Topic that is read.
        brokers: Addresses of the cluster; empty for a run without one.
        group: Consumer group.
        store: DuckDB file.
        url: Address of the page, `/metrics` and the API; empty without one.
        portfolios: Portfolios in force.
        open_alerts: Open alerts in the store; None if alerts are off.
        otlp: Address of the OTLP receiver that programs send to; empty without one.
        feed: Rows about what is received and how it is read: name to its lines.
    """

    topic: str
    brokers: str
    group: str
    store: Path
    url: str
    portfolios: Sequence[Portfolio]
    open_alerts: int | None
    otlp: str = ""
    feed: Mapping[str, list[str]] = field(default_factory=dict)


def start_line(facts: StartFacts) -> str:
    """Return the first line: what is monitored."""
    if not facts.brokers:
        return f"gapwatch {program_version()} monitors what programs send to {facts.otlp}"
    return f"gapwatch {program_version()} monitors topic {facts.topic} at {facts.brokers} as group {facts.group}"


def start_rows(facts: StartFacts) -> dict[str, list[str]]:
    """Return the rows below the first line: name to its lines."""
    rows = {
        **facts.feed,
        "portfolio": [_portfolio(one) for one in facts.portfolios],
        "store": [f"{facts.store}{_alerts(facts.open_alerts)}"],
    }
    if facts.url:
        rows |= {"page": [f"{facts.url}/"], "metrics": [f"{facts.url}/metrics"], "API": [f"{facts.url}/v1/about"]}
    feeding = f"gapwatch publish FILE --brokers {facts.brokers} --topic {facts.topic}"
    if facts.otlp:
        feeding = f"OTEL_EXPORTER_OTLP_ENDPOINT={facts.otlp} in the program that is to be watched"
    rows["type next"] = [f"gapwatch alerts --watched --store {facts.store}", feeding]
    return rows


def drawn(rows: Mapping[str, Sequence[str]]) -> str:
    """Return rows as lines for people, each after a line end; programs get the rows themselves."""
    lines = [(name if i == 0 else "", text) for name, texts in rows.items() for i, text in enumerate(texts)]
    return "".join(f"\n  {name:<10} {text}" for name, text in lines)


def _portfolio(portfolio: Portfolio) -> str:
    alerting = sum(metric.alert is not None for metric in portfolio.metrics)
    metrics = f"{len(portfolio.metrics)} {'metric' if len(portfolio.metrics) == 1 else 'metrics'}"
    told = f"{alerting} with an alert" if alerting else "none with an alert: nobody will be told"
    return f"{portfolio.portfolio} version {portfolio.version}, pipeline {portfolio.pipeline}: {metrics}, {told}"


def _alerts(open_alerts: int | None) -> str:
    if open_alerts is None:
        return " (alerts are off)"
    return f" ({open_alerts} {'alert is' if open_alerts == 1 else 'alerts are'} open)" if open_alerts else ""
