"""Report of `gapwatch check --against`: results of each metric on real traces, and likely mistakes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from gapwatch.scorers.loading.problems import nearest
from gapwatch.scorers.plan.plan import claim_fields
from gapwatch.scorers.portfolio.claim import RatioClaim
from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.scorers.printable import shown
from gapwatch.streams.batch.check_against import Against, MetricAgainst, spans_of, unclaimed_components

_SHOWN_OUTCOMES = ("pass", "warn", "fail", "unknown", "skip", "error", "pending", "sampled_out")
_ALL_THE_ROOM = 10_000


def print_against(out: Console, found: Against, portfolios: Sequence[Portfolio]) -> None:
    """Print the results of portfolios on traces.

    Args:
        out: Console to print to.
        found: The results.
        portfolios: The portfolios.
    """
    records = ", ".join(f"{n:,} {state.replace('_', ' ')}" for state, n in found.records.items()) or "no record"
    out.print(Text("Against real traces", style="bold"), Text(records, style="dim"))
    for portfolio in portfolios:
        order = {component.id: place for place, component in enumerate(portfolio.components)}
        mine = [one for one in found.metrics if one.portfolio is portfolio]
        mine.sort(key=lambda one: order.get(one.metric.component or "", len(order)))
        if found.traces[portfolio.pipeline]:
            out.print(_table(out, portfolio, mine))
        _print_doubts(out, found, portfolio, mine)


def _table(out: Console, portfolio: Portfolio, metrics: Sequence[MetricAgainst]) -> Table:
    """Return a table with one column per outcome; on a narrow terminal, with all outcomes in one column."""
    shown_ones = [one for one in metrics if not isinstance(one.metric.claim, RatioClaim)]
    has_volume = portfolio.volume is not None and portfolio.volume.traces_per_day is not None
    wide = _empty_table(has_volume, _outcomes_of(shown_ones))
    narrow = _empty_table(has_volume, ())
    owner = None
    for one in shown_ones:
        name = "the trace" if one.metric.is_trace else shown(one.metric.component, 30)
        first, owner = Text(name if name != owner else ""), name
        if first:
            narrow.add_row(Text(name, style="bold"))
        applies = Text(f"{one.applies:,}", style="" if one.applies else "bold yellow")
        rows = one.rows_per_day if has_volume else one.rows_per_thousand
        stored = Text(f"{rows:,.0f}" if rows is not None else "")
        counts = [_count(outcome, one.outcomes[outcome]) for outcome in _outcomes_of(shown_ones)]
        wide.add_row(first, Text(one.metric.name), applies, *counts, stored, Text(_reasons(one), style="dim"))
        narrow.add_row(Text(f"  {one.metric.name}"), applies, _outcomes_in_words(one), stored)
    # Measured without a limit: otherwise the result is never wider than the terminal.
    needed = Measurement.get(out, out.options.update(max_width=_ALL_THE_ROOM), wide).maximum
    return wide if needed <= out.width else narrow


def _outcomes_of(metrics: Sequence[MetricAgainst]) -> list[str]:
    return [name for name in _SHOWN_OUTCOMES if any(one.outcomes[name] for one in metrics)]


def _empty_table(has_volume: bool, outcomes: Sequence[str]) -> Table:
    """Return a table without rows; without `outcomes`, its texts may be folded."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    if outcomes:
        table.add_column("component", no_wrap=True)
    table.add_column("metric", overflow="fold")
    for name in ("applies", *(outcome.replace("_", " ") for outcome in outcomes)):
        table.add_column(name, justify="right", no_wrap=True)
    if not outcomes:
        table.add_column("outcomes", overflow="fold")
    table.add_column("rows a day" if has_volume else "rows per 1,000", justify="right", no_wrap=True)
    if outcomes:
        table.add_column("why unknown", overflow="fold")
    return table


def _outcomes_in_words(one: MetricAgainst) -> Text:
    words = Text(", ").join(
        _count(name, one.outcomes[name], f"{name.replace('_', ' ')} ") for name in _SHOWN_OUTCOMES if one.outcomes[name]
    )
    reasons = _reasons(one)
    return words.append(f" ({reasons})", style="dim") if reasons else words


