"""Prometheus rules: incidents, and failures of Gapwatch itself that only Prometheus can see."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gapwatch.scorers.portfolio.portfolio import Portfolio

_WHERE = "{{ $labels.pipeline }} in {{ $labels.environment }}"
_MOVED = (
    "{{ $labels.name }}: {{ $labels.share }} {{ with $labels.before }}{{ . }} -> {{ end }}{{ $labels.after }}"
    "{{ with $labels.interval }} [{{ . }}]{{ end }}{{ with $labels.since }}, since {{ . }}{{ end }}"
    ", first in {{ $labels.first }}"
)
_ASK = (
    "{{ with $labels.cause }}Likeliest cause: {{ . }}. {{ end }}{{ $labels.command }} says more"
    "{{ with $labels.page }}; the same page: {{ . }}{{ end }}"
)
#: Annotations of an incident, from the labels of `gapwatch_incident_info`.
_CARRIED = (
    "name", "what", "share", "before", "after", "ratio", "interval", "since", "between", "units", "first", "cause",
    "metrics", "rows", "found", "store", "command", "page", "runbook_url", "trace_url",
)  # fmt: skip
#: These labels change while an incident is open, or are texts for people: they are no part of what names an alert.
_DROPPED = ("kind", "state", *_CARRIED, "by", "decided", "instance")

#: Expected traces before missing traces are an alert. Fewer make an alert of a quiet hour, more make the alert late.
_STARVED_TRACES = 100
_STARVED_LEAST_SECONDS, _STARVED_MOST_SECONDS = 900, 86_400
_STARVED_DEFAULT_SECONDS = 3_600


@dataclass(frozen=True)
class Rule:
    """One alerting rule.

    Attributes:
        name: Name of the alert.
        expr: PromQL.
        severity: page or ticket.
        summary: What is wrong, one line.
        description: What it means, and what to do.
        wait: Time for which the expression must hold; None where the detector has the hysteresis.
        keep: Time for which the alert goes on firing without data, to bridge gaps of scrapes.
        labels: Further labels; an empty text removes one.
        annotations: Further annotations.
    """

    name: str
    expr: str
    severity: str
    summary: str
    description: str
    wait: str | None = None
    keep: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)

    def as_yaml(self) -> dict[str, Any]:
        """Return the rule as Prometheus reads it."""
        return {
            "alert": self.name,
            "expr": self.expr,
            **({"for": self.wait} if self.wait else {}),
            **({"keep_firing_for": self.keep} if self.keep else {}),
            "labels": {"severity": self.severity, **self.labels},
            "annotations": {
                "summary": self.summary,
                "description": self.description,
                **self.annotations,
            },
        }


def _text(value: str) -> str:
    """Return a text as PromQL's double-quoted literal."""
    return json.dumps(value, ensure_ascii=False)


def _template(text: str) -> str:
    """Return a text escaped for the templates of Prometheus."""
    return text.replace("{{", "{{ `{{` }}")


