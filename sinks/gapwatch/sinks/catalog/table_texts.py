"""Texts of all tables and their columns, for COMMENT ON and docs/store.md.

A line `name: text` describes a column of its table. A line of names without a colon lists columns that mean the same in
every table; `SHARED` has their texts.
"""

from __future__ import annotations

from gapwatch.sinks.catalog.alert_table_texts import ALERT_TABLE_TEXTS
from gapwatch.sinks.catalog.issue_table_texts import ISSUE_TABLE_TEXTS

#: Texts of columns that mean the same in several tables and views.
SHARED = {
    "seq": "Number of the commit that wrote the row; grows with each commit of the store.",
    "lane": "Where the records come from: `live` (Kafka), `file:<name>` (replay), `backfill:<name>`, "
    "or `eval:<run>` (an evaluation), or `compare:<run>` (its comparison with a baseline).",
    "pipeline": "Name of the pipeline, from the trace.",
    "environment": "Environment of the trace, such as production.",
    "component": "Component of the portfolio; null for a metric of the whole trace.",
    "metric": "Name of the metric in the portfolio.",
    "metric_version": "12 hex digits of the digest of the metric's claim; changes when the claim changes.",
    "judge": "Name of the judge in the portfolio; null without a judge.",
    "epoch": "Epoch of the series; a change of how spans are selected starts a new one.",
    "source_topic": "Kafka topic, or name of the file.",
    "source_partition": "Partition of the topic; 0 for a file.",
    "source_offset": "Offset of the record, or line of the file; from 0.",
    "span_index": "Position of the span in its trace, from 0; -1 for the whole trace.",
    "portfolio_sha": "Digest of the portfolio, a key of `portfolios`.",
    "trace_id": "Id of the trace.",
    "session_id": "Id of the session or conversation; null if the trace has none.",
    "release": "Release of the pipeline that made the trace; null if it names none.",
    "tier": "Tier that answered, such as primary or fallback; null if the span names none.",
    "model": "Model of the span; null if the span names none.",
    "event_at": "End of the trace or span by its own clock, UTC; null without a time.",
    "kept_at": "Time at which the row was stored, UTC.",
    "p_evaluated": "Probability with which the span was evaluated; its weight is 1 / p_evaluated.",
    "p_kept": "Probability with which a row of this outcome was stored; below 1, the rows are a sample.",
    "units": "Number of decided traces: good and bad.",
    "bad": "Number of bad traces: at least one span fails.",
    "unknown": "Number of traces that the metric could not decide, without `errors`; no rate counts them.",
    "errors": "Number of traces without a verdict because a judge or scorer failed; no rate counts them.",
    "unknown_share": "Weighted share of undecided traces (unknown or error) among all, 0 to 1.",
    "effective_units": "Size of a simple random sample with the same precision.",
    "rate": "Weighted failure rate, 0 to 1; null without a decided trace.",
    "lower": "Lower limit of the 95 % confidence interval of the rate.",
    "upper": "Upper limit of the 95 % confidence interval of the rate.",
    "observed": "What was seen, redacted, at most 300 characters.",
    "outcome": "pass, warn, fail, skip, unknown or error.",
    "score": "Number or score of the row; null if the claim has none.",
    "label": "Label of the row; null if the claim has none.",
    "reason": "Why the outcome is skip, unknown or error.",
    "alert_id": "Id of the alert, as commands and messages name it.",
    "shift_id": "Id of the shift that the alert reports.",
    "incident_id": "Id of the incident, as commands and messages name it; null for a note on an improvement.",
    "severity": "page, ticket or note.",
    "topic": "Name of the Kafka topic.",
    "id": "Id of the judge request.",
}

