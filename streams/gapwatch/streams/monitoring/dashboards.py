"""Grafana dashboards: an overview, and one for each pipeline with its components in the order of their graph."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from grafana_foundation_sdk.builders import dashboard, timeseries
from grafana_foundation_sdk.cog.encoder import JSONEncoder

from gapwatch.scorers.portfolio.claim import CompositeClaim, JudgedClaim, MeasureClaim
from gapwatch.scorers.portfolio.component import Component
from gapwatch.scorers.portfolio.metric import Metric
from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.streams.alerting.rules.alert_rule import AlertRule, rules_of
from gapwatch.streams.monitoring.panels import (
    BASELINE,
    Line,
    board,
    choice,
    line_panel,
    moments,
    number_panel,
    numbers_panel,
    table_panel,
    watched_labels_panel,
    watched_numbers_panel,
)

_HERE = 'pipeline=~"$pipeline",environment=~"$environment"'
_RED: list[tuple[float | None, str]] = [(None, "green"), (1, "red")]
_YELLOW: list[tuple[float | None, str]] = [(None, "green"), (1, "yellow")]


def overview(portfolios: Sequence[Portfolio]) -> dashboard.Dashboard:
    """Return the overview: open alerts, unmonitored components, lag of Gapwatch, cost of the pipelines."""
    state = f"gapwatch_alert_state{{{_HERE}"
    return (
        board("gapwatch-overview", "Gapwatch: overview", "Open alerts, unmonitored metrics and components, lag.")
        .with_variable(choice("pipeline", "Pipeline", "label_values(gapwatch_portfolio_info, pipeline)"))
        .with_variable(
            choice(
                "environment", "Environment", 'label_values(gapwatch_series{pipeline=~"$pipeline"}, environment)'
            )
        )
        .with_panel(
            number_panel("Pages", "Open pages.", f'sum({state},severity="page"}}) or vector(0)', "short", _RED)
        )
        .with_panel(
            number_panel(
                "Tickets", "Open tickets.", f'sum({state},severity="ticket"}}) or vector(0)', "short", _YELLOW
            )
        )
        .with_panel(
            number_panel(
                "Blind", "Series whose minimum detectable change is above their limit blind_above_ratio.",
                f'sum(gapwatch_series{{{_HERE},phase="blind"}}) or vector(0)', "short", _YELLOW,
            )
        )
        .with_panel(
            number_panel(
                "Not monitored", "Metrics and components without a decided trace in the last hour, and numbers and "
                "labels of traces in sessions, which cannot be monitored.",
                'sum(gapwatch_metric_unwatched{pipeline=~"$pipeline"})'
                ' + sum(gapwatch_component_unwatched{pipeline=~"$pipeline"})'
                f' + (sum(gapwatch_series{{{_HERE},phase="unwatched"}}) or vector(0))', "short", _YELLOW,
            )
        )
        .with_panel(
            number_panel(
                "Lag", "Age of the oldest record that is not stored yet.",
                "max(gapwatch_lag_seconds)", "s", [(None, "green"), (60, "yellow"), (600, "red")],
            )
        )
        .with_panel(
            number_panel(
                "Ledger imbalance", "Difference of records consumed and records accounted for; 0 is right.",
                "abs(gapwatch_ledger_imbalance)", "short", _RED,
            )
        )
        .with_panel(
            table_panel(
                "Open alerts", "One line for each alert; gapwatch explain ALERT prints one page on it.",
                f"{state}}} == 1",
                "no alert is open",
            )
        )
        .with_panel(
            line_panel(
                "Series by phase",
                "Only calm series are well: learning series have no baseline yet, blind series too few traces.",
                [(f"sum by (phase) (gapwatch_series{{{_HERE}}})", "{{phase}}")], "short",
            )
        )
        .with_panel(
            line_panel(
                "Alerts and false-alarm budget",
                "Alerts opened so far, and the most false alarms that the budget allows so far.",
                [
                    (f"sum by (severity) (gapwatch_alerts_total{{{_HERE}}})", "{{severity}}s opened"),
                    (f"sum(gapwatch_expected_false_alarms_total{{{_HERE}}})", "false alarms expected at most"),
                ],
                "short",
            )
        )
        .with_panel(
            line_panel(
                "Records", "Records a second by state.",
                [("sum by (state) (rate(gapwatch_records_total[$__rate_interval]))", "{{state}}")], "reqps",
            )
        )
        .with_panel(
            line_panel(
                "Lag by partition", "Consumer lag: offsets of the topic that are not stored yet.",
                [("sum by (topic, partition) (gapwatch_lag_records)", "{{topic}} {{partition}}")], "short",
            )
        )
        .with_panel(
            line_panel(
                "Time of a slice", "95th percentile by stage.",
                [
                    (
                        "histogram_quantile(0.95, sum by (le, stage)"
                        " (rate(gapwatch_slice_seconds_bucket[$__rate_interval])))",
                        "{{stage}}",
                    )
                ],
                "s", "no data: no slice was stored within the window",
            )
        )
        .with_panel(_cost_panel(portfolios))
    )  # fmt: skip


def _cost_panel(portfolios: Sequence[Portfolio]) -> timeseries.Panel:
    names = sorted(
        {m.name for one in portfolios for m in one.metrics if _is_cost(m) and m.component is not None}
    ) or sorted({m.name for one in portfolios for m in one.metrics if _is_cost(m)})
    chosen = "|".join(names) or "none"
    expr = f'sum by (pipeline) (rate(gapwatch_value_sum{{{_HERE},metric=~"{chosen}"}}[$__rate_interval])) * 3600'
    why = "no data: no portfolio measures usage.cost_usd, or no trace carries it" if not names else (
        "no data: no trace with usage.cost_usd came within the window"
    )  # fmt: skip
    meaning = f"Cost of the pipelines' own model calls, by {', '.join(names) or 'no metric: none measures it'}."
    return line_panel("Cost of the pipelines per hour", meaning, [(expr, "{{pipeline}}")], "currencyUSD", why)


def _is_cost(metric: Metric) -> bool:
    return isinstance(metric.claim, MeasureClaim) and metric.claim.field.text.endswith("cost_usd")


def pipeline_board(portfolio: Portfolio) -> dashboard.Dashboard:
    """Return the dashboard of one pipeline: rates with intervals and baselines, values, tiers, shifts and deploys."""
    mine = f'pipeline="{_escaped(portfolio.pipeline)}"'
    here = f'{mine},environment=~"$environment"'
    noted = "gapwatch_last_annotation_timestamp_seconds"
    goal = portfolio.goal or "Rates, evidence, tiers and values."
    rules = {rule.metric: rule for rule in rules_of([portfolio])}
    uid = "gapwatch-" + hashlib.sha256(portfolio.pipeline.encode()).hexdigest()[:12]
    made = (
        board(uid, f"Gapwatch: {portfolio.pipeline}", goal)
        .with_variable(choice("environment", "Environment", f"label_values(gapwatch_series{{{mine}}}, environment)"))
        .annotation(
            moments(
                "Shifts", f"gapwatch_alert_began_timestamp_seconds{{{here}}} * 1000", "red",
                "{{severity}}: {{component}} {{metric}}", "{{kind}}; earliest begin of the change",
            )
        )
        .annotation(
            moments(
                "Deploys", f"({noted}{{{mine}}} or {noted}{{pipeline=\"\"}}) * 1000",
                "blue", "noted with gapwatch annotate", "{{pipeline}}",
            )
        )
        .with_panel(
            table_panel(
                "Open alerts", "One line for each alert; gapwatch explain ALERT prints one page on it.",
                f"gapwatch_alert_state{{{here}}} == 1", "no alert is open",
            )
        )
    )  # fmt: skip
    for component in in_order(portfolio):
        metrics = [m for m in portfolio.metrics if m.component == component.id and m.claim.form != "ratio"]
        if not metrics:
            continue
        made = made.with_row(dashboard.Row(component.name or component.id))
        where = f'{here},component="{_escaped(component.id)}"'
        for panel in (*_metric_panels(metrics, rules, where), *_tier_panels(component, where)):
            made = made.with_panel(panel)
    whole = [m for m in portfolio.metrics if m.component is None and m.claim.form != "ratio"]
    if whole:
        made = made.with_row(dashboard.Row("The whole trace"))
        for panel in _metric_panels(whole, rules, f'{here},component=""'):
            made = made.with_panel(panel)
    return made


def in_order(portfolio: Portfolio) -> list[Component]:
    """Return the components in the order of their graph; components of a circle in the order of the portfolio."""
    left = list(portfolio.components)
    ordered: list[Component] = []
    while left:
        waiting = {component.id for component in left}
        free = [
            c for c in left
            if not any(e.to == c.id and e.from_ in waiting and e.from_ != c.id for e in portfolio.edges)
        ]  # fmt: skip
        ordered.append((free or left)[0])
        left.remove(ordered[-1])
    return ordered


def _tier_panels(component: Component, here: str) -> Iterator[timeseries.Panel]:
    if component.tiers:
        yield line_panel(
            "Tiers", "Share of the component's spans in the last hour of event time.",
            [(f"gapwatch_tier_ratio{{{here}}}", "{{tier}}")], "percentunit",
            "no data: no span of this component came in the last hour of event time",
        )  # fmt: skip


def _metric_panels(metrics: Sequence[Metric], rules: Mapping[str, AlertRule], here: str) -> Iterator[timeseries.Panel]:
    for metric in metrics:
        series, rule = f'{here},metric="{metric.name}"', rules.get(metric.name)
        if _can_fail(metric):
            yield _rate_panel(metric, series)
        if rule is not None and rule.numbers:
            yield watched_numbers_panel(metric, rule.number_unit, series)
        elif isinstance(metric.claim, MeasureClaim):
            yield numbers_panel(metric, metric.claim.unit, series)
        if rule is not None and rule.labels:
            yield watched_labels_panel(metric, series)
    series = f'{here},metric=~"{"|".join(metric.name for metric in metrics)}"'
    yield line_panel(
        "Undecided traces", "Share of traces that no rate counts; the metric cannot see them.",
        [(f"gapwatch_unknown_ratio{{{series}}}", "{{metric}}")], "percentunit",
    )  # fmt: skip
    if any(metric.alert is not None for metric in metrics):
        ratio = f"gapwatch_evidence_log10{{{series}}} / gapwatch_evidence_threshold_log10{{{series}}}"
        yield line_panel(
            "Evidence and threshold", "log10 of the evidence over log10 of the threshold: 1 is an alert.",
            [(ratio, "{{metric}} ({{watched}})")], "short",
            "no data: nothing here is monitored yet; add alert to a metric of the portfolio", bound=1.0,
        )  # fmt: skip


def _can_fail(metric: Metric) -> bool:
    claim = metric.claim
    if isinstance(claim, MeasureClaim):
        return claim.limit is not None
    if isinstance(claim, (CompositeClaim, JudgedClaim)):
        return True
    return claim.form in ("check", "label", "python")


def _rate_panel(metric: Metric, series: str) -> timeseries.Panel:
    lines: list[Line] = [
        (f"gapwatch_failure_ratio{{{series}}}", "failing {{environment}}"),
        (f"gapwatch_failure_ratio_lower{{{series}}}", "95 % lower bound"),
        (f"gapwatch_failure_ratio_upper{{{series}}}", "95 % upper bound"),
    ]
    if metric.alert is not None:
        lines.append((f'gapwatch_baseline_ratio{{{series},watched=~"rate|sessions"}}', BASELINE))
    limit = metric.threshold
    bound = limit.value if limit is not None and limit.of == "failure_rate" else None
    meaning = f"{metric.purpose or 'Failing traces'}; share in the last hour of event time, with its 95 % interval."
    why = f"no data: {metric.name} decided no trace in the last hour of event time"
    return line_panel(f"{metric.name}: failing", meaning, lines, "percentunit", why, bound=bound)


def _escaped(text: str) -> str:
    """Return a text escaped for PromQL's double quotes and for Grafana's variables."""
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("$", "\\x24")


def dashboard_files(portfolios: Sequence[Portfolio]) -> dict[str, str]:
    """Return the dashboards as JSON, by file name."""
    boards = {"overview.json": overview(portfolios)}
    for number, portfolio in enumerate(portfolios):
        name = "".join(c if c.isascii() and (c.isalnum() or c in "_-") else "_" for c in portfolio.pipeline)[:60]
        boards[f"{name}.json" if f"{name}.json" not in boards else f"{name}-{number}.json"] = pipeline_board(portfolio)
    return {name: _as_text(made) for name, made in boards.items()}


def _as_text(made: dashboard.Dashboard) -> str:
    document: dict[str, Any] = json.loads(JSONEncoder(sort_keys=True).encode(made.build()))
    return json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
