"""Metrics of spans that come over OTLP: requests, the ledger of spans, late spans, the spool."""

from __future__ import annotations

from gapwatch.sinks.metric_families.family import own_family as _own

#: Receiving and assembly, as counted since the first start of the spool, requests since that of the process.
OTLP = (
    _own(
        "otlp_requests_total", "counter", "requests",
        "Export requests by signal (traces, logs, metrics) and outcome: taken, dropped (metrics), or the HTTP status "
        "with which they were refused.", "signal", "outcome",
    ),
    _own(
        "otlp_items_total", "counter", "spans or log records",
        "Spans and log records by state: assembled (cause: how their trace was closed), duplicate, late, "
        "dropped_kind, shed, dead_letter (cause: what is wrong), joined, orphaned, foreign, feedback. With "
        "gapwatch_otlp_items_pending they add up to the state consumed.", "item", "state", "cause", lasting=True,
    ),
    _own(
        "otlp_items_pending", "gauge", "spans or log records",
        "Spans and log records of traces that are still open.", "item",
    ),
    _own("otlp_open_traces", "gauge", "traces", "Traces that are still open."),
    _own(
        "otlp_late_seconds", "histogram", "seconds",
        "Time between the closing of a trace and the arrival of a late span of it.",
    ),
    _own(
        "otlp_late_quiet_seconds", "gauge", "seconds",
        "Quiet time that would have caught 99 % of the late spans so far; 0 without one.",
    ),
    _own("otlp_spool_bytes", "gauge", "bytes", "Requests in the spool that are not assembled yet."),
)  # fmt: skip
