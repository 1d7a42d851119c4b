"""Prometheus rules: what the detectors found, and what only Prometheus can see of Gapwatch itself."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from gapwatch.scorers.portfolio.portfolio import Portfolio

_OF_SERIES = "{{ $labels.metric }} of {{ or $labels.component `the trace` }}"
_WHERE = "{{ $labels.pipeline }} in {{ $labels.environment }}"
_ASK = "gapwatch alerts --store S --metric {{ $labels.metric }} lists it; gapwatch explain ALERT is one page on it."

#: Traces that should have come before silence is told. Fewer tell a quiet hour as a fault, more tell it late.
_STARVED_TRACES = 100
_STARVED_LEAST_SECONDS, _STARVED_MOST_SECONDS = 900, 86_400
_STARVED_DEFAULT_SECONDS = 3_600


@dataclass(frozen=True)
class Rule:
    """One alerting rule.

    Attributes:
        name: Of the alert.
        expr: PromQL.
        severity: page or ticket.
        summary: One line, what is wrong.
        description: What it means, and what to do.
        wait: For how long it must hold; none where the hysteresis is in the detector.
        keep: For how long it goes on firing without data: gaps of scrapes.
        runbook_url: Where to read on; none where the portfolio names none.
    """

    name: str
    expr: str
    severity: str
    summary: str
    description: str
    wait: str | None = None
    keep: str | None = None
    runbook_url: str | None = None

    def as_yaml(self) -> dict[str, Any]:
        """Return it as Prometheus reads it."""
        return {
            "alert": self.name,
            "expr": self.expr,
            **({"for": self.wait} if self.wait else {}),
            **({"keep_firing_for": self.keep} if self.keep else {}),
            "labels": {"severity": self.severity},
            "annotations": {
                "summary": self.summary,
                "description": self.description,
                **({"runbook_url": self.runbook_url} if self.runbook_url else {}),
            },
        }


def _text(value: str) -> str:
    """Return a text as PromQL's double-quoted literal."""
    return json.dumps(value, ensure_ascii=False)


def _template(text: str) -> str:
    """Return a text that Prometheus' templates leave as it is."""
    return text.replace("{{", "{{ `{{` }}")


def _of_pipeline(portfolio: Portfolio) -> list[Rule]:
    """Return what the detectors and the windows say of one pipeline.

    No `for:` and no threshold on what the detectors found: that would bring back the windows they do without.
    """
    mine = f"pipeline={_text(portfolio.pipeline)}"
    name = _template(portfolio.pipeline)
    runbook = None
    if portfolio.runbook_url is not None:
        runbook = _template(portfolio.runbook_url).replace("{metric}", "{{ $labels.metric }}")
    seconds = starved_seconds(portfolio)
    return [
        Rule(
            "GapwatchPage", f'gapwatch_alert_state{{{mine},severity="page",state="open"}} == 1', "page",
            f"{_OF_SERIES} moved the bad way ({{{{ $labels.kind }}}}), {_WHERE}", _ASK, keep="2m",
            runbook_url=runbook,
        ),
        Rule(
            "GapwatchTicket", f'gapwatch_alert_state{{{mine},severity="ticket",state="open"}} == 1', "ticket",
            f"{_OF_SERIES} moved ({{{{ $labels.kind }}}}), {_WHERE}", _ASK, keep="2m", runbook_url=runbook,
        ),
        Rule(
            "GapwatchStarved", f"time() - gapwatch_newest_event_timestamp_seconds{{{mine}}} > {seconds}", "ticket",
            f"No trace of {name} for {{{{ $value | humanizeDuration }}}} of event time",
            "The pipeline, its publisher or the topic stands still; silence of the detectors says nothing now.",
            wait="5m",
        ),
        Rule(
            "GapwatchUnwatched", f"gapwatch_metric_unwatched{{{mine}}} == 1", "ticket",
            f"{{{{ $labels.metric }}}} could decide no trace of {name} for an hour",
            "It is not green: nobody knows. gapwatch check --against FILE says what it finds in real traces.",
            wait="2h",
        ),
        Rule(
            "GapwatchComponentUnwatched", f"gapwatch_component_unwatched{{{mine}}} == 1", "ticket",
            f"No span of {{{{ $labels.component }}}} of {name} was looked at for an hour",
            "Its publisher names it otherwise, its spans are lost, or no metric is about it.", wait="2h",
        ),
        Rule(
            "GapwatchBlind", f'gapwatch_series{{{mine},phase="blind"}} > 0', "ticket",
            f"{{{{ $value }}}} series would not have seen the change they are to see, {_WHERE}",
            "Too few traces, or too small a budget: gapwatch_smallest_change_ratio says what each would have seen.",
            wait="6h",
        ),
        Rule(
            "GapwatchJudgeBudget",
            "sum by (pipeline, metric)"
            f' (increase(gapwatch_unscored_spans_total{{{mine},state="shed_budget"}}[1h])) > 0', "ticket",
            "The budget for judges is spent: {{ $labels.metric }} of " + name + " leaves spans out",
            "Its rates rest on fewer traces until the week is over. Raise judge_usd_per_week, or lower its rate.",
        ),
    ]  # fmt: skip


