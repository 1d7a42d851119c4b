"""Texts of all views and their columns, in the form of `table_texts`."""

from __future__ import annotations

#: Text of each view, and of its columns.
VIEW_TEXTS: dict[str, tuple[str, str]] = {
    "rates": (
        "Failure rate of each series by hour, weighted, with a 95 % confidence interval that counts traces.",
        """lane pipeline environment component metric metric_version judge epoch
        hour: Hour of event time, UTC; null for traces without a time.
        units bad unknown errors effective_units rate lower upper unknown_share""",
    ),
    "rates_by": (
        "Failure rate by day and dimension, weighted, with a 95 % confidence interval. `gapwatch rates --by` gives the "
        "same for other periods.",
        """lane pipeline environment component metric metric_version judge
        day: Day of event time, UTC; null for traces without a time.
        dimension: all, release, model or tier.
        value: Release, model or tier; null for dimension all, and for spans that name none.
        counted: traces (all, release) or spans (model, tier). Intervals never count spans of one trace as traces.
        units: Number of decided traces or spans.
        bad: Number of bad ones.
        unknown: Number of those that the metric could not decide, without errors; no rate counts them.
        errors: Number of those without a verdict because a judge or scorer failed; no rate counts them.
        unknown_share: Weighted share of undecided ones (unknown or error) among all, 0 to 1.
        effective_units rate lower upper""",
    ),
    "component_rates": (
        "Failure rate of each component by week: of its worst metric, and of all its metrics together. Metrics that "
        "cannot fail (such as a measure without a limit), and metrics whose failures are no fault, or may be none "
        "(direction higher or unknown), are left out.",
        """lane pipeline environment component
        week: Monday of the week of event time, UTC; null for traces without a time.
        metrics: Number of metrics.
        units: Number of decided (trace, metric) pairs.
        bad: Number of bad pairs.
        unknown: Number of pairs that the metric could not decide, without errors.
        errors: Number of pairs without a verdict because a judge or scorer failed.
        unknown_share: Weighted share of undecided pairs (unknown or error) among all, 0 to 1.
        effective_units: Effective sample size; the metrics of one trace count as one trace.
        rate: Weighted share of bad pairs, 0 to 1.
        lower upper
        worst_metric: Metric with the highest failure rate.
        worst_rate: Its failure rate.""",
    ),
    "verdicts": (
        "Rows of `gaps` with the latest override of people, and with what `metrics` says of the metric.",
        """seq pipeline environment release session_id trace_id
        span_id: Id of the span; null for the whole trace.
        component tier model metric metric_version portfolio_sha
        band: Word of the judge's scale.
        reason observed judge
        judge_model_id: Model as the provider named it: vendor/name@version.
        judge_prompt_sha: Digest of the prompt's template, a key of `templates`.
        judge_sampling_params_sha: Digest of temperature, top_k, top_p, seed.
        judge_request_sha: Digest of the whole request.
        judge_input_sha: Digest of the judged text.
        p_evaluated p_kept
        stratum: Stratum of the metric's sampling; null for the rest.
        policy: Sampling decision in force, a key of `policies`.
        lane source_topic source_partition source_offset span_index event_at
        outcome: Outcome of a person if `overridden`, else the scored one.
        score: Score of a person if `overridden`, else the scored one.
        label: Label of a person if `overridden`, else the scored one.
        claim: Form of the claim.
        concern: Concern of the metric, such as reliability.
        expected: The claim in words.
        evidence: Lines of code and facts behind the claim, JSON.
        direction: Which direction is better, and who says so, JSON.
        row_evidence: Evidence of this row alone, JSON: a judge's justification and its model.
        overridden: True if a person, or a judge that was asked again, set the outcome.
        scored_outcome: Outcome before any override.
        override_why: Reason of the person, or justification of the judge that was asked again.
        override_by: Name of the person, or `judge retry`.
        override_at: Time of the override, UTC.
        kept_at""",
    ),
    "failing_traces": (
        "One row for each trace that fails a metric, overrides applied, with the text of the trace if it is stored.",
        """event_at pipeline environment release component metric judge model tier session_id trace_id
        failing_spans: Number of stored failing spans of the trace.
        span_id: Id of the first failing span; null for the whole trace.
        observed
        expected: The claim in words.
        score label reason
        row_evidence: Evidence of the first failing span, JSON: a judge's justification and its model.
        p_evaluated p_kept
        text: The whole trace as JSON, redacted; null if its text is not stored.
        lane source_topic source_partition source_offset""",
    ),
    "costs": (
        "US dollars by day. spent_by judge: calls of judges, exact. spent_by pipeline: the pipeline's own cost, as "
        "metrics measure it (usage.cost_usd, trace.cost_usd), weighted; several such metrics may count the same money.",
        """day: Day, UTC: of storing for judges, of event time for the pipeline.
        spent_by: judge or pipeline.
        pipeline component metric judge
        model: Model of the judge; null for the pipeline.
        calls: Number of calls, or of measured spans or traces.
        input_tokens: Tokens of prompts of judges.
        output_tokens: Tokens of answers of judges.
        usd: US dollars.""",
    ),
    "alerts_open": (
        "Alerts that are not over: open, acknowledged or silenced.",
        """alert_id severity
        state: open, acknowledged or silenced.
        lane pipeline environment component metric metric_version judge epoch
        kind: cascade, shift, unknown or bound.
        verdict: worse, better or unknown.
        moved: up or down.
        question: Id of the question whose answer would decide the direction.
        change_at: Most likely start of the change, UTC.
        change_from: Earliest likely start, UTC.
        change_to: Latest likely start, UTC.
        rate_before: Failure rate before the change.
        rate_after: Failure rate since the change, when it was found.
        lower: Lower limit of the confidence interval of `rate_after`.
        upper: Upper limit of the confidence interval of `rate_after`.
        units: Number of units since the change, when it was found.
        found_at: Time at which it was found, UTC.
        changed_at: Time of its last step, UTC.
        changed_by: Who caused its last step.
        why: Reason of its last step.
        silenced_until: End of the silence, UTC; the alert is open again after it.
        incident_id shift_id""",
    ),
    "incidents_open": (
        "Incidents that are not over, with what messages say of them.",
        """incident_id severity
        state: open, acknowledged or silenced.
        lane pipeline environment
        name: The metric that began to move first and its component, and the number of further metrics.
        kind: cascade, shift, bound or unknown.
        component: Component that moved first; null for the whole trace.
        since: Most likely start of the change, UTC; null for a bound.
        since_from: Earliest likely start, UTC.
        since_to: Latest likely start, UTC.
        alerts: Number of its alerts, those that have ended among them.
        opened_at: Time at which it was opened, UTC.
        changed_at: Time of its last step, UTC.
        changed_by: Who caused its last step.
        why: What its last step was.
        members: Ids of its alerts, JSON.
        told: What messages say of it, as texts, JSON.""",
    ),
}