def _of_pipeline(portfolio: Portfolio) -> list[Rule]:
    """Return the rules of one pipeline.

    Rules on incidents have no `for:` and no threshold: the detectors need no windows.
    """
    mine = f"pipeline={_text(portfolio.pipeline)}"
    name = _template(portfolio.pipeline)
    seconds = starved_seconds(portfolio)
    return [
        *_of_incidents(mine),
        Rule(
            "GapwatchStarved", f"time() - gapwatch_newest_event_timestamp_seconds{{{mine}}} > {seconds}", "ticket",
            f"No trace of {name} for {{{{ $value | humanizeDuration }}}} of event time",
            "The pipeline, its publisher or the topic has stopped; missing alerts do not mean that all is well.",
            wait="5m",
        ),
        Rule(
            "GapwatchUnwatched", f"gapwatch_metric_unwatched{{{mine}}} == 1", "ticket",
            f"{{{{ $labels.metric }}}} has decided no trace of {name} for an hour",
            "This metric is not monitored now. gapwatch check --against FILE says what it finds in real traces.",
            wait="2h",
        ),
        Rule(
            "GapwatchWrongTimes",
            f'sum(increase(gapwatch_records_total{{{mine},state=~"ahead|behind"}}[1h]))'
            f' > 0.01 * sum(increase(gapwatch_records_total{{{mine},state="read"}}[1h]))', "ticket",
            f"{{{{ $value | humanize }}}} records of {name} in an hour, more than 1 %, have a time far from the others",
            "The clock of a host is wrong. These records count without a time: the detectors do not use them. "
            "gapwatch_wrong_clock_records_total, /healthz and the log name the host.",
        ),
        Rule(
            "GapwatchLateUnits",
            f"sum(increase(gapwatch_late_units_total{{{mine}}}[1h]))"
            f" > 0.01 * sum(increase(gapwatch_units_total{{{mine}}}[1h]))", "ticket",
            f"{{{{ $value | humanize }}}} units of {name} in an hour, more than 1 %, came late",
            "They count in the tick that was open when they came, so changes are dated late. Look for a host whose "
            "clock is behind, or a publisher that waits for Kafka.",
        ),
        Rule(
            "GapwatchComponentUnwatched", f"gapwatch_component_unwatched{{{mine}}} == 1", "ticket",
            f"No span of {{{{ $labels.component }}}} of {name} was scored for an hour",
            "The publisher uses another name, the spans are lost, or no metric is about this component.", wait="2h",
        ),
        Rule(
            "GapwatchBlind", f'gapwatch_series{{{mine},phase="blind"}} > 0', "ticket",
            f"{{{{ $value }}}} series cannot detect a change of the size that they should, {_WHERE}",
            "Too few traces, or too small a budget; gapwatch_smallest_change_ratio is what each can detect.",
            wait="6h",
        ),
        Rule(
            "GapwatchBoundUnchecked", f'gapwatch_bound_state{{{mine},state="too_few"}} == 1', "ticket",
            f"The bound on {{{{ $labels.of }}}} of {{{{ $labels.metric }}}} was not checked for a day, {_WHERE}",
            "Its window of {{ $labels.window }} holds fewer traces than min_units: make the window longer.", wait="24h",
        ),
        Rule(
            "GapwatchJudgeBudget",
            "sum by (pipeline, metric)"
            f' (increase(gapwatch_unscored_spans_total{{{mine},state="shed_budget"}}[1h])) > 0', "ticket",
            "The budget for judges is spent: {{ $labels.metric }} of " + name + " skips spans",
            "Its rates rest on fewer traces until the week ends. Raise judge_usd_per_week, or lower the sampling rate.",
        ),
    ]  # fmt: skip


def _of_incidents(mine: str) -> list[Rule]:
    """Return the rules of incidents: one alert of Prometheus for each.

    It fires until the incident is over, so that Alertmanager says *resolved* only then. Alerts that join it later
    change its annotations, not its labels, so nobody is called again. While somebody works on it, a second rule fires
    one step lower; Alertmanager mutes the first one by it, as it does for a silence.
    """
    carried = {name: f"{{{{ $labels.{name} }}}}" for name in _CARRIED}
    decided = {"by": "{{ $labels.by }}", "at": "{{ $labels.decided }}"}
    named = dict.fromkeys(_DROPPED, "")
    lower = {"page": "ticket", "ticket": "note"}
    return [
        *(
            Rule(
                f"Gapwatch{severity.capitalize()}", f'gapwatch_incident_info{{{mine},severity="{severity}"}}', severity,
                f"{{{{ $labels.what }}}}: {_MOVED}, {_WHERE}", _ASK, keep="2m", labels=named, annotations=carried,
            )
            for severity in lower
        ),
        *(
            Rule(
                f"Gapwatch{severity.capitalize()}Acknowledged",
                f'gapwatch_incident_info{{{mine},severity="{severity}",state="acknowledged"}}', lower[severity],
                f"Acknowledged by {{{{ $labels.by }}}}: {_MOVED}, {_WHERE}", _ASK,
                labels={**named, "acknowledged": "true"}, annotations={**carried, **decided},
            )
            for severity in lower
        ),
        Rule(
            "GapwatchSilenced", f'gapwatch_incident_info{{{mine},state="silenced"}}', "note",
            f"Silenced by {{{{ $labels.by }}}}: {_MOVED}, {_WHERE}", _ASK,
            labels={**named, "silenced": "true"}, annotations={**carried, **decided},
        ),
    ]  # fmt: skip


