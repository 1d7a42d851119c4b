"""Metrics of judges: as a run counts their answers, and those of a process that only judges."""

from __future__ import annotations

from gapwatch.sinks.metric_families.family import own_family as _own

_JUDGE = ("pipeline", "metric", "judge")

#: Judges, as counted by this process when it stores their answers.
JUDGES = (
    _own(
        "judge_verdicts_total", "counter", "requests",
        "Judge requests that ended, by state: pass, fail, error, shed_budget, shed_load.", *_JUDGE, "state",
    ),
    _own(
        "judge_errors_total", "counter", "requests", "Judge requests that ended in an error, by reason.",
        *_JUDGE, "reason",
    ),
    _own(
        "judge_calls_total", "counter", "calls", "Calls to providers by result: reply, or the kind of failure.",
        *_JUDGE, "kind",
    ),
    _own("judge_tokens_total", "counter", "tokens", "Tokens billed, by direction: in, out.", *_JUDGE, "direction"),
    _own(
        "judge_usd_total", "counter", "US dollars",
        "Cost of calls; an upper bound if the provider reports no cost.", *_JUDGE,
    ),
    _own("judge_call_seconds", "histogram", "seconds", "Duration of calls to providers.", *_JUDGE),
    _own(
        "judge_suspicions_total", "counter", "requests",
        "Judge requests whose inputs seem to give the judge instructions (prompt injection), by kind.", "pipeline",
        "kind",
    ),
    _own("judge_dropped_total", "counter", "verdicts", "Dropped verdicts: their request was already closed."),
    _own("judge_cached_total", "counter", "requests", "Judge requests answered from the cache."),
    _own(
        "judge_breaker_workers", "gauge", "workers",
        "Workers by the state of their circuit breaker for a provider: closed, half_open, open.", "provider", "state",
    ),
    _own("judge_queue_requests", "gauge", "requests", "Judge requests that wait for a verdict."),
    _own("judge_queue_age_seconds", "gauge", "seconds", "Age of the oldest judge request that waits."),
    _own(
        "judge_budget_left_usd", "gauge", "US dollars",
        "Money that can still be leased for a metric this week, under its own cap and the cap of its portfolio.",
        "portfolio", "metric",
    ),
    _own(
        "judge_kappa", "gauge", "-1 to 1",
        "Cohen's kappa of two judges of a metric, or of a judge and people (human).", "metric", "first",
        "second",
    ),
)  # fmt: skip

_WORKER_OF = ("provider",)

#: A process that only judges, which has a page of its own.
JUDGE_WORKERS = (
    _own("judge_worker_requests_total", "counter", "requests", "Requests that this process judged, by state.", "state"),
    _own(
        "judge_worker_calls_total", "counter", "calls",
        "Calls of this process by result: reply, or the kind of failure.", *_WORKER_OF, "kind",
    ),
    _own("judge_worker_tokens_total", "counter", "tokens", "Tokens billed: in, out.", *_WORKER_OF, "direction"),
    _own("judge_worker_usd_total", "counter", "US dollars", "Cost of the calls of this process.", *_WORKER_OF),
    _own("judge_worker_call_seconds", "histogram", "seconds", "Duration of the calls of this process.", *_WORKER_OF),
    _own(
        "judge_worker_breaker_state", "gauge", "0 or 1",
        "State of the circuit breaker, 1 for the current one: closed, half_open, open.", *_WORKER_OF, "state",
    ),
    _own(
        "judge_worker_outage_seconds", "gauge", "seconds",
        "Time since the circuit breaker opened; 0 if it is closed.", *_WORKER_OF,
    ),
    _own("judge_worker_calls_under_way", "gauge", "calls", "Calls that wait for a reply.", *_WORKER_OF),
    _own(
        "judge_worker_waiting_requests", "gauge", "requests",
        "Requests fetched and not answered yet, by entry of `providers` in the settings.", "providers",
    ),
)  # fmt: skip
