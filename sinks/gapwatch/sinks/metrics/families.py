"""Every name on `/metrics`, once: type, unit, labels, meaning; `/metrics` and `deploy/metrics.md` come from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["counter", "gauge", "histogram"]

#: What names one watched line. An empty one (`component` of a metric of the trace, `judge` of a check) is left out.
SERIES_LABELS = ("pipeline", "environment", "component", "metric", "judge")


@dataclass(frozen=True)
class Family:
    """One metric of the exposition.

    Attributes:
        name: As Prometheus sees it; a histogram's without `_bucket`.
        kind: Its type.
        unit: Unit of its values, for people; empty where it is a bare state or a count of what the name says.
        labels: Names of its labels.
        meaning: The help text, one sentence or two.
        lasting: Whether a counter is rebuilt from the store at start; else it begins at 0 with the process.
    """

    name: str
    kind: Kind
    unit: str
    labels: tuple[str, ...]
    meaning: str
    lasting: bool = False


def _watched(
    name: str, kind: Kind, unit: str, meaning: str, *labels: str, lasting: bool = False, of: tuple[str, ...] = ()
) -> Family:
    return Family(f"gapwatch_{name}", kind, unit, (of or SERIES_LABELS) + labels, meaning, lasting)


def _own(name: str, kind: Kind, unit: str, meaning: str, *labels: str, lasting: bool = False) -> Family:
    return Family(f"gapwatch_{name}", kind, unit, labels, meaning, lasting)


_COMPONENT = ("pipeline", "environment", "component")

#: What is watched, as far as the lane `live` has seen it.
_WATCHED = (
    _watched(
        "failure_ratio", "gauge", "share",
        "Share of bad traces among good and bad ones in the last hour of event time, weighted to all traces made.",
    ),
    _watched("failure_ratio_lower", "gauge", "share", "Lower limit of the 95 % interval of gapwatch_failure_ratio."),
    _watched("failure_ratio_upper", "gauge", "share", "Upper limit of the 95 % interval of gapwatch_failure_ratio."),
    _watched("window_units", "gauge", "traces", "Good and bad traces that gapwatch_failure_ratio is made of."),
    _watched(
        "effective_units", "gauge", "traces",
        "Traces of a plain sample that would say as much as those that gapwatch_failure_ratio is made of.",
    ),
    _watched(
        "unknown_ratio", "gauge", "share",
        "Share of traces of the last hour of event time that could not be decided, weighted; they are in no rate.",
    ),
    _watched(
        "units_total", "counter", "traces", "Traces by what they are for the metric: good, bad, unknown.", "outcome",
        lasting=True,
    ),
    _watched(
        "weighted_units_total", "counter", "traces",
        "Traces made, estimated from gapwatch_units_total by the probability with which each was looked at.", "outcome",
        lasting=True,
    ),
    _watched(
        "spans_total", "counter", "spans",
        "Spans by outcome: pass, warn, fail, skip, unknown, error; for a metric of the trace, traces.", "outcome",
        lasting=True,
    ),
    _watched(
        "last_unit_timestamp_seconds", "gauge", "seconds since 1970",
        "Event time of the newest trace of the series, to five minutes.",
    ),
    _watched(
        "value", "histogram", "that of the metric", "Numbers that the metric measured, one a span, to 1 %.",
        lasting=True,
    ),
    _watched(
        "tier_spans_total", "counter", "spans",
        "Spans of a component by tier, as counted by the metric named; none: the span names no tier, other: one that "
        "the portfolio does not.", "metric", "tier", lasting=True, of=_COMPONENT,
    ),
    _watched(
        "tier_ratio", "gauge", "share", "Share of a tier in the component's spans of the last hour of event time.",
        "metric", "tier", of=_COMPONENT,
    ),
    _own(
        "component_unwatched", "gauge", "0 or 1",
        "Whether a component of the portfolio has no metric, or none of its spans came in the last hour of event time.",
        "pipeline", "component",
    ),
    _own(
        "metric_unwatched", "gauge", "0 or 1",
        "Whether no trace could be decided by a metric in the last hour of event time; never read it as green.",
        "pipeline", "component", "metric",
    ),
    _own(
        "unscored_spans_total", "counter", "spans",
        "Spans left out by selection, budget or load: sampled_out, shed_budget, shed_load.", "pipeline", "metric",
        "state", lasting=True,
    ),
    _own("judge_requests_pending", "gauge", "spans", "Spans that wait for a judge's verdict.", "pipeline", "metric"),
    _own(
        "newest_event_timestamp_seconds", "gauge", "seconds since 1970",
        "The end of the window of the rates: the newest event time kept, to five minutes.", "pipeline",
    ),
)  # fmt: skip

#: What was consumed, and how far behind it is.
_SOURCE = (
    _own(
        "records_total", "counter", "records",
        "Records by what became of them: read, dead_letter, foreign, duplicate; by pipeline where they are of one.",
        "topic", "pipeline", "state", lasting=True,
    ),
    _own("consumed_spans_total", "counter", "spans", "Spans of the records read.", "topic", lasting=True),
    _own(
        "dead_letters_total", "counter", "records", "Records that could not be read, by cause.", "topic", "cause",
        lasting=True,
    ),
    _own(
        "ledger_imbalance", "gauge", "records and spans",
        "By how much what was consumed and what became of it disagree; anything but 0 is a defect.",
    ),
    _own("kept_offset", "gauge", "offset", "The next offset to be kept; everything below is.", "topic", "partition"),
    _own("lag_records", "gauge", "records", "Offsets of the topic that are not kept yet.", "topic", "partition"),
    _own(
        "lag_seconds", "gauge", "seconds",
        "For how long the oldest record that is not kept has waited, as seen by this process; 0 where all is kept.",
        "topic", "partition",
    ),
    _own("source_state", "gauge", "0 or 1", "Which state the source is in; 1 for that one.", "state"),
    _own(
        "records_lost_total", "counter", "records",
        "Records that the topic's retention took before they were read.",
    ),
    _own("slice_seconds", "histogram", "seconds", "Time that one slice took, by stage.", "stage"),
    _own("last_commit_timestamp_seconds", "gauge", "seconds since 1970", "When a slice was kept last."),
    _own("outbox_waiting", "gauge", "messages", "Messages of the outbox that are not relayed yet.", "topic"),
)  # fmt: skip

#: What the detectors found and how they stand.
_ALERTS = (
    _watched(
        "alert_state", "gauge", "0 or 1",
        "1 for each alert that is open; kind: cascade, shift, unknown or bound; state: open, acknowledged or silenced. "
        "Closed ones are gone.", "kind", "severity", "state",
    ),
    _watched(
        "alert_began_timestamp_seconds", "gauge", "seconds since 1970",
        "The earliest time at which the change of an open alert may have begun.", "kind", "severity",
    ),
    _own(
        "alerts_total", "counter", "alerts",
        "Alerts opened so far, by the severity they began with; notes are not counted.", "pipeline", "environment",
        "kind", "severity", lasting=True,
    ),
    _own(
        "series", "gauge", "series",
        "Series by phase: unwatched, learning, blind, calm, suspect, ticket, page. Only calm ones are green.",
        "pipeline", "environment", "phase",
    ),
    _watched(
        "series_phase", "gauge", "1",
        "The phase that one of them is in; watched: rate, sessions, unknown, numbers, labels. What moved may have been "
        "told as an alert on another of the same metric.", "watched", "phase",
    ),
    _watched(
        "evidence_log10", "gauge", "log10 of the evidence",
        "How far the evidence has come that it moved the bad way; once an alert is open it says nothing.", "watched",
    ),
    _watched(
        "evidence_threshold_log10", "gauge", "log10 of the evidence", "At which it is an alert.", "watched",
    ),
    _watched(
        "baseline_ratio", "gauge", "share", "What a rate is held against, all hours together.", "watched",
    ),
    _watched(
        "value_quantile", "gauge", "that of the metric",
        "Quantile of the numbers of the last hour of closed event time, one a trace, to 1 %; of watched numbers.",
        "unit", "level",
    ),
    _watched(
        "baseline_quantile", "gauge", "that of the metric", "What gapwatch_value_quantile is held against.", "unit",
        "level",
    ),
    _watched(
        "label_ratio", "gauge", "share",
        "Share of a label in the last hour of closed event time, of watched labels: the eight that were the most "
        "frequent at first, and other.", "label",
    ),
    _watched(
        "baseline_label_ratio", "gauge", "share", "What gapwatch_label_ratio is held against.", "label",
    ),
    _watched(
        "smallest_change_ratio", "gauge", "after / before",
        "The smallest growth (of numbers and labels: that of a share of 5 %) that a day of units would have shown, as "
        "a median; +Inf for none.", "watched",
    ),
    _own(
        "expected_false_alarms_total", "counter", "alarms",
        "Alarms without a cause that the budget allows so far; hold the audited ones against it.", "pipeline",
        "environment", lasting=True,
    ),
    _own(
        "late_units_total", "counter", "traces", "Traces that came after their tick was closed.", lasting=True,
    ),
    _own(
        "last_annotation_timestamp_seconds", "gauge", "seconds since 1970",
        "Of the latest note, such as a deployment; without a pipeline where it is about all.", "pipeline",
    ),
)  # fmt: skip

_JUDGE = ("pipeline", "metric", "judge")

#: Judges, as this process has closed what they answered.
_JUDGES = (
    _own(
        "judge_verdicts_total", "counter", "requests",
        "Requests that ended, by state: pass, fail, error, shed_budget, shed_load.", *_JUDGE, "state",
    ),
    _own("judge_errors_total", "counter", "requests", "Requests that ended as an error, by reason.", *_JUDGE, "reason"),
    _own(
        "judge_calls_total", "counter", "calls",
        "Calls to providers by what came of them: reply, or the kind of failure.", *_JUDGE, "kind",
    ),
    _own("judge_tokens_total", "counter", "tokens", "Tokens billed, by direction: in, out.", *_JUDGE, "direction"),
    _own("judge_usd_total", "counter", "US dollars", "What calls cost, at most where no provider says.", *_JUDGE),
    _own("judge_call_seconds", "histogram", "seconds", "Time of calls to providers.", *_JUDGE),
    _own(
        "judge_suspicions_total", "counter", "requests",
        "Requests whose inputs seem to speak to the judge, by kind.", "pipeline", "kind",
    ),
    _own("judge_dropped_total", "counter", "verdicts", "Verdicts on requests that were closed before."),
    _own("judge_cached_total", "counter", "requests", "Requests answered from memory."),
    _own(
        "judge_breaker_workers", "gauge", "workers",
        "Workers by the state of their breaker for a provider: closed, half_open, open.", "provider", "state",
    ),
    _own("judge_queue_requests", "gauge", "requests", "Requests that wait for their verdict."),
    _own("judge_queue_age_seconds", "gauge", "seconds", "For how long the first of them has waited."),
    _own(
        "judge_budget_left_usd", "gauge", "US dollars",
        "What may still be leased for a metric this week, by its cap and its portfolio's, whichever leaves less.",
        "portfolio", "metric",
    ),
    _own(
        "judge_kappa", "gauge", "-1 to 1",
        "Agreement beyond chance (Cohen) of two judges of a metric, or of one and people (human).", "metric", "first",
        "second",
    ),
)  # fmt: skip

_WORKER_OF = ("provider",)

#: A process that only judges, on its own page.
_JUDGE_WORKERS = (
    _own("judge_worker_requests_total", "counter", "requests", "Requests judged here, by state.", "state"),
    _own(
        "judge_worker_calls_total", "counter", "calls",
        "Calls from here by what came of them: reply, or the kind of failure.", *_WORKER_OF, "kind",
    ),
    _own("judge_worker_tokens_total", "counter", "tokens", "Tokens billed: in, out.", *_WORKER_OF, "direction"),
    _own("judge_worker_usd_total", "counter", "US dollars", "What calls from here cost.", *_WORKER_OF),
    _own("judge_worker_call_seconds", "histogram", "seconds", "Time of calls from here.", *_WORKER_OF),
    _own(
        "judge_worker_breaker_state", "gauge", "0 or 1",
        "Which state the breaker is in, 1 for that one: closed, half_open, open.", *_WORKER_OF, "state",
    ),
    _own(
        "judge_worker_outage_seconds", "gauge", "seconds", "For how long the breaker has been open; 0: it is closed.",
        *_WORKER_OF,
    ),
    _own("judge_worker_calls_under_way", "gauge", "calls", "Calls that wait for their reply.", *_WORKER_OF),
    _own(
        "judge_worker_waiting_requests", "gauge", "requests",
        "Requests fetched and not answered, by entry of the settings' providers.", "providers",
    ),
)  # fmt: skip

#: The program itself.
_PROCESS = (
    _own("build_info", "gauge", "1", "Versions of what runs.", "version", "duckdb", "python"),
    _own("portfolio_info", "gauge", "1", "Portfolios in force.", "pipeline", "portfolio", "version", "sha"),
    _own("queries_total", "counter", "queries", "Queries of the API by how they ended.", "outcome"),
    _own("queries_running", "gauge", "queries", "Queries of the API under way."),
    _own("store_bytes", "gauge", "bytes", "Size of the store: its file, and the log beside it.", "part"),
    _own(
        "samples_left_out", "gauge", "samples",
        "Samples of watched series that this page leaves out, to stay within its bound; `gapwatch rates` has them all.",
    ),
)  # fmt: skip

#: The process, as prometheus_client collects it on Linux; the help texts are its own.
_CLIENT = (
    Family("process_virtual_memory_bytes", "gauge", "bytes", (), "Virtual memory size in bytes."),
    Family("process_resident_memory_bytes", "gauge", "bytes", (), "Resident memory size in bytes."),
    Family(
        "process_start_time_seconds", "gauge", "seconds since 1970", (),
        "Start time of the process since unix epoch in seconds.",
    ),
    Family(
        "process_cpu_seconds_total", "counter", "seconds", (), "Total user and system CPU time spent in seconds.",
    ),
    Family("process_open_fds", "gauge", "files", (), "Number of open file descriptors."),
    Family("process_max_fds", "gauge", "files", (), "Maximum number of open file descriptors."),
)  # fmt: skip

#: The families by section of the reference.
SECTIONS: dict[str, tuple[Family, ...]] = {
    "What is watched": _WATCHED,
    "What was found": _ALERTS,
    "What comes in": _SOURCE,
    "Judges": _JUDGES,
    "A process of role judge, on its own page": _JUDGE_WORKERS,
    "The program": (*_PROCESS, *_CLIENT),
}

FAMILIES: dict[str, Family] = {family.name: family for families in SECTIONS.values() for family in families}
