"""Texts of the tables of alerts and monitored series, in the form of `table_texts`."""

from __future__ import annotations

#: Text of each table, and of its columns.
ALERT_TABLE_TEXTS: dict[str, tuple[str, str]] = {
    "shifts": (
        "Changes that the detectors found. A later row with the same `shift_id` relabels it.",
        """seq
        shift_id: Id of the shift.
        lane pipeline environment component metric metric_version judge epoch
        kind: cascade, shift, unknown or bound.
        found_at: Time at which it was found, UTC.
        change_at: Most likely start of the change, UTC.
        change_from: Earliest likely start, UTC.
        change_to: Latest likely start, UTC.
        moved: up or down.
        verdict: worse, better or unknown.
        question: Id of the question whose answer would decide the direction.
        evidence_log10: Evidence for the change, log10.
        rate_before: Failure rate before the change.
        rate_after: Failure rate since the change.
        lower: Lower limit of the confidence interval of `rate_after`.
        upper: Upper limit of the confidence interval of `rate_after`.
        units: Number of units since the change.""",
    ),
    "alerts": (
        "Steps in the life of alerts: one row for each step. `alerts_open` has the current state.",
        """seq alert_id shift_id lane pipeline environment component metric metric_version judge epoch
        state: State from this step on: open, acknowledged, silenced, accepted, resolved, noted.
        severity
        at: Time of the step, UTC.
        by: Who caused it: a person, or gapwatch.
        why: Reason, in words.
        incident_id
        attribution: Facts of the alert when it was opened, or the end of a silence, JSON.""",
    ),
    "incidents": (
        "Steps in the life of incidents: one row for each step. An incident holds the alerts of series that moved "
        "together. `incidents_open` has the current state.",
        """seq incident_id lane pipeline environment
        name: The metric that began to move first and its component, and the number of further metrics.
        kind: cascade (a step went another way, or the change moved along edges of the graph), shift, bound or unknown.
        state: State from this step on: open, acknowledged, silenced, accepted, resolved.
        severity: page, ticket or note; the highest that the incident had.
        component: Component that moved first; where that is not sure, the one upstream; null for the whole trace.
        since: Most likely start of the change of that component, UTC; null for a bound, which does not tell it.
        since_from: Earliest likely start, UTC.
        since_to: Latest likely start, UTC.
        members: Ids of its alerts, in the order in which they were found, JSON.
        at: Time of the step, UTC.
        by: Who caused it: a person, or gapwatch.
        why: What is new: opened, grew, joined, left, again, renamed, reminded, or the decision and its reason.
        told: What messages say of it, as texts, JSON; with `until` for a silence.""",
    ),
    "watched": (
        "Current state of every monitored series.",
        """seq lane pipeline environment component metric metric_version judge epoch
        kind: Monitored quantity: rate, sessions, numbers or labels.
        phase: Phase of the series, one of unwatched, learning, blind, calm, suspect, noticed, ticket, page.
        direction: The direction that alerts: up, down or both.
        units: Number of units so far.
        rate: Current failure rate.
        evidence_log10: Evidence for a change, log10.
        ticket_log10: Evidence at which a ticket opens.
        page_log10: Evidence at which a page opens.
        smallest_ratio: Minimum detectable change within one day of units, after / before, as a median.
        month_ratio: The same within 30 days of units.
        is_blind: True if the series has too few units to find what it should.
        last_unit_at: Event time of the newest unit, UTC.
        expected_false_alarms: Bound on the expected number of false alarms so far.""",
    ),
    "watched_bounds": (
        "Current state of every bound of the portfolios, in its window up to the newest trace.",
        """seq lane pipeline environment component metric metric_version judge epoch
        quantity: Bounded quantity, such as failure_rate, p95, or share of a label.
        operator: Comparison that must hold.
        bound: The bound, in `unit`.
        unit: Unit of the quantity; share for shares.
        window_seconds: Length of the window.
        min_units: Traces in the window below which the bound is not checked.
        state: held (surely within), undecided, too_few, or broken (until it is surely over).
        value: The quantity in the window; null where it is not known.
        lower: Lower limit that all windows of a month together miss with 5 % at most; null where there is none.
        upper: Upper limit, as `lower`.
        units: Number of decided traces in the window.
        last_unit_at: Event time of the newest unit, UTC.""",
    ),
}
