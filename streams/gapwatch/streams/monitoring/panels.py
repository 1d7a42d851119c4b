"""Grafana panels with the parts that all dashboards need: title, meaning, unit, legend, reason for missing data."""

from __future__ import annotations

from collections.abc import Sequence

from grafana_foundation_sdk.builders import common, dashboard, prometheus, stat, table, timeseries
from grafana_foundation_sdk.models import common as common_models
from grafana_foundation_sdk.models import dashboard as models
from grafana_foundation_sdk.models import prometheus as prometheus_models

from gapwatch.scorers.portfolio.metric import Metric

SOURCE = models.DataSourceRef(type_val="prometheus", uid="${datasource}")
#: PromQL and the legend of its lines.
Line = tuple[str, str]

#: Ends the legend of a baseline, which is a dashed line.
BASELINE = "baseline"

_NO_DATA = "no data: Prometheus does not scrape gapwatch run, or no trace is stored yet"
_WHOLE_WIDTH, _HEIGHT = 24, 8
#: Unit of a measure to the unit of Grafana.
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
        title: Title of the panel.
        meaning: Description of the panel, one sentence.
        lines: At least one.
        unit: Unit of Grafana.
        no_data: Reason for missing data, shown in their place.
        width: Width, 1 to 24.
        bound: Value of a red line; None for no line.
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
    if any(BASELINE in legend for _, legend in lines):
        style = models.DynamicConfigValue(id_val="custom.lineStyle", value={"fill": "dash", "dash": [6, 6]})
        panel = panel.override_by_regexp(f"/{BASELINE}/", [style])
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
    """Return a panel with one present value.

    Args:
        title: Title of the panel.
        meaning: Description of the panel, one sentence.
        expr: PromQL with one value.
        unit: Unit of Grafana.
        colors: (Value, colour from that value on); the value of the first is None.
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
    """Return a table of present values, a row for each set of labels."""
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
    """Return the median and the 95th percentile of monitored numbers beside their baselines.

    Args:
        metric: A measure, or a metric with scores.
        unit: Unit of its numbers, for people.
        series: Labels of its series in PromQL.
    """
    lines: list[Line] = []
    for level, name in _LEVELS.items():
        lines.append((f'gapwatch_value_quantile{{{series},level="{level}"}}', f"{name} {{{{environment}}}}"))
        lines.append((f'gapwatch_baseline_quantile{{{series},level="{level}"}}', f"{name}, {BASELINE}"))
    meaning = f"{metric.purpose or 'Measured value'}, in {unit}; one number a trace, in the last hour of event time."
    why = "no data: the baseline needs 500 traces"
    return line_panel(f"{metric.name}: values", meaning, lines, _unit(unit), why)


def numbers_panel(metric: Metric, unit: str, series: str) -> timeseries.Panel:
    """Return the median and the 95th percentile of numbers without alerts, one number a span."""

    def quantile(level: str) -> str:
        return f"histogram_quantile({level}, sum by (le) (rate(gapwatch_value_bucket{{{series}}}[$__rate_interval])))"

    lines = [(quantile(level), name) for level, name in _LEVELS.items()]
    meaning = f"{metric.purpose or 'Measured value'}, in {unit}."
    return line_panel(
        f"{metric.name}: values", meaning, lines, _unit(unit), "no data: nothing was measured within the window"
    )


def watched_labels_panel(metric: Metric, series: str) -> timeseries.Panel:
    """Return the shares of monitored labels beside their baselines."""
    lines: list[Line] = [
        (f"gapwatch_label_ratio{{{series}}}", "{{label}}"),
        (f"gapwatch_baseline_label_ratio{{{series}}}", f"{{{{label}}}}, {BASELINE}"),
    ]
    meaning = f"{metric.purpose or 'Labels'}; share of each label in the last hour of event time."
    why = "no data: the baseline needs 200 traces"
    return line_panel(f"{metric.name}: labels", meaning, lines, "percentunit", why)


def _unit(unit: str) -> str:
    return _UNITS.get(unit.lower(), "short")


def choice(name: str, label: str, query: str) -> dashboard.QueryVariable:
    """Return a variable that takes several values; all at first."""
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
    """Return marks at the times that a query returns.

    Args:
        name: Name of the marks.
        expr: PromQL whose values are milliseconds since the epoch.
        color: Colour of the marks.
        title: Title of a mark; {{label}} stands for the value of a label.
        text: Text of a mark, with labels as in the title.
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
    """Return an empty dashboard with a choice of the Prometheus data source."""
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