def _count(outcome: str, n: int, before: str = "") -> Text:
    style = {"fail": "red", "unknown": "yellow", "error": "bold red"}.get(outcome, "")
    return Text(before + (f"{n:,}" if n else "-"), style=style if n else "dim")


def _reasons(one: MetricAgainst, outcomes: Sequence[str] = ("unknown", "skip", "error")) -> str:
    parts = [f"{shown(reason)} {n:,}" for (outcome, reason), n in one.reasons.most_common() if outcome in outcomes]
    return ", ".join(parts[:4])


def _print_doubts(out: Console, found: Against, portfolio: Portfolio, metrics: Sequence[MetricAgainst]) -> None:
    doubts = [_doubt_of_pipeline(found, portfolio)]
    if found.traces[portfolio.pipeline]:
        doubts = [*_doubts_of_components(found, portfolio, metrics), *(_doubt_of_metric(found, m) for m in metrics)]
    if found.dead_letters:
        causes = ", ".join(f"{cause} {n:,}" for cause, n in found.dead_letters.most_common())
        doubts.append(f"dead letters: {causes}; the first is {shown(found.first_dead_letter, 300)}")
    if not any(doubts):
        return
    out.print(Text("worth a look", style="yellow"))
    table = Table.grid(padding=(0, 1, 0, 0))
    for doubt in filter(None, doubts):
        table.add_row(" -", Text(doubt))
    out.print(table)


def _doubt_of_pipeline(found: Against, portfolio: Portfolio) -> str:
    if not found.records.total():
        return "the files hold no record"
    wanted = f"the files hold no trace of the pipeline {shown(portfolio.pipeline)}"
    if not found.strangers:
        return wanted
    named = ", ".join(f"{shown(name)} ({n:,})" for name, n in found.strangers.most_common(8))
    return f"{wanted}, but of {named}: is `pipeline` spelt as in the traces?"


def _doubts_of_components(found: Against, portfolio: Portfolio, metrics: Sequence[MetricAgainst]) -> Iterator[str]:
    strangers = unclaimed_components(found, portfolio)
    applied = portfolio.with_members(one.metric.component for one in metrics if one.applies)
    for component in portfolio.components:
        if not spans_of(found, portfolio, component.id) and component.id not in applied:
            near = nearest(component.id, strangers)
            meant = f"; did you mean {shown(near)}?" if near else "; is it spelt as in the traces?"
            yield f"component {shown(component.id)}: the traces have no span of it{meant}"
    if strangers:
        named = ", ".join(f"{shown(component)} ({n:,} spans)" for component, n in list(strangers.items())[:8])
        yield f"components in the traces but not in the portfolio: {named}"


def _doubt_of_metric(found: Against, one: MetricAgainst) -> str:
    if isinstance(one.metric.claim, RatioClaim):
        return ""
    watched, name = one.metric.component, f"metric {one.metric.name}"
    if not one.applies:
        has_spans = watched is None or spans_of(found, one.portfolio, watched)
        return f"{name}: applied to no span; its `when` is never true" if has_spans else ""
    everywhere = next(
        (outcome for outcome in ("unknown", "skip", "fail", "error") if one.outcomes[outcome] == one.applies), ""
    )
    if not everywhere:
        return ""
    fields = list(claim_fields(one.metric))
    reads = ", ".join(dict.fromkeys(shown(field.text) for field in fields))
    reads = f"; it reads {reads}" if reads else ""
    why = f" ({_reasons(one, (everywhere,))})" if everywhere != "fail" else ""
    reasons = {reason for outcome, reason in one.reasons if outcome == everywhere}
    could_be_misspelt = any(field.key is not None or field.pointer is not None for field in fields)
    looks_misspelt = could_be_misspelt and (everywhere == "fail" or "absent" in reasons)
    spelt = ": is it spelt as in the traces?" if looks_misspelt else ""
    return f"{name}: {everywhere} on all {one.applies:,}{why}{reads}{spelt}"
