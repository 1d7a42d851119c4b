"""Report of `gapwatch replay`: its conclusion, what is broken or moved, one failing trace, what is not monitored."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from pathlib import Path

from rich.console import Console
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from gapwatch.scorers.command_line import near_path, program_name
from gapwatch.scorers.portfolio.claim import MeasureClaim, RatioClaim
from gapwatch.scorers.portfolio.metric import Metric
from gapwatch.scorers.portfolio.polarity import direction_in_force
from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.scorers.printable import shown
from gapwatch.sinks.reading.alert_query import AlertFilter
from gapwatch.sinks.reading.history import EXAMPLE_QUERY
from gapwatch.sinks.reading.pipeline_results import (
    judged_spans,
    metric_rates,
    record_states,
    seen_components,
    value_cells,
    worst_traces,
)
from gapwatch.sinks.reading.ratio_sums import ratio_rows, ratios_of
from gapwatch.sinks.reading.release_rates import ReleaseRate
from gapwatch.sinks.reading.watched_series import watched_standings
from gapwatch.sinks.store.opening import open_for_reading
from gapwatch.sinks.store.transaction import Connection
from gapwatch.streams.alerting.incidents.stored_alerts import read_alerts
from gapwatch.streams.pipeline.run_summary import RunSummary
from gapwatch.streams.reports.conclusion import (
    by_urgency,
    change_lines,
    change_table,
    counts_text,
    incidents_by_urgency,
    is_blind,
    quiet_text,
    releases_text,
    watch_text,
)
from gapwatch.streams.reports.failing_trace import excerpt_of, metrics_on_texts
from gapwatch.streams.reports.outcome_table import OutcomeTable, interval_text, is_broken, report_table, styled_share
from gapwatch.streams.reports.release_comparison import standing_out
from gapwatch.streams.reports.run_line import print_run, wrong_times

#: Columns if the output is not a terminal.
FILE_WIDTH = 150
_WORST_TRACES = 5


def print_report(
    store: Path, portfolios: Sequence[Portfolio], result: RunSummary, *, show_all: bool | None = None
) -> None:
    """Print the results of portfolios in a store after a run.

    Args:
        store: The store.
        portfolios: The portfolios.
        result: Counts of the run.
        show_all: Print every metric, release and ratio, instead of those that are broken or moved; None if the command
            has no such option.
    """
    terminal = Console(highlight=False)
    out = terminal if terminal.is_terminal else Console(highlight=False, width=FILE_WIDTH)
    with open_for_reading(store) as con:
        print_run(out, result)
        for portfolio in portfolios:
            _Report(out, con, portfolio, store, result, show_all).print()


def _undecided(states: Mapping[str, int]) -> str:
    """Return how the judged spans of a metric without a verdict ended; a metric without judges is unknown."""
    return " or ".join(state for state in ("unknown", "error") if states.get(state)) or "unknown"


class _Report:
    """Report on one portfolio."""

    def __init__(
        self,
        out: Console,
        con: Connection,
        portfolio: Portfolio,
        store: Path,
        result: RunSummary,
        show_all: bool | None,
    ) -> None:
        self._out = out
        self._con = con
        self._portfolio = portfolio
        self._store = shlex.quote(near_path(store))
        self._result = result
        self._show_all = show_all
        self._worst: str | None = None
        self._rates = metric_rates(con, portfolio.pipeline)
        self._ratios = [(ratio, row) for ratio in ratios_of(portfolio) for row in ratio_rows(con, ratio, None)]
        self._states = judged_spans(con, portfolio.pipeline)
        self._alerts = by_urgency(read_alerts(con, AlertFilter(pipeline=portfolio.pipeline)))
        self._incidents = incidents_by_urgency(con, portfolio.pipeline)
        self._releases = standing_out(con, portfolio.pipeline, [metric.name for metric in portfolio.metrics])

    def print(self) -> None:
        out = self._out
        out.print()
        title = Text(f"{shown(self._portfolio.portfolio)} {self._portfolio.version}", "bold")
        out.print(title.append(f"  {shown(self._portfolio.goal, 300)}" if self._portfolio.goal else "", "not bold dim"))
        self._print_conclusion()
        self._print_change()
        self._print_outcomes()
        if self._show_all:
            self._print_ratios()
        if self._show_all or not self._alerts:
            self._print_releases()
        self._print_failing()
        self._print_unmonitored()
        self._print_ledger()
        self._print_next()

    # ---- conclusion ----

    def _print_conclusion(self) -> None:
        self._out.print()
        if self._incidents:
            known = [one for one in self._incidents if not is_blind(one)]
            alerts = [alert.facts for one in known for alert in one.alerts if alert.is_open]
            worse = any(facts.polarity == "worse" or facts.kind == "bound" for facts in alerts)
            head = "It got worse" if worse else "It changed" if known else "A metric went blind"
            self._out.print(Text(f"{head}: {counts_text(known or self._incidents)}", "bold red"))
            table = Table.grid(padding=(0, 2, 0, 2))
            for word, sentence in change_lines(self._incidents):
                table.add_row(Text(word, "dim"), Text(sentence))
            self._out.print(table)
            self._print_watch()
            return
        has_rules = any(metric.alert is not None for metric in self._portfolio.metrics)
        self._out.print(Text(quiet_text(has_rules, self._result.alerts is not None), "bold"))
        broken = [metric.name for metric in self._portfolio.metrics if self._is_broken(metric)]
        if broken:
            listed = ", ".join(broken[:5]) + (", ..." if len(broken) > 5 else "")
            self._out.print(Text(f"Broken over the whole file: {_counted(len(broken), 'threshold')}: {listed}.", "red"))
        worse_ones = [row for row in self._releases if self._way(row).plain == "worse"]
        if text := releases_text(self._releases, worse_ones):
            self._out.print(Text(text, "red"))
        self._print_watch()

    def _print_watch(self) -> None:
        mine = [row for row in watched_standings(self._con, None) if row.pipeline == self._portfolio.pipeline]
        if text := watch_text(mine):
            self._out.print(Text(text, "dim"))

    def _print_change(self) -> None:
        """Print each open alert with the share before its change and since."""
        if not self._alerts:
            return
        self._head(
            "Since the change", "share of failing (or named) traces before each change, and since; event time, UTC"
        )
        wide = change_table(self._alerts, with_ids=True)
        self._out.print(wide if self._has_room(wide) else change_table(self._alerts, with_ids=False))
        if any(alert.facts.bound is not None for alert in self._alerts):
            self._out.print(Text("<= or >= before: no change was dated; the portfolio's threshold is broken", "dim"))

    # ---- outcomes ----

    def _print_outcomes(self) -> None:
        metrics = [metric for metric in self._portfolio.metrics if not isinstance(metric.claim, RatioClaim)]
        moved = {alert.row.metric for alert in self._alerts} | {row.metric for row in self._releases}
        chosen = {m.name for m in metrics if self._show_all or m.name in moved or self._is_broken(m)}
        traces = record_states(self._con, self._portfolio.pipeline).get("read", 0)
        together = ", before and after the change together" if self._alerts else ""
        self._head("Whole file", f"all {traces:,} traces{together}")
        if chosen:
            self._out.print(self._outcomes(chosen))
            meaning = "failing: share of the traces with a failing span; 95 % CI: its confidence interval;"
            self._out.print(Text(meaning, "dim"), Text("unsure: the threshold lies inside it", "dim"))
        if rest := [m for m in metrics if m.name not in chosen]:
            verb = "is" if len(rest) == 1 else "are"
            where = "gapwatch rates" if self._show_all is None else "replay --all"
            text = f"{len(rest)} of {len(metrics)} metrics {verb} neither broken nor moved; {where} shows all"
            self._out.print(Text(text, "dim"))

    def _outcomes(self, chosen: Collection[str]) -> Table:
        waiting = {name: states.get("pending", 0) for name, states in self._states.items()}
        measures = [m.name for m in self._portfolio.metrics if isinstance(m.claim, MeasureClaim)]
        values = {name: value_cells(self._con, self._portfolio.pipeline, name) for name in measures if name in chosen}
        table = OutcomeTable(self._portfolio, self._rates, waiting, values, chosen)
        wide = table.wide()
        return wide if self._has_room(wide) else table.narrow()

    def _has_room(self, table: Table) -> bool:
        return Measurement.get(self._out, self._out.options.update(width=1_000), table).maximum <= self._out.width

    # ---- ratios ----

    def _print_ratios(self) -> None:
        told = [(ratio, row) for ratio, row in self._ratios if row["ratio"] is not None]
        if not told:
            return
        self._head("Ratios", "one sum over traces divided by another; in brackets its confidence interval")
        for ratio, row in told:
            limits = "" if row["lower"] is None else f"  [{row['lower']:.4g}, {row['upper']:.4g}]"
            self._out.print(
                Text(f"  {ratio.metric}: {row['ratio']:.4g}{limits}  {ratio.numerator} / {ratio.denominator}")
            )

    # ---- releases ----

    def _print_releases(self) -> None:
        rows = self._releases
        if not rows:
            return
        self._head("Releases that differ", "their confidence interval does not overlap that of all other releases")
        tables = (self._wide_releases(rows), self._narrow_releases(rows))
        self._out.print(tables[0] if self._has_room(tables[0]) else tables[1])

    def _wide_releases(self, rows: Sequence[ReleaseRate]) -> Table:
        table = report_table(
            "release", "metric", ">failing", "95 % CI", ">others", "95 % CI", "direction", names=(0, 1, 3, 5, 6)
        )
        for release, mine in groupby(rows, key=attrgetter("release")):
            name = shown(release)
            for row in mine:
                metric, bad, interval, others, which_way = self._release_cells(row)
                beside = Text(interval_text(row.other_lower, row.other_upper), "dim")
                table.add_row(Text(name), metric, bad, interval, others, beside, which_way)
                name = ""
        return table

    def _narrow_releases(self, rows: Sequence[ReleaseRate]) -> Table:
        table = report_table("metric", ">failing", "95 % CI", ">others", "direction", names=(0, 2), indent=2)
        for release, mine in groupby(rows, key=attrgetter("release")):
            table.add_row(Text(shown(release, 30), "bold"))
            for row in mine:
                metric, *cells = self._release_cells(row)
                table.add_row(Text("  ").append_text(metric), *cells)
        return table

    def _release_cells(self, row: ReleaseRate) -> list[Text]:
        return [
            Text(row.metric),
            styled_share(row.rate, "bold"),
            Text(interval_text(row.lower, row.upper), "dim"),
            styled_share(row.other_rate),
            self._way(row),
        ]

    def _way(self, row: ReleaseRate) -> Text:
        return _direction(self._portfolio, row.metric, row.rate > row.other_rate)

    # ---- the rest ----

    def _print_unmonitored(self) -> None:
        lines = []
        seen = self._portfolio.with_members(seen_components(self._con, self._portfolio.pipeline))
        measured = self._portfolio.with_members(m.component for m in self._portfolio.metrics)
        for component in self._portfolio.components:
            if component.id not in measured:
                lines.append(f"component {shown(component.id)}: has no metric")
            elif component.id not in seen and not self._waits(component.id):
                lines.append(f"component {shown(component.id)}: no metric applied to any of its spans")
        for metric in self._portfolio.metrics:
            rate, states = self._rates.get(metric.name), self._states.get(metric.name, {})
            if isinstance(metric.claim, RatioClaim):
                lines += [
                    f"metric {ratio.metric}: no ratio, because {ratio.numerator} or {ratio.denominator} is unknown for "
                    f"{row['unknown_share']:.0%} of the traces"
                    for ratio, row in self._ratios
                    if ratio.metric == metric.name and row["ratio"] is None
                ]
                continue
            if rate is not None and rate.units == 0 and rate.undecided:
                lines.append(f"metric {metric.name}: {_undecided(states)} for all {rate.undecided:,} traces")
            elif not states:
                lines.append(f"metric {metric.name}: applied to no span (gapwatch check --against shows why)")
            elif states.get("pending"):
                lines.append(f"metric {metric.name}: {states['pending']:,} judgements are pending")
        if not lines:
            return
        self._head("Not monitored", "Gapwatch cannot tell whether these work")
        for line in lines:
            self._out.print(Text(f"  {line}", style="yellow"))

    def _waits(self, component: str) -> bool:
        return any(self._states.get(m.name) for m in self._portfolio.metrics if m.component == component)

    # ---- failing traces ----

    def _print_failing(self) -> None:
        """Print one failing trace in its own words; with `show_all` the worst traces before it."""
        rows = worst_traces(self._con, self._portfolio.pipeline, _WORST_TRACES)
        if not rows:
            return
        if self._show_all:
            self._head("Worst traces", "by the number of failing metrics")
            for row in rows:
                fails = f"{len(row.metrics)} metrics fail, {row.failing:,} rows"
                name = Text(f"  {shown(row.trace_id, 100)}", "bold")
                self._out.print(name, Text(f" {shown(row.release or '')}  {fails}"), soft_wrap=True)
                self._out.print(Padding(Text(", ".join(row.metrics), "dim"), (0, 0, 0, 6)))
        # A trace id that is not printable cannot be copied into the proposed command.
        self._worst = next((row.trace_id for row in rows if row.trace_id.isprintable()), None)
        wanted = metrics_on_texts(self._portfolio, [alert.row.metric for alert in self._alerts])
        excerpt = excerpt_of(self._con, self._portfolio.pipeline, rows, wanted)
        if excerpt is not None:
            trace, table = excerpt
            release = "" if trace.release is None else f" of release {shown(trace.release)}"
            self._head("One failing trace", f"{shown(trace.trace_id, 100)}{release}, in its own words, shortened")
            self._out.print(table)

    def _print_ledger(self) -> None:
        records = record_states(self._con, self._portfolio.pipeline)
        judged = sum(n for states in self._states.values() for n in states.values())
        text = f"{records.get('read', 0):,} records read"
        for state, words in (("dead_letter", "dead letters"), ("foreign", "of pipelines without a portfolio")):
            if records.get(state):
                text += f", {records[state]:,} {words}"
        self._out.print()
        for line in wrong_times(records, self._result.wrong_clocks):
            self._out.print(Text(line, "yellow"))
        self._out.print(
            Text("Ledger", style="bold"),
            Text("balances:", "green")
            if self._result.ledger_imbalance == 0
            else Text(f"off by {self._result.ledger_imbalance:,}:", "bold red"),
            Text(f"{text}; {judged:,} (span, metric) pairs, each in exactly one state", style="dim"),
        )

    def _print_next(self) -> None:
        program, store = program_name(), self._store
        worst = next((m for m in self._portfolio.metrics if self._is_broken(m)), None)
        lines = []
        if self._alerts:
            lines.append(f"alerts --store {store}")
            lines.append(f"explain {self._alerts[0].row.alert_id} --store {store}")
        if worst is not None:
            lines.append(f"gaps --store {store} --metric {worst.name} --outcome fail")
        if self._worst is not None:
            lines.append(f"gaps --store {store} --trace {shlex.quote(self._worst)}")
        lines.append(f"rates --store {store} --per hour")
        lines.append(f"history --store {store} '{EXAMPLE_QUERY}'")
        lines.append(f"ledger --store {store}")
        self._out.print()
        self._out.print(Text("Next commands", style="bold"))
        for line in lines:
            self._out.print(Text(f"  {program} {line}"), soft_wrap=True)

    def _is_broken(self, metric: Metric) -> bool:
        rate = self._rates.get(metric.name)
        return rate is not None and is_broken(metric, rate)

    def _head(self, title: str, meaning: str) -> None:
        self._out.print()
        self._out.print(Text(f"{title}:", style="bold"), Text(meaning, style="dim"))


def _counted(count: int, what: str) -> str:
    """Return a count with its noun, `1 page` or `3 pages`; empty for none."""
    return f"{count} {what}{'s' if count > 1 else ''}" if count else ""


def _direction(portfolio: Portfolio, name: str, higher: bool) -> Text:
    metric = next(m for m in portfolio.metrics if m.name == name)
    direction = direction_in_force(metric, portfolio.facts)
    if direction is None or direction.better == "unknown" or direction.verdict != "verified":
        return Text("polarity unknown", "yellow")
    worse = higher == (direction.better == "lower")
    return Text("worse", "bold red") if worse else Text("better", "green")
