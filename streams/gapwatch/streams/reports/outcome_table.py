"""Table of outcomes in the report of `gapwatch replay`: one line per metric, wide or narrow."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence

from rich.table import Table
from rich.text import Text

from gapwatch.scorers.portfolio.claim import RatioClaim
from gapwatch.scorers.portfolio.metric import Metric
from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.scorers.printable import shown
from gapwatch.scorers.slices.value_histogram import CELL_RATIO, SMALLEST
from gapwatch.sinks.reading.pipeline_results import MetricRate

#: Characters of a name on one line; shorter names are not folded, because they are copied into commands.
_NAME_WIDTH = 32
#: Share of undecided traces above which it is highlighted.
_MUCH_UNKNOWN = 0.2


class OutcomeTable:
    """Outcomes of each metric of a portfolio.

    Args:
        portfolio: The portfolio; its metrics keep the order of the file.
        rates: Failure rate by metric.
        waiting: Number of pending judgements by metric.
        values: Cells of the histogram with their counts, ascending, by measure.
        only: Names of the metrics to show; None for all.
    """

    def __init__(
        self,
        portfolio: Portfolio,
        rates: Mapping[str, MetricRate],
        waiting: Mapping[str, int],
        values: Mapping[str, Sequence[tuple[int, int]]],
        only: Collection[str] | None = None,
    ) -> None:
        self._portfolio = portfolio
        self._rates = rates
        self._waiting = waiting
        self._values = values
        self._only = only

    def wide(self) -> Table:
        """Return a table with all columns."""
        table = report_table(
            "component", "metric", ">traces", ">failing", "95 % CI", ">undecided", "median / 95th", "threshold",
            names=(1, 4),
        )  # fmt: skip
        for component, metrics in self._by_component():
            name = component
            for metric in metrics:
                rate = self._rate(metric)
                cells = [Text(name), Text(_on_lines(metric.name))]
                if rate is None:
                    table.add_row(*cells, *(Text(t) for t in ("-", "-", "", "-", "")), self._nothing(metric))
                else:
                    table.add_row(*cells, *self._figures(metric, rate), self.threshold(metric, rate))
                name = ""
        return table

    def narrow(self) -> Table:
        """Return a table for 80 columns: components above their metrics, no values, unknowns beside the threshold."""
        table = report_table("metric", ">traces", ">failing", "95 % CI", "threshold", names=(0, 3), indent=2)
        for component, metrics in self._by_component():
            table.add_row(Text(component, "bold"))
            for metric in metrics:
                rate, name = self._rate(metric), Text("  " + _on_lines(metric.name, "\n  "))
                if rate is None:
                    table.add_row(name, Text("-"), Text("-"), Text(""), self._nothing(metric))
                    continue
                units, bad, interval, unknown, _ = self._figures(metric, rate)
                last = self.threshold(metric, rate)
                if unknown.plain:
                    last.append("; " if last.plain else "").append_text(unknown).append(" undecided", unknown.style)
                table.add_row(name, units, bad, interval, last)
        return table

    def _by_component(self) -> Iterator[tuple[str, list[Metric]]]:
        metrics = [
            metric
            for metric in self._portfolio.metrics
            if not isinstance(metric.claim, RatioClaim) and (self._only is None or metric.name in self._only)
        ]
        for component in self._portfolio.components:
            if mine := [metric for metric in metrics if metric.component == component.id]:
                yield shown(component.id), mine
        if traces := [metric for metric in metrics if metric.is_trace]:
            yield "the trace", traces

    def _rate(self, metric: Metric) -> MetricRate | None:
        rate = self._rates.get(metric.name)
        return rate if rate is not None and (rate.units or rate.undecided) else None

    def _nothing(self, metric: Metric) -> Text:
        waiting = self._waiting.get(metric.name, 0)
        return Text(f"{waiting:,} judgements pending", "dim") if waiting else Text("never applied", "yellow")

    def _figures(self, metric: Metric, rate: MetricRate) -> list[Text]:
        unknown = rate.unknown_share or 0.0
        return [
            Text(f"{rate.units:,}"),
            styled_share(rate.rate, "bold red" if is_broken(metric, rate) else ""),
            Text(interval_text(rate.lower, rate.upper), "dim"),
            styled_share(unknown, "yellow" if unknown > _MUCH_UNKNOWN else "dim") if unknown else Text(""),
            Text(self._value(metric)),
        ]

    def threshold(self, metric: Metric, rate: MetricRate) -> Text:
        """Return the threshold of a failure rate, and whether the confidence interval meets it."""
        threshold = metric.threshold
        if threshold is None or threshold.of != "failure_rate" or rate.lower is None or rate.upper is None:
            return Text("")
        promised = f"{threshold.operator} {styled_share(threshold.value).plain}"
        if is_broken(metric, rate):
            return Text(f"{promised}  broken", "bold red")
        is_ceiling = threshold.operator in ("<", "<=")
        holds = rate.upper <= threshold.value if is_ceiling else rate.lower >= threshold.value
        return Text(f"{promised}  met", "green") if holds else Text(f"{promised}  unsure", "yellow")

    def _value(self, metric: Metric) -> str:
        cells = self._values.get(metric.name)
        if not cells:
            return ""
        unit = getattr(metric.claim, "unit", "")
        return f"{_short(_quantile(cells, 0.5))} / {_short(_quantile(cells, 0.95))} {shown(unit, 20)}"


def is_broken(metric: Metric, rate: MetricRate) -> bool:
    """Return True if the whole confidence interval of a rate lies beyond the metric's threshold."""
    threshold = metric.threshold
    if threshold is None or threshold.of != "failure_rate" or rate.lower is None or rate.upper is None:
        return False
    if threshold.operator in ("<", "<="):
        return bool(rate.lower > threshold.value)
    return bool(rate.upper < threshold.value)


