"""Panels of numbers and of mixes of labels: how they lie now, against what they are held."""

from __future__ import annotations

from grafana_foundation_sdk.builders import timeseries

from scorers.metric import Metric
from streams.monitoring.panels import HELD_AGAINST, Line, line_panel

#: Units of measures to Grafana's.
_UNITS = {
    "seconds": "s", "s": "s", "second": "s", "milliseconds": "ms", "ms": "ms", "usd": "currencyUSD",
    "$": "currencyUSD", "dollars": "currencyUSD", "share": "percentunit", "ratio": "percentunit", "bytes": "bytes",
}  # fmt: skip
_LEVELS = {"0.5": "median", "0.95": "95th percentile"}


def watched_numbers_panel(metric: Metric, unit: str, series: str) -> timeseries.Panel:
    """Return the median and the 95th percentile of watched numbers against those that they are held against.

    Args:
        metric: A measure, or what has scores.
        unit: Of its numbers, for people.
        series: Its labels in PromQL.
    """
    lines: list[Line] = []
    for level, name in _LEVELS.items():
        lines.append((f'gapwatch_value_quantile{{{series},level="{level}"}}', f"{name} {{{{environment}}}}"))
        lines.append((f'gapwatch_baseline_quantile{{{series},level="{level}"}}', f"{name}, {HELD_AGAINST}"))
    meaning = f"{metric.purpose or 'What is measured'}, in {unit}; one number a trace, in the last hour of event time."
    why = "no data: fewer than 500 traces were seen, which it takes to learn what to hold it against"
    return line_panel(f"{metric.name}: values", meaning, lines, _unit(unit), why)


def numbers_panel(metric: Metric, unit: str, series: str) -> timeseries.Panel:
    """Return the median and the 95th percentile of numbers that nobody is alerted about, one a span."""

    def quantile(level: str) -> str:
        return f"histogram_quantile({level}, sum by (le) (rate(gapwatch_value_bucket{{{series}}}[$__rate_interval])))"

    lines = [(quantile(level), name) for level, name in _LEVELS.items()]
    meaning = f"{metric.purpose or 'What is measured'}, in {unit}."
    return line_panel(
        f"{metric.name}: values", meaning, lines, _unit(unit), "no data: nothing was measured within the window"
    )


def watched_labels_panel(metric: Metric, series: str) -> timeseries.Panel:
    """Return the shares of watched labels against those that they are held against."""
    lines: list[Line] = [
        (f"gapwatch_label_ratio{{{series}}}", "{{label}}"),
        (f"gapwatch_baseline_label_ratio{{{series}}}", f"{{{{label}}}}, {HELD_AGAINST}"),
    ]
    meaning = f"{metric.purpose or 'Which labels occur'}; their shares in the last hour of event time."
    why = "no data: fewer than 200 traces were seen, which it takes to learn what to hold it against"
    return line_panel(f"{metric.name}: labels", meaning, lines, "percentunit", why)


def _unit(unit: str) -> str:
    return _UNITS.get(unit.lower(), "short")
