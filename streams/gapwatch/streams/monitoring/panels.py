"""Panels of Grafana as all our dashboards have them: title, meaning, unit, legend, and why there is no data."""

from __future__ import annotations

from collections.abc import Sequence

from grafana_foundation_sdk.builders import common, dashboard, prometheus, stat, table, timeseries
from grafana_foundation_sdk.models import common as common_models
from grafana_foundation_sdk.models import dashboard as models
from grafana_foundation_sdk.models import prometheus as prometheus_models

from gapwatch.scorers.portfolio.metric import Metric

SOURCE = models.DataSourceRef(type_val="prometheus", uid="${datasource}")
#: PromQL and the legend of what it gives.
Line = tuple[str, str]

#: Ends the legend of what something is held against: a dashed line.
HELD_AGAINST = "held against"

_NO_DATA = "no data: gapwatch run is not scraped, or has kept no trace yet"
_WHOLE_WIDTH, _HEIGHT = 24, 8
#: Units of measures to Grafana's.
_UNITS = {
    "seconds": "s", "s": "s", "second": "s", "milliseconds": "ms", "ms": "ms", "usd": "currencyUSD",
    "$": "currencyUSD", "dollars": "currencyUSD", "share": "percentunit", "ratio": "percentunit", "bytes": "bytes",
}  # fmt: skip
_LEVELS = {"0.5": "median", "0.95": "95th percentile"}


def line_panel(
    title: str,
    meaning: str,
    lines: Sequence[Line],
    unit: str,
    no_data: str = _NO_DATA,
    width: int = 12,
    bound: float | None = None,
) -> timeseries.Panel:
    """Return lines over time.

    Args:
        title: Of the panel.
        meaning: One sentence.
        lines: At least one.
        unit: A unit of Grafana's.
        no_data: Why there may be none.
        width: Of 24.
        bound: Drawn as a line; None for none.
    """
    panel = (
        timeseries.Panel()
        .title(title)
        .description(meaning)
        .datasource(SOURCE)
        .unit(unit)
        .no_value(no_data)
        .min(0)
        .span(width)
        .height(_HEIGHT)
        .legend(
            common.VizLegendOptions()
            .show_legend(True)
            .display_mode(common_models.LegendDisplayMode.LIST)
            .placement(common_models.LegendPlacement.BOTTOM)
        )
        .tooltip(
            common.VizTooltipOptions()
            .mode(common_models.TooltipDisplayMode.MULTI)
            .sort(common_models.SortOrder.DESCENDING)
        )
    )
    for ref_id, (expr, legend) in zip("ABCDEFGHIJKLMNOP", lines, strict=False):
        panel = panel.with_target(_query(ref_id, expr, legend).range())
    if any(HELD_AGAINST in legend for _, legend in lines):
        style = models.DynamicConfigValue(id_val="custom.lineStyle", value={"fill": "dash", "dash": [6, 6]})
        panel = panel.override_by_regexp(f"/{HELD_AGAINST}/", [style])
    if bound is not None:
        steps = [models.Threshold(value=None, color="transparent"), models.Threshold(value=bound, color="red")]
        panel = panel.thresholds(dashboard.ThresholdsConfig().mode(models.ThresholdsMode.ABSOLUTE).steps(steps))
        panel = panel.thresholds_style(
            common.GraphThresholdsStyleConfig().mode(common_models.GraphThresholdsStyleMode.LINE)
        )
    return panel


def number_panel(
    title: str, meaning: str, expr: str, unit: str, colors: Sequence[tuple[float | None, str]]
) -> stat.Panel:
    """Return one number, now.

    Args:
        title: Of the panel.
        meaning: One sentence.
        expr: PromQL with one value.
        unit: A unit of Grafana's.
        colors: Its colour from a value on; the first from None.
    """
    steps = [models.Threshold(value=value, color=color) for value, color in colors]
    return (
        stat.Panel()
        .title(title)
        .description(meaning)
        .datasource(SOURCE)
        .unit(unit)
        .no_value(_NO_DATA)
        .span(4)
        .height(4)
        .thresholds(dashboard.ThresholdsConfig().mode(models.ThresholdsMode.ABSOLUTE).steps(steps))
        .with_target(_query("A", expr, title).instant())
    )


def table_panel(title: str, meaning: str, expr: str, no_data: str) -> table.Panel:
    """Return what is so now, a row for each set of labels."""
    return (
        table.Panel()
        .title(title)
        .description(meaning)
        .datasource(SOURCE)
        .unit("short")
        .no_value(no_data)
        .span(_WHOLE_WIDTH)
        .height(_HEIGHT)
        .with_target(_query("A", expr, title).instant().format(prometheus_models.PromQueryFormat.TABLE))
    )


def _query(ref_id: str, expr: str, legend: str) -> prometheus.Dataquery:
    return prometheus.Dataquery().expr(expr).legend_format(legend).datasource(SOURCE).ref_id(ref_id)


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


def choice(name: str, label: str, query: str) -> dashboard.QueryVariable:
    """Return a variable of which several values may be chosen; all at first."""
    return (
        dashboard.QueryVariable(name)
        .label(label)
        .datasource(SOURCE)
        .query(query)
        .multi(True)
        .include_all(True)
        .current(models.VariableOption(text="All", value="$__all"))
        .refresh(models.VariableRefresh.ON_TIME_RANGE_CHANGED)
    )


def moments(name: str, expr: str, color: str, title: str, text: str) -> dashboard.AnnotationQuery:
    """Return marks at times that are the values of a query.

    Args:
        name: What is marked.
        expr: PromQL whose values are milliseconds since 1970.
        color: Of the marks.
        title: May name labels as {{label}}.
        text: The same.
    """
    return (
        dashboard.AnnotationQuery()
        .name(name)
        .datasource(SOURCE)
        .enable(True)
        .icon_color(color)
        .expr(expr)
        .title_format(title)
        .text_format(text)
        .step("60s")
        .use_value_for_time(True)
    )


def board(uid: str, title: str, meaning: str) -> dashboard.Dashboard:
    """Return an empty dashboard with its data source to be chosen."""
    return (
        dashboard.Dashboard(title)
        .uid(uid)
        .description(meaning)
        .tags(["gapwatch"])
        .readonly()
        .refresh("30s")
        .time("now-6h", "now")
        .timezone("utc")
        .with_variable(dashboard.DatasourceVariable("datasource").label("Prometheus").type("prometheus"))
    )