def starved_seconds(portfolio: Portfolio) -> int:
    """Return the seconds without a trace after which the pipeline counts as starved, by its declared volume."""
    a_day = portfolio.volume.traces_per_day
    if not a_day:
        return _STARVED_DEFAULT_SECONDS
    seconds = round(_STARVED_TRACES / a_day * 86_400 / 300) * 300  # the gauge moves in steps of five minutes
    return min(max(seconds, _STARVED_LEAST_SECONDS), _STARVED_MOST_SECONDS)


#: Rules on failures of Gapwatch that Gapwatch itself cannot report, or not in time.
ITSELF = (
    Rule(
        "GapwatchAbsent", 'absent(up{job="gapwatch"}) or up{job="gapwatch"} == 0', "page",
        "Gapwatch does not answer: the pipelines are not monitored",
        "Look at the process and the end of its log. After a restart it continues from the offsets in its store.",
        wait="2m",
    ),
    Rule(
        "GapwatchBehind", "max by (topic) (gapwatch_lag_seconds) > 600", "ticket",
        "Gapwatch is {{ $value | humanizeDuration }} behind on {{ $labels.topic }}",
        "Alerts are late by this time. {{ if query \"max(gapwatch_broker_answer_age_seconds) > 15\" }}Kafka does not "
        "answer: look at the brokers; more CPU does not help.{{ else }}Kafka answers: add CPU, or remove metrics; "
        "gapwatch_slice_seconds shows the slowest stage.{{ end }}",
        wait="5m",
    ),
    Rule(
        "GapwatchStuck",
        "time() - gapwatch_last_commit_timestamp_seconds > 600 and on () sum(gapwatch_lag_records) > 0", "page",
        "Gapwatch has stored nothing for {{ $value | humanizeDuration }}, though records wait",
        "The disk may be full, or the process hangs. Restart it: this is safe at any time, and nothing is lost.",
        wait="2m",
    ),
    Rule(
        "GapwatchLedgerImbalance", "gapwatch_ledger_imbalance != 0", "page",
        "Records consumed and records accounted for differ by {{ $value }}",
        "A defect of Gapwatch: rates may be wrong. gapwatch ledger --store S shows where; keep the store and report.",
    ),
    Rule(
        "GapwatchDeadLetters",
        "sum by (topic) (increase(gapwatch_dead_letters_total[15m]))"
        ' > 0.01 * sum by (topic) (increase(gapwatch_records_total{state="read"}[15m]))', "ticket",
        "More than 1 % of the records of {{ $labels.topic }} cannot be read",
        "gapwatch dead-letters --store S says why. No rate counts these records: they are not monitored.", wait="15m",
    ),
    Rule(
        "GapwatchRecordsLost", "increase(gapwatch_records_lost_total[1h]) > 0", "ticket",
        "{{ $value | humanize }} records were deleted by retention before they were read",
        "No rate counts them. Let Gapwatch catch up, or raise the retention of the topic.",
    ),
    Rule(
        "GapwatchOutboxWaits", "min_over_time(gapwatch_outbox_waiting[15m]) > 0", "ticket",
        "{{ $value }} messages for {{ $labels.topic }} are not relayed",
        "The broker is down or refuses them; alerts in the topic are late, alerts by Prometheus are not.", wait="15m",
    ),
)  # fmt: skip


def rules_document(portfolios: Iterable[Portfolio]) -> dict[str, Any]:
    """Return `rules.yml` for the portfolios of one Gapwatch process."""
    groups = [
        {"name": f"gapwatch {portfolio.pipeline}", "rules": [rule.as_yaml() for rule in _of_pipeline(portfolio)]}
        for portfolio in portfolios
    ]
    return {"groups": [*groups, {"name": "gapwatch itself", "rules": [rule.as_yaml() for rule in ITSELF]}]}
