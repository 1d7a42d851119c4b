"""Table of all metrics on `/metrics`: type, unit, labels and help text. `deploy/metrics.md` is generated from it."""

from __future__ import annotations

from gapwatch.sinks.catalog.phases import phases_text
from gapwatch.sinks.metric_families.family import Family, Kind
from gapwatch.sinks.metric_families.family import own_family as _own
from gapwatch.sinks.metric_families.feedback_families import FEEDBACK
from gapwatch.sinks.metric_families.judge_families import JUDGE_WORKERS, JUDGES
from gapwatch.sinks.metric_families.otlp_families import OTLP

#: Labels that name one monitored series. Empty ones (`component` of a metric of the trace, `judge` of a check) are
#: left out.
SERIES_LABELS = ("pipeline", "environment", "component", "metric", "judge")


def _watched(
    name: str, kind: Kind, unit: str, meaning: str, *labels: str, lasting: bool = False, of: tuple[str, ...] = ()
) -> Family:
    return Family(f"gapwatch_{name}", kind, unit, (of or SERIES_LABELS) + labels, meaning, lasting)


_COMPONENT = ("pipeline", "environment", "component")

#: Monitored series of the lane `live`.
_WATCHED = (
    _watched(
        "failure_ratio", "gauge", "share",
        "Failure rate: bad traces divided by good and bad traces, in the last hour of event time, weighted to all "
        "traces of the pipeline.",
    ),
    _watched(
        "failure_ratio_lower", "gauge", "share",
        "Lower limit of the 95 % confidence interval of gapwatch_failure_ratio.",
    ),
    _watched(
        "failure_ratio_upper", "gauge", "share",
        "Upper limit of the 95 % confidence interval of gapwatch_failure_ratio.",
    ),
    _watched("window_units", "gauge", "traces", "Number of good and bad traces in gapwatch_failure_ratio."),
    _watched(
        "effective_units", "gauge", "traces",
        "Effective sample size of gapwatch_failure_ratio: size of a simple random sample of the same precision.",
    ),
    _watched(
        "unknown_ratio", "gauge", "share",
        "Weighted share of undecided traces (unknown or error) in the last hour of event time; no rate counts them.",
    ),
    _watched(
        "units_total", "counter", "traces",
        "Traces by their outcome for the metric: good, bad, unknown, error (no verdict: a judge or scorer failed).",
        "outcome",
        lasting=True,
    ),
    _watched(
        "weighted_units_total", "counter", "traces",
        "Estimated number of all traces of the pipeline: gapwatch_units_total, each trace divided by the probability "
        "with which it was evaluated.", "outcome",
        lasting=True,
    ),
    _watched(
        "spans_total", "counter", "spans",
        "Spans by outcome: pass, warn, fail, skip, unknown, error. For a metric of the whole trace: traces.", "outcome",
        lasting=True,
    ),
    _watched(
        "last_unit_timestamp_seconds", "gauge", "seconds since 1970",
        "Event time of the newest trace of the series, rounded to five minutes.",
    ),
    _watched(
        "value", "histogram", "unit of the metric",
        "Numbers that the metric measured, one for each span, to within 1 %.", lasting=True,
    ),
    _watched(
        "tier_spans_total", "counter", "spans",
        "Spans of a component by tier, counted by the metric in the label. Tier none: the span names no tier. Tier "
        "other: the portfolio does not list it.", "metric", "tier", lasting=True, of=_COMPONENT,
    ),
    _watched(
        "tier_ratio", "gauge", "share", "Share of a tier in the component's spans in the last hour of event time.",
        "metric", "tier", of=_COMPONENT,
    ),
    _own(
        "component_unwatched", "gauge", "0 or 1",
        "1 if a component is not monitored: the portfolio has no metric for it, or none of its spans came in the last "
        "hour of event time.",
        "pipeline", "component",
    ),
    _own(
        "metric_unwatched", "gauge", "0 or 1",
        "1 if a metric is not monitored: it decided no trace in the last hour of event time. Do not show it as green.",
        "pipeline", "component", "metric",
    ),
    _own(
        "unscored_spans_total", "counter", "spans",
        "Spans that were not scored, by reason: selection (sampled_out), budget (shed_budget) or load (shed_load).",
        "pipeline", "metric",
        "state", lasting=True,
    ),
    _own("judge_requests_pending", "gauge", "spans", "Spans that wait for a judge.", "pipeline", "metric"),
    _own(
        "newest_event_timestamp_seconds", "gauge", "seconds since 1970",
        "Newest stored event time, rounded to five minutes: the end of the hour that the rates cover.", "pipeline",
    ),
)  # fmt: skip