def report_table(*columns: str, names: Sequence[int], indent: int = 0) -> Table:
    """Return an empty table without borders.

    Args:
        columns: Headers; a leading `>` aligns the column to the right.
        names: Indexes of the columns whose cells are not folded.
        indent: Spaces before the header of the first column, as before its cells.
    """
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for i, column in enumerate(columns):
        head = " " * (indent if i == 0 else 0) + column.lstrip(">")
        table.add_column(
            head,
            justify="right" if column.startswith(">") else "left",
            overflow="fold",
            no_wrap=i in names or column.startswith(">"),
        )
    return table


def _on_lines(name: str, end: str = "\n") -> str:
    return end.join(name[i : i + _NAME_WIDTH] for i in range(0, len(name), _NAME_WIDTH))


def styled_share(share: float | None, style: str = "") -> Text:
    """Return a share as a percentage, below 10 % with two significant digits."""
    if share is None:
        return Text("-", style)
    percent = share * 100
    return Text(f"{percent:.0f} %" if percent >= 10 or percent == 0 else f"{percent:.2g} %", style)


def interval_text(lower: float | None, upper: float | None) -> str:
    """Return an interval of shares in per cent; empty if a limit is None."""
    return "" if lower is None or upper is None else f"[{lower * 100:.1f}, {upper * 100:.1f}]"


def _short(number: float) -> str:
    return f"{number:,.0f}" if abs(number) >= 100 else f"{number:.3g}"


def _quantile(cells: Sequence[tuple[int, int]], q: float) -> float:
    """Return a quantile of a histogram on the logarithmic grid, with an error of at most 1 % of the value."""
    wanted, seen = q * sum(n for _, n in cells), 0
    for cell, n in cells:
        seen += n
        if seen >= wanted:
            return _cell_value(cell)
    return _cell_value(cells[-1][0])


def _cell_value(cell: int) -> float:
    if cell == 0:
        return 0.0
    return math.copysign(SMALLEST * CELL_RATIO ** (abs(cell) - 0.5), cell)