def starved_seconds(portfolio: Portfolio) -> int:
    """Return after how many seconds of silence something is wrong, by the declared volume."""
    a_day = portfolio.volume.traces_per_day
    if not a_day:
        return _STARVED_DEFAULT_SECONDS
    seconds = round(_STARVED_TRACES / a_day * 86_400 / 300) * 300  # the gauge moves in steps of five minutes
    return min(max(seconds, _STARVED_LEAST_SECONDS), _STARVED_MOST_SECONDS)


#: What Gapwatch cannot tell of itself, or not when it is needed.
ITSELF = (
    Rule(
        "GapwatchAbsent", 'absent(up{job="gapwatch"}) or up{job="gapwatch"} == 0', "page",
        "Gapwatch does not answer: nothing watches the pipelines",
        "Look at the process and its last lines on standard error. It continues from the offsets in its store.",
        wait="2m",
    ),
    Rule(
        "GapwatchBehind", "max by (topic) (gapwatch_lag_seconds) > 600", "ticket",
        "Gapwatch is {{ $value | humanizeDuration }} behind on {{ $labels.topic }}",
        "Alerts come late by as much. More CPU, or fewer metrics; gapwatch_slice_seconds says which stage takes it.",
        wait="5m",
    ),
    Rule(
        "GapwatchStuck",
        "time() - gapwatch_last_commit_timestamp_seconds > 600 and on () sum(gapwatch_lag_records) > 0", "page",
        "Gapwatch has kept nothing for {{ $value | humanizeDuration }}, though records wait",
        "The disk may be full, or the process hangs: end it, it is safe at any time and continues where it was.",
        wait="2m",
    ),
    Rule(
        "GapwatchLedgerImbalance", "gapwatch_ledger_imbalance != 0", "page",
        "What was consumed and what became of it disagree by {{ $value }}",
        "A defect of Gapwatch: rates may be wrong. gapwatch ledger --store S shows where; keep the store and report.",
    ),
    Rule(
        "GapwatchDeadLetters",
        "sum by (topic) (increase(gapwatch_dead_letters_total[15m]))"
        ' > 0.01 * sum by (topic) (increase(gapwatch_records_total{state="read"}[15m]))', "ticket",
        "More than 1 % of the records of {{ $labels.topic }} cannot be read",
        "gapwatch dead-letters --store S says why. They are in no rate: what they hide is not watched.", wait="15m",
    ),
    Rule(
        "GapwatchRecordsLost", "increase(gapwatch_records_lost_total[1h]) > 0", "ticket",
        "{{ $value | humanize }} records were deleted by retention before they were read",
        "They are in no rate. Catch up, or let the topic retain for longer.",
    ),
    Rule(
        "GapwatchOutboxWaits", "min_over_time(gapwatch_outbox_waiting[15m]) > 0", "ticket",
        "{{ $value }} messages for {{ $labels.topic }} are not relayed",
        "The broker refuses them or is away; alerts in the topic come late, those of this page do not.", wait="15m",
    ),
)  # fmt: skip


def rules_document(portfolios: Iterable[Portfolio]) -> dict[str, Any]:
    """Return `rules.yml` for the portfolios of one Gapwatch."""
    groups = [
        {"name": f"gapwatch {portfolio.pipeline}", "rules": [rule.as_yaml() for rule in _of_pipeline(portfolio)]}
        for portfolio in portfolios
    ]
    return {"groups": [*groups, {"name": "gapwatch itself", "rules": [rule.as_yaml() for rule in ITSELF]}]}