#: Source: consumed records and consumer lag.
_SOURCE = (
    _own(
        "records_total", "counter", "records",
        "Consumed records by state: read, dead_letter, foreign, duplicate; by pipeline if they name one. ahead and "
        "behind are read records whose time is far from that of their neighbours; they count without a time.",
        "topic", "pipeline", "state", lasting=True,
    ),
    _own(
        "wrong_clock_records_total", "counter", "records",
        "Read records whose time is far from that of their neighbours (state ahead or behind), by the host that they "
        "name: the attribute host.name or its kin of the trace, else its release. 20 hosts of a pipeline, then other.",
        "pipeline", "host", "state",
    ),
    _own(
        "other_names_total", "counter", "records",
        "Read records whose environment, release, tier or model counts as `other`, or whose probability p counts as "
        "the nearest of a grid: a partition counts 200 names of a day apart. Sums are exact.",
        "pipeline", "facet", lasting=True,
    ),
    _own("consumed_spans_total", "counter", "spans", "Spans in the records read.", "topic", lasting=True),
    _own(
        "dead_letters_total", "counter", "records", "Dead letters: records that could not be read, by cause.", "topic",
        "cause",
        lasting=True,
    ),
    _own(
        "ledger_imbalance", "gauge", "records and spans",
        "Difference between consumed records and spans and their states in the ledger; any value other than 0 is a "
        "defect of Gapwatch.",
    ),
    _own("kept_offset", "gauge", "offset", "Next offset to store; all lower ones are stored.", "topic", "partition"),
    _own("lag_records", "gauge", "records", "Consumer lag: offsets that are not stored yet.", "topic", "partition"),
    _own(
        "lag_seconds", "gauge", "seconds",
        "Consumer lag in time: age of the oldest record that is not stored, since this process saw it; 0 if all are "
        "stored. While no broker answers, at least the time since its last answer: newer records are not known.",
        "topic", "partition",
    ),
    _own(
        "broker_answer_age_seconds", "gauge", "seconds",
        "Time since a broker last answered this process; normally under 5. /readyz answers 503 above 15.",
    ),
    _own(
        "linger_seconds", "gauge", "seconds",
        "Longest time for which fetched records wait for others at present, so that they are scored together; less "
        "than the option --linger where records are many.",
    ),
    _own("source_state", "gauge", "0 or 1", "State of the source: 1 for the current state.", "state"),
    _own(
        "records_lost_total", "counter", "records",
        "Records that the topic's retention deleted before they were read.",
    ),
    _own("slice_seconds", "histogram", "seconds", "Duration of one slice, by stage.", "stage"),
    _own("last_commit_timestamp_seconds", "gauge", "seconds since 1970", "Time when the last slice was stored."),
    _own("outbox_waiting", "gauge", "messages", "Messages in the outbox that are not sent yet.", "topic"),
)  # fmt: skip

_BOUND = ("of", "operator", "window", "unit")

