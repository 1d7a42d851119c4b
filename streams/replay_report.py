"""What `gapwatch replay` says at its end: what diverged, how sure that is, what nobody watches, and where to look."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import duckdb
from rich.console import Console
from rich.table import Table
from rich.text import Text

from scorers.claim import MeasureClaim, RatioClaim
from scorers.metric import Metric
from scorers.portfolio import Portfolio
from scorers.tick_counts import CELL_RATIO, SMALLEST
from sinks.rate_interval import rates_sql
from sinks.store_file import open_for_reading
from streams.release_comparison import standing_out
from streams.replay import ReplayResult

#: Columns where the output is no terminal.
FILE_WIDTH = 150
_WORST_TRACES = 5

Row = dict[str, Any]


def print_report(store: Path, portfolios: Sequence[Portfolio], result: ReplayResult) -> None:
    """Print what a store holds of some portfolios, after a run has added to it."""
    terminal = Console(highlight=False)
    out = terminal if terminal.is_terminal else Console(highlight=False, width=FILE_WIDTH)
    with open_for_reading(store) as con:
        _print_run(out, result)
        for portfolio in portfolios:
            _Report(out, con, portfolio, store, result.ledger_imbalance).print()


def _print_run(out: Console, result: ReplayResult) -> None:
    text = Text.assemble(
        (f"{result.read:,} traces", "bold"),
        f", {result.spans:,} spans, {result.rows:,} gap rows in {result.seconds:.1f} s",
    )
    if result.duplicates:
        text.append(f"; {result.duplicates:,} records were kept before")
    for n, what in ((result.dead_letters, "dead letters"), (result.foreign, "of other pipelines")):
        if n:
            text.append(f"; {n:,} {what}", style="yellow")
    out.print(text)


class _Report:
    """The report on one portfolio."""

    def __init__(
        self, out: Console, con: duckdb.DuckDBPyConnection, portfolio: Portfolio, store: Path, imbalance: int
    ) -> None:
        self._out = out
        self._con = con
        self._portfolio = portfolio
        self._store = shlex.quote(str(store))
        self._imbalance = imbalance
        self._worst: str | None = None
        self._rates = {row["metric"]: row for row in self._rows(rates_sql("metric", "pipeline = $p"))}
        self._states: dict[str, dict[str, int]] = {}
        counted = "SELECT metric, state, sum(n)::BIGINT AS n FROM ledger"
        for row in self._rows(f"{counted} WHERE pipeline = $p AND metric IS NOT NULL GROUP BY ALL"):
            self._states.setdefault(row["metric"], {})[row["state"]] = row["n"]

    def print(self) -> None:
        out = self._out
        out.print()
        out.print(Text(f"{self._portfolio.portfolio} {self._portfolio.version}", style="bold"), end="")
        out.print(Text(f"  {self._portfolio.goal}" if self._portfolio.goal else "", style="dim"))
        out.print(self._outcomes())
        out.print(
            Text("bad: traces with a failing step, of those that could be told; in brackets the 95 % interval", "dim")
        )
        self._print_standing_out()
        self._print_unwatched()
        self._print_worst()
        self._print_ledger()
        self._print_next()

    def _rows(self, sql: str, **parameters: Any) -> list[Row]:
        result = self._con.execute(sql, {"p": self._portfolio.pipeline, **parameters})
        names = [column[0] for column in result.description]
        return [dict(zip(names, row, strict=True)) for row in result.fetchall()]

    # ---- outcomes ----

    def _outcomes(self) -> Table:
        table = _table("component", "metric", ">traces", ">bad", "  95 %", ">unknown", "value", "promised")
        for component, metrics in self._by_component():
            shown = component
            for metric in metrics:
                if isinstance(metric.claim, RatioClaim):
                    continue
                table.add_row(shown, metric.name, *self._cells(metric))
                shown = ""
        return table

    def _by_component(self) -> Iterable[tuple[str, list[Metric]]]:
        for component in self._portfolio.components:
            mine = [m for m in self._portfolio.metrics if m.component == component.id]
            if mine:
                yield component.id, mine
        traces = [m for m in self._portfolio.metrics if m.is_trace]
        if traces:
            yield "the trace", traces

    def _cells(self, metric: Metric) -> list[Text]:
        rate = self._rates.get(metric.name)
        states = self._states.get(metric.name, {})
        waiting = states.get("pending", 0)
        if rate is None or not (rate["units"] or rate["unknown"]):
            nothing = f"{waiting:,} judgements wait" if waiting else "never applied"
            return [Text("-"), Text("-"), Text(""), Text("-"), Text(""), Text(nothing, "dim" if waiting else "yellow")]
        unknown = rate["unknown_share"] or 0.0
        return [
            Text(f"{rate['units']:,}"),
            _percent(rate["rate"], "bold red" if self._is_over(metric, rate) else ""),
            Text(_interval(rate), "dim"),
            _percent(unknown, "yellow" if unknown > 0.2 else "dim") if unknown else Text(""),
            Text(self._value(metric)),
            self._promise(metric, rate),
        ]

    def _promise(self, metric: Metric, rate: Row) -> Text:
        threshold = metric.threshold
        if threshold is None or threshold.of != "failure_rate" or rate["rate"] is None:
            return Text("")
        promised = f"{threshold.operator} {_share(threshold.value)}"
        if self._is_over(metric, rate):
            return Text(f"{promised}  broken", "bold red")
        if threshold.operator in ("<", "<=") and rate["upper"] > threshold.value:
            return Text(f"{promised}  not shown to hold", "yellow")
        return Text(f"{promised}  kept", "green")

    @staticmethod
    def _is_over(metric: Metric, rate: Row) -> bool:
        """Whether the whole interval lies beyond the threshold."""
        threshold = metric.threshold
        if threshold is None or threshold.of != "failure_rate" or rate["rate"] is None:
            return False
        if threshold.operator in ("<", "<="):
            return bool(rate["lower"] > threshold.value)
        return bool(rate["upper"] < threshold.value)

    def _value(self, metric: Metric) -> str:
        if not isinstance(metric.claim, MeasureClaim):
            return ""
        cells = self._rows(
            """SELECT cell.key AS cell, sum(cell.value)::BIGINT AS n
            FROM (SELECT unnest(map_entries(histogram)) AS cell FROM ticks
                WHERE pipeline = $p AND metric = $m AND level = 'unit' AND facet = 'all')
            GROUP BY ALL ORDER BY 1""",
            m=metric.name,
        )
        if not cells:
            return ""
        middle, high = (_quantile(cells, q) for q in (0.5, 0.95))
        return f"{_short(middle)} / {_short(high)} {metric.claim.unit}"

    # ---- releases ----

    def _print_standing_out(self) -> None:
        known = [metric.name for metric in self._portfolio.metrics]
        rows = standing_out(self._con, self._portfolio.pipeline, known)
        if not rows:
            return
        self._out.print()
        self._out.print(
            Text("Releases that stand out", style="bold"),
            Text("their interval does not touch that of all others together", style="dim"),
        )
        table = _table("release", "metric", ">bad", "  95 %", ">others", "  95 %", "which way")
        last = None
        for row in rows:
            direction = _direction(self._portfolio, row["metric"], row["rate"] > row["other_rate"])
            table.add_row(
                Text(row["release"] if row["release"] != last else ""),
                row["metric"],
                _percent(row["rate"], "bold"),
                Text(_interval(row), "dim"),
                _percent(row["other_rate"], ""),
                Text(_interval({"lower": row["other_lower"], "upper": row["other_upper"]}), "dim"),
                direction,
            )
            last = row["release"]
        self._out.print(table)

    # ---- the rest ----

    def _print_unwatched(self) -> None:
        lines = []
        seen = {r["component"] for r in self._rows("SELECT DISTINCT component FROM ticks WHERE pipeline = $p")}
        measured = {m.component for m in self._portfolio.metrics}
        for component in self._portfolio.components:
            if component.id not in measured:
                lines.append(f"component {component.id}: no metric watches it")
            elif component.id not in seen and not self._waits(component.id):
                lines.append(f"component {component.id}: not one of its spans met a metric")
        for metric in self._portfolio.metrics:
            rate, states = self._rates.get(metric.name), self._states.get(metric.name, {})
            if isinstance(metric.claim, RatioClaim):
                continue
            if rate is not None and rate["units"] == 0 and rate["unknown"]:
                lines.append(f"metric {metric.name}: unknown on each of {rate['unknown']:,} traces")
            elif not states:
                lines.append(f"metric {metric.name}: applied to nothing (gapwatch check --against says why)")
            elif states.get("pending"):
                lines.append(f"metric {metric.name}: {states['pending']:,} judgements wait for a judge")
        if not lines:
            return
        self._out.print()
        self._out.print(Text("Not watched", style="bold"), Text("not green: nobody knows", style="dim"))
        for line in lines:
            self._out.print(Text(f"  {line}", style="yellow"))

    def _waits(self, component: str) -> bool:
        return any(self._states.get(m.name) for m in self._portfolio.metrics if m.component == component)

    def _print_worst(self) -> None:
        rows = self._rows(
            """SELECT trace_id, any_value("release") AS "release", count(*) AS failing,
                list(DISTINCT metric ORDER BY metric) AS metrics
            FROM gaps WHERE pipeline = $p AND outcome = 'fail' GROUP BY trace_id
            ORDER BY len(metrics) DESC, failing DESC, trace_id LIMIT $n""",
            n=_WORST_TRACES,
        )
        if not rows:
            return
        self._out.print()
        self._out.print(Text("Worst traces", style="bold"), Text("by the number of metrics that fail", style="dim"))
        table = _table("trace", "release", ">failing rows", ">metrics", "which")
        for row in rows:
            table.add_row(
                Text(row["trace_id"]), Text(row["release"] or ""), f"{row['failing']:,}", str(len(row["metrics"])),
                Text(", ".join(row["metrics"]), "dim"),
            )  # fmt: skip
        self._out.print(table)
        self._worst = rows[0]["trace_id"]

    def _print_ledger(self) -> None:
        records = {
            row["state"]: row["n"]
            for row in self._rows(
                """SELECT state, sum(n)::BIGINT AS n FROM ledger
                WHERE metric IS NULL AND (pipeline = $p OR pipeline IS NULL) GROUP BY ALL"""
            )
        }
        judged = sum(n for states in self._states.values() for n in states.values())
        text = f"{records.get('read', 0):,} records read"
        for state, words in (("dead_letter", "dead letters"), ("foreign", "of other pipelines")):
            if records.get(state):
                text += f", {records[state]:,} {words}"
        self._out.print()
        self._out.print(
            Text("Ledger", style="bold"),
            Text("balanced:", "green") if self._imbalance == 0 else Text(f"off by {self._imbalance:,}:", "bold red"),
            Text(f"{text}; {judged:,} (span, metric) pairs, each in one state", style="dim"),
        )

    def _print_next(self) -> None:
        store = self._store
        worst = next((m for m in self._portfolio.metrics if self._is_worst(m)), None)
        lines = []
        if worst is not None:
            lines.append(f"gapwatch gaps --store {store} --metric {worst.name} --outcome fail")
        if self._worst is not None:
            lines.append(f"gapwatch gaps --store {store} --trace {shlex.quote(self._worst)}")
        lines.append(f"gapwatch rates --store {store} --per hour")
        lines.append(f"gapwatch history --store {store} 'SELECT * FROM verdicts LIMIT 10'")
        lines.append(f"gapwatch ledger --store {store}")
        self._out.print()
        self._out.print(Text("Next", style="bold"))
        for line in lines:
            self._out.print(Text(f"  {line}"), soft_wrap=True)

    def _is_worst(self, metric: Metric) -> bool:
        rate = self._rates.get(metric.name)
        return rate is not None and self._is_over(metric, rate)


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for column in columns:
        table.add_column(column.lstrip(">"), justify="right" if column.startswith(">") else "left", overflow="fold")
    return table


def _percent(share: float | None, style: str) -> Text:
    return Text("-" if share is None else _share(share), style)


def _share(share: float) -> str:
    percent = share * 100
    return f"{percent:.0f} %" if percent >= 10 or percent == 0 else f"{percent:.2g} %"


def _interval(rate: Row) -> str:
    return "" if rate["lower"] is None else f"[{rate['lower'] * 100:.1f}, {rate['upper'] * 100:.1f}]"


def _short(number: float) -> str:
    return f"{number:,.0f}" if abs(number) >= 100 else f"{number:.3g}"


def _quantile(cells: Sequence[Row], q: float) -> float:
    """Return a quantile of a histogram on the logarithmic grid; off by 1 % of the value at most."""
    wanted, seen = q * sum(cell["n"] for cell in cells), 0
    for cell in cells:
        seen += cell["n"]
        if seen >= wanted:
            return _cell_value(cell["cell"])
    return _cell_value(cells[-1]["cell"])


def _cell_value(cell: int) -> float:
    if cell == 0:
        return 0.0
    return math.copysign(SMALLEST * CELL_RATIO ** (abs(cell) - 0.5), cell)


def _direction(portfolio: Portfolio, name: str, higher: bool) -> Text:
    metric = next(m for m in portfolio.metrics if m.name == name)
    direction = metric.direction
    if direction is None or direction.better == "unknown" or direction.verdict != "verified":
        return Text("polarity unknown", "yellow")
    worse = higher == (direction.better == "lower")
    return Text("worse", "bold red") if worse else Text("better", "green")
