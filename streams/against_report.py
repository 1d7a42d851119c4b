"""What `gapwatch check --against` says: to what each metric applies in real traces, and what it cannot see there."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from scorers.claim import RatioClaim
from scorers.portfolio import Portfolio
from streams.check_against import Against, MetricAgainst, spans_of, unclaimed_components

_SHOWN_OUTCOMES = ("pass", "warn", "fail", "unknown", "skip", "error", "pending", "sampled_out")


def print_against(out: Console, found: Against, portfolios: Sequence[Portfolio]) -> None:
    """Print what some portfolios found in some traces."""
    records = ", ".join(f"{n:,} {state.replace('_', ' ')}" for state, n in found.records.items()) or "no record"
    out.print(Text("Against real traces", style="bold"), Text(records, style="dim"))
    for portfolio in portfolios:
        mine = [one for one in found.metrics if one.portfolio is portfolio]
        out.print(_table(found, portfolio, mine))
        _print_doubts(out, found, portfolio, mine)


def _table(found: Against, portfolio: Portfolio, metrics: Sequence[MetricAgainst]) -> Table:
    outcomes = [name for name in _SHOWN_OUTCOMES if any(one.outcomes[name] for one in metrics)]
    has_volume = portfolio.volume is not None and portfolio.volume.traces_per_day is not None
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("component", overflow="fold")
    table.add_column("metric", no_wrap=True)
    for name in ("applies", *(outcome.replace("_", " ") for outcome in outcomes)):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("rows a day" if has_volume else "rows per 1,000", justify="right", no_wrap=True)
    table.add_column("why unknown", overflow="fold")
    owner = None
    for one in metrics:
        if isinstance(one.metric.claim, RatioClaim):
            continue
        name = "the trace" if one.metric.is_trace else one.metric.component or ""
        rows = one.rows_per_day if has_volume else one.rows_per_thousand
        table.add_row(
            Text(name if name != owner else ""),
            Text(one.metric.name),
            Text(f"{one.applies:,}", style="" if one.applies else "bold yellow"),
            *[_count(outcome, one.outcomes[outcome]) for outcome in outcomes],
            f"{rows:,.0f}" if rows is not None else "",
            Text(_reasons(one), style="dim"),
        )
        owner = name
    return table


def _count(outcome: str, n: int) -> Text:
    style = {"fail": "red", "unknown": "yellow", "error": "bold red"}.get(outcome, "")
    return Text(f"{n:,}" if n else "-", style=style if n else "dim")


def _reasons(one: MetricAgainst) -> str:
    parts = [f"{reason} {n:,}" for (_, reason), n in one.reasons.most_common(4)]
    return ", ".join(parts)


def _print_doubts(out: Console, found: Against, portfolio: Portfolio, metrics: Sequence[MetricAgainst]) -> None:
    doubts = []
    for component in portfolio.components:
        if not spans_of(found, portfolio, component.id):
            doubts.append(
                f"component {component.id}: none of the traces has a span of it; is it spelt as they spell it?"
            )
    strangers = unclaimed_components(found, portfolio)
    if strangers:
        named = ", ".join(f"{component} ({n:,} spans)" for component, n in list(strangers.items())[:8])
        doubts.append(f"in the traces but not in the portfolio: {named}")
    for one in metrics:
        if isinstance(one.metric.claim, RatioClaim):
            continue
        watched = one.metric.component
        if not one.applies and (watched is None or spans_of(found, portfolio, watched)):
            doubts.append(f"metric {one.metric.name}: applied to nothing; its `when` is true nowhere")
        elif one.applies and one.outcomes["unknown"] == one.applies:
            doubts.append(f"metric {one.metric.name}: unknown everywhere ({_reasons(one)}); is the field spelt right?")
    if not found.records["read"]:
        doubts = [f"no record is of the pipeline {portfolio.pipeline}; is `pipeline` spelt as the traces spell it?"]
    if not doubts:
        return
    out.print(Text("worth a look", style="yellow"))
    for doubt in doubts:
        out.print(Text(f"  {doubt}"))