#: Alerts, and the state of the detectors.
_ALERTS = (
    _watched(
        "alert_state", "gauge", "0 or 1",
        "1 for each alert that is not closed; kind: cascade, shift, unknown or bound; state: open, acknowledged or "
        "silenced. Closed alerts disappear.", "kind", "severity", "state",
    ),
    _watched(
        "alert_began_timestamp_seconds", "gauge", "seconds since 1970",
        "Earliest likely start of the change that an open alert reports.", "kind", "severity",
    ),
    _own(
        "incident_info", "gauge", "1",
        "What people are told of each open incident, as labels, for the annotations of the rules: its name, kind and "
        "direction, the share or number before and after with its ratio and 95 % interval, begin (since, between) and "
        "detection (found) in event time, units, the component that moved first, the likeliest cause, its metrics, the "
        "three worst rows, store, command and page, runbook, a trace, and by whom and when it was acknowledged or "
        "silenced. At most 200 incidents.",
        "pipeline", "environment", "incident_id", "kind", "severity", "state", "name", "what", "share", "before",
        "after", "ratio", "interval", "since", "between", "units", "first", "cause", "metrics", "rows", "found",
        "store", "command", "page", "runbook_url", "trace_url", "by", "decided",
    ),
    _watched(
        "bound_value", "gauge", "unit in the label",
        "Quantity that a threshold of the portfolio bounds, in the window as written, up to the newest trace; of is "
        "the quantity, such as p95.", *_BOUND,
    ),
    _watched(
        "bound_value_lower", "gauge", "unit in the label",
        "Lower confidence limit of gapwatch_bound_value, which all windows of a month together miss with 5 % at most. "
        "Missing where none can be given.", *_BOUND,
    ),
    _watched(
        "bound_value_upper", "gauge", "unit in the label", "Upper limit, as gapwatch_bound_value_lower.", *_BOUND,
    ),
    _watched("bound_limit", "gauge", "unit in the label", "The bound of gapwatch_bound_value.", *_BOUND),
    _watched("bound_units", "gauge", "traces", "Decided traces in the window of gapwatch_bound_value.", *_BOUND),
    _watched(
        "bound_state", "gauge", "1",
        "State of a bound, 1 for the current one: broken (until it is surely over), held (surely within), undecided, "
        "or too_few (fewer traces than min_units).", *_BOUND, "state",
    ),
    _own(
        "alerts_total", "counter", "alerts",
        "Alerts so far, by severity; one that grew from a ticket into a page counts as both, notes do not.",
        "pipeline", "environment",
        "kind", "severity", lasting=True,
    ),
    _own(
        "series", "gauge", "series",
        f"Series by phase. Only calm is green. {phases_text()}.",
        "pipeline", "environment", "phase",
    ),
    _watched(
        "series_phase", "gauge", "1",
        "Phase of a series, 1 for the current one; watched is the monitored quantity: rate, sessions, unknown, numbers "
        "or labels. A change may be reported by the alert of another quantity of the same metric.", "watched", "phase",
    ),
    _watched(
        "evidence_log10", "gauge", "log10 of the evidence",
        "Evidence for a change in the bad direction. It has no meaning while an alert of the series is open.",
        "watched",
    ),
    _watched(
        "evidence_threshold_log10", "gauge", "log10 of the evidence", "Evidence that opens an alert.", "watched",
    ),
    _watched(
        "baseline_ratio", "gauge", "share", "Baseline of the rate, over all hours.", "watched",
    ),
    _watched(
        "value_quantile", "gauge", "unit of the metric",
        "Quantile of a monitored number in the last closed hour of event time, one number for each trace, to within "
        "1 %.",
        "unit", "level",
    ),
    _watched(
        "baseline_quantile", "gauge", "unit of the metric", "Baseline of gapwatch_value_quantile.", "unit",
        "level",
    ),
    _watched(
        "label_ratio", "gauge", "share",
        "Share of a label in the last closed hour of event time, for monitored labels: the eight that were most "
        "frequent at first, and other.", "label",
    ),
    _watched(
        "baseline_label_ratio", "gauge", "share", "Baseline of gapwatch_label_ratio.", "label",
    ),
    _watched(
        "smallest_change_ratio", "gauge", "after / before",
        "Minimum detectable change in one day of units, as a median, for a rate; for numbers and labels, that of a "
        "share of 5 %. +Inf: not known yet, or no change is detectable.", "watched",
    ),
    _watched(
        "smallest_change_month_ratio", "gauge", "after / before",
        "The same in 30 days of units: what the watch of a sparse series would see in a month.", "watched",
    ),
    _own(
        "expected_false_alarms_total", "counter", "alarms",
        "Upper bound on the false alarms that the budget allows so far; compare it with those that you found.",
        "pipeline", "environment", lasting=True,
    ),
    _own(
        "late_units_total", "counter", "units",
        "Late data: units of monitored series that came after their tick was closed; they count in the tick that is "
        "open. Each pipeline has its own event time.",
        "pipeline", lasting=True,
    ),
    _own(
        "last_annotation_timestamp_seconds", "gauge", "seconds since 1970",
        "Time of the latest annotation, such as a deployment; without a pipeline if it is about all.", "pipeline",
    ),
)  # fmt: skip

#: The program itself.
_PROCESS = (
    _own("build_info", "gauge", "1", "Versions of Gapwatch, DuckDB and Python.", "version", "duckdb", "python"),
    _own("portfolio_info", "gauge", "1", "Portfolios in force.", "pipeline", "portfolio", "version", "sha"),
    _own("queries_total", "counter", "queries", "API queries by result.", "outcome"),
    _own("queries_running", "gauge", "queries", "API queries that are running."),
    _own("store_bytes", "gauge", "bytes", "Size of the store: its file and its write-ahead log.", "part"),
    _own("store_live_bytes", "gauge", "bytes", "Blocks of the store's file in use, as of its last checkpoint."),
    _own(
        "export_lag_seconds", "gauge", "seconds",
        "Time since the last export that succeeded began, with `gapwatch run --export`: what was stored since then is "
        "not exported. Before the first one, time since the start.",
    ),
    _own("export_last_success_timestamp_seconds", "gauge", "seconds since 1970", "End of the last export."),
    _own("export_rows_total", "counter", "rows", "Rows that this run exported, replaced ones included."),
    _own("export_failures_total", "counter", "exports", "Exports of this run that failed, and were repeated."),
    _own(
        "samples_left_out", "gauge", "samples",
        "Samples of monitored series that this page leaves out to stay within its limit; `gapwatch rates` shows all.",
    ),
)  # fmt: skip

#: Metrics of the process, which prometheus_client collects on Linux. The help texts are those of prometheus_client.
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
    "Monitored series": _WATCHED,
    "Alerts and detectors": _ALERTS,
    "Source and store": _SOURCE,
    "Spans over OTLP": OTLP,
    "Feedback": FEEDBACK,
    "Judges": JUDGES,
    "Judge process, on a page of its own": JUDGE_WORKERS,
    "The program": (*_PROCESS, *_CLIENT),
}

FAMILIES: dict[str, Family] = {family.name: family for families in SECTIONS.values() for family in families}