#: Text of each table, and of its columns.
TABLE_TEXTS: dict[str, tuple[str, str]] = {
    "store": (
        "One row: what made this file.",
        """program: Always gapwatch.
        schema_version: Version of these tables; `gapwatch migrate` converts older ones.
        created_at: Time of creation, UTC; also the id of the store.
        created_by: Version of the program that created the file.""",
    ),
    "gaps": (
        "Scored rows: one for each span or trace, metric and judge. All failing rows or a sample of them (p_kept); of "
        "passing rows a small sample. Count with `rates` and `rates_by`, not with these rows.",
        """seq pipeline environment release session_id trace_id component tier model metric metric_version
        span_id: Id of the span; null for the whole trace.
        portfolio_sha outcome score label
        band: Word of the judge's scale.
        reason observed
        evidence: Evidence of this row alone, JSON: a judge's justification and its model.
        judge
        judge_model_id: Model as the provider named it: vendor/name@version.
        judge_prompt_sha: Digest of the prompt's template, a key of `templates`.
        judge_sampling_params_sha: Digest of temperature, top_k, top_p, seed.
        judge_request_sha: Digest of the whole request.
        judge_input_sha: Digest of the judged text.
        p_evaluated p_kept
        stratum: Stratum of the metric's sampling; null for the rest.
        policy: Sampling decision in force, a key of `policies`.
        lane source_topic source_partition source_offset span_index event_at kept_at""",
    ),
    "ticks": (
        "Exact counts of every metric in 30-second buckets of event time. Weigh each count by 1 / p. The views `rates` "
        "and `rates_by` read them.",
        """seq lane pipeline environment component metric metric_version judge epoch
        bucket: Start of 30 s of event time, UTC; null for traces without a time.
        fold_bucket: Bucket in which the detectors counted it; later than `bucket` for late data.
        level: unit (traces, or sessions) or span.
        facet: Dimension: all, release (both levels); model, tier, stratum (spans); label.
        value: Value of the facet; null for facet all.
        outcome: Level span: pass, warn, fail, skip, unknown, error. Level unit: good, bad, unknown.
        p: Probability with which the counted items were evaluated.
        n: Number of items.
        score_sum: Sum of their scores.
        score_sum_squares: Sum of the squares of their scores.
        histogram: Counts of scores by cell; null without scores, and for other facets than all.""",
    ),
    "session_ticks": (
        "Counts by session, for metrics whose unit is the session.",
        """seq lane pipeline environment component metric metric_version judge epoch
        bucket: Start of 30 s of event time, UTC; null for traces without a time.
        session_id
        p: Probability with which the counted traces were evaluated.
        units bad""",
    ),
    "ledger": (
        "Signed counts of all records and (span, metric) pairs by state; `gapwatch ledger` checks that they balance.",
        """seq lane source_topic source_partition pipeline
        metric: Name of the metric; null: the row counts records.
        state: Records: read, dead_letter, foreign, duplicate; of the read ones, ahead and behind have a time far from
            that of their neighbours and count without a time; of those with state other_environment, other_release,
            other_tier, other_model or other_p something counts under another name. Pairs: pass, warn, fail, skip,
            unknown, error, pending, sampled_out, shed_budget, shed_load.
        n: Change of the count.""",
    ),
    "offsets": (
        "Offsets of each commit, by partition; a restart continues at the largest `to_offset`.",
        """seq lane source_topic source_partition
        from_offset: First offset of the commit.
        to_offset: Offset after the last one.
        records: Number of records.
        spans: Number of spans.
        prefix_sha256: Digest of the file's bytes up to `to_offset`; null for Kafka.
        kept_at""",
    ),
    "dead_letters": (
        "Records that could not be read.",
        """seq lane source_topic source_partition source_offset
        cause: Kind of the error.
        detail: Where the record is wrong.
        size: Size of the record in bytes.
        sha256: Digest of the record.
        kept_at""",
    ),
    "samples": (
        "Text of traces with a failing row or a judge request, redacted. `failing_traces` joins it to the rows.",
        """seq lane source_topic source_partition source_offset trace_id
        cause: fail, judge, alert (first 20 traces behind an alert), or gone (the same, but no longer in the topic).
        p_kept: Probability with which the text of such a trace was stored; null for alert and gone.
        record_sha256: Digest of the record as it was consumed; null for gone.
        record: The redacted record, JSON in UTF-8: decode(record)::JSON; null for gone.
        event_at kept_at""",
    ),
    "policies": (
        "Sampling decisions: which share of spans was evaluated and stored, from which offset on.",
        """policy: Id of the decision.
        lane source_topic source_partition
        from_offset: First offset for which it holds.
        portfolio_sha
        metric: Name of the metric; null for all.
        stratum: Stratum of the metric's sampling; null for all.
        p_evaluated
        p_kept: Probability of storing a row by outcome, JSON.
        cause: Why the decision was made.
        recorded_at: Time of recording, UTC.""",
    ),
    "portfolios": (
        "Every portfolio that was in force.",
        """portfolio_sha: Digest of the portfolio.
        portfolio: Its name.
        version: Its version.
        pipeline
        yaml: Its text.
        first_seen_at: Time at which it was first used, UTC.""",
    ),
    "metrics": (
        "What each metric of each portfolio claims, in words, with its evidence.",
        """portfolio_sha metric metric_version
        claim: Form of the claim: check, measure, label, judge, compare, composite, ratio or python.
        concern: Concern of the metric, such as reliability.
        expected: The claim in words.
        evidence: Lines of code and facts behind the claim, JSON.
        direction: Which direction is better, and who says so, JSON.
        recorded_at: Time of recording, UTC.""",
    ),
    "templates": (
        "Prompts of judges.",
        """sha: Digest of the prompt's template.
        text: The template.""",
    ),
    **ALERT_TABLE_TEXTS,
    **ISSUE_TABLE_TEXTS,
    "facts": (
        "Answers of people to the questions of a portfolio.",
        """pipeline
        fact_id: Id of the fact.
        question: Id of the question.
        component
        kind: Kind of the fact, such as direction.
        metric
        better: lower, higher or unknown.
        value: The answer in words.
        by: Who answered.
        at: When, as written.
        recorded_at: Time of recording, UTC.""",
    ),
    "annotations": (
        "Notes of events, such as deployments.",
        """at: Time of the event, UTC.
        pipeline: Pipeline that the note is about; null for all.
        text: The note.
        by: Author.""",
    ),
    "overrides": (
        "Outcomes that people set on rows; the scored row stays. `verdicts` applies the latest.",
        """override_id: Id of the override.
        lane source_topic source_partition source_offset span_index metric metric_version judge
        outcome: Outcome of the person.
        score: Score of the person.
        label: Label of the person.
        why: Reason.
        by: Author.
        at: Time, UTC.""",
    ),
    "judge_calls": (
        "Each call to a judge's model, and its cost. `costs` sums them by day.",
        """seq
        request_id: Id of the judge request.
        portfolio_sha pipeline metric judge
        model: Model that was called.
        kind: Kind of the call: answered, cached, failed, ...
        input_tokens: Tokens of the prompt.
        output_tokens: Tokens of the answer.
        usd: Price in US dollars.
        seconds: Duration.
        kept_at""",
    ),
    "span_ledger": (
        "Spans and log records that came over OTLP, and feedback: each is in one state; they add up to `consumed`.",
        """source: Topic of the traces that the spans were assembled to; `feedback` for feedback.
        item: span, log_record, span_event (feedback in a span) or feedback.
        state: consumed, or pending, assembled, duplicate, late, dropped_kind, shed, dead_letter, joined, foreign,
            orphan, feedback (taken as such).
        cause: Why: how the trace was closed, what is wrong with a dead letter; empty without one.
        n: Change of the number since the row before; sum it.
        recorded_at: Time, UTC.""",
    ),
    "late_spans": (
        "Spans that came over OTLP after their trace was closed; the newest 10,000 of each source.",
        """source: Topic of the traces that the spans were assembled to.
        trace_id: Trace that was closed and is not scored again, 32 hexadecimal digits.
        span_id: 16 hexadecimal digits.
        service: `service.name` of its resource.
        delay: Seconds between the closing of the trace and the arrival of the span.
        gap: Seconds since the last span of the trace that came in time; a longer quiet time would have caught it.
        recorded_at: Time, UTC.""",
    ),
    "retention": (
        "What expired: one row a day.",
        """at: Time of the last deletion of the day, UTC.
        before: Commits stored before this time expired, UTC.
        to_seq: Number of the last expired commit.
        commits: Number of expired commits.
        records: Number of their records.
        rows: Number of deleted rows.""",
    ),
    "facet_names": (
        "Names that a partition counts apart, so that a restart counts the same ones; all others count as `other`.",
        """seq lane source_topic source_partition pipeline
        day: Day of event time of the traces, UTC; null: traces without a time, and those a week behind the others.
        facet: environment, release, tier, model; p: probability of the publisher.
        value: The name; of p its shortest decimal form.
        sightings: 2: counted apart from here on; 1: one sampled record had it, a second one makes it 2.""",
    ),
    "trace_ids": (
        "Hash of every trace id, to find repeated ones, and the traces that feedback is about.",
        """seq lane pipeline
        trace_hash: 64-bit hash of the trace id.
        source_offset environment release""",
    ),
    "detector_snapshots": (
        "State of the detectors, for a restart.",
        """seq lane
        folded_until: Event time up to which ticks are folded, UTC.
        data: The state, in a format of the program.
        kept_at""",
    ),
    "waited_for": (
        "Partitions that held back event time at a commit, because they had unread records.",
        """seq lane
        partition: topic/partition.""",
    ),
    "judge_requests": (
        "Judge requests of every lane.",
        """seq id
        key: Id of the trace.
        value: The request, JSON in UTF-8.""",
    ),
    "judge_closed": (
        "How each judge request ended.",
        """seq id
        state: State of the ledger that closed it.
        score: Score of the verdict.
        position: Position of the answer on the scale, 0 to 1.""",
    ),
    "judge_offsets": (
        "Position of judges in other processes.",
        """seq topic
        partition: Partition of the topic.
        to_offset: Next offset to read.""",
    ),
    "judge_money": (
        "Money set aside for judge calls, and returned, by ISO week.",
        """lease: Id of the lease.
        portfolio: Name of the portfolio.
        metric
        week: ISO week.
        entry: lease or return.
        usd: Amount in US dollars; negative if returned.
        at: Time, UTC.""",
    ),
    "judge_batches": (
        "Batches that judges gave to providers; the last row of a batch holds.",
        """batch: Random id that Gapwatch gave it.
        lane: Entry of `providers` in the judge settings.
        state: planned, sent or done.
        provider_id: Id that the provider gave it.
        items: JSON list of its requests, with the random numbers of their prompts; when done, of those asked again.
        at: Time, UTC.""",
    ),
    "retried_verdicts": (
        "Requests and evidence of the verdicts that `gapwatch judge retry` gave, by which they are rebuilt.",
        """override_id: Id of the override that shows the verdict.
        request_id: Id of the request that was asked again.
        judge_model_id: Model that answered.
        judge_prompt_sha: Hash of the template.
        judge_request_sha: Hash of the request as sent.
        judge_input_sha: Hash of the inputs.
        evidence: JSON, as in `gaps`.""",
    ),
    "outbox": (
        "Messages to send to Kafka, written in the transaction that they report.",
        """seq
        id: Id of the message, by which readers recognise a duplicate.
        topic
        key: Key of the message.
        value: Body of the message.
        headers: Headers of the message, JSON.""",
    ),
    "relayed": (
        "Last commit whose messages were sent, by topic.",
        "topic seq",
    ),
    "tick_joins": (
        "Commits whose ticks were joined together; they expire together.",
        """lane
        after_seq: Last commit before them; equal to `to_seq`: their rows were left as they were.
        to_seq: Last of them.""",
    ),
    "past_ticks": (
        "Sums of the ticks of expired commits.",
        """lane pipeline environment component metric metric_version judge epoch
        bucket: Always null.
        fold_bucket: Always null.
        level: unit or span.
        facet: all or tier.
        value: Value of the facet.
        outcome: As in `ticks`.
        p: Mean probability.
        n: Number of items.
        score_sum: Sum of their scores.
        score_sum_squares: Always null.
        histogram: Counts of scores by cell.""",
    ),
    "past_dead_letters": (
        "Number of expired dead letters by cause.",
        """lane source_topic
        cause: Kind of the error.
        n: Number of records.""",
    ),
}
