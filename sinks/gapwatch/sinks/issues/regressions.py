"""Fixed issues whose fault has returned: they are set to regressed.

A return opens a new alert of the metric, if the alert of the fault has ended. One that is still open would hide it: the
detectors look for its end, and end it on far more evidence than a return needs. There the traces since the fix decide:

    fixed ──▶ the fault is gone: traces fail as before it ──▶ it is back: they fail as during it ──▶ regressed
                                                               (that it never went is told by the open alert)
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from gapwatch.sinks.issues.issue_query import read_issues
from gapwatch.sinks.issues.records import IssueRecords
from gapwatch.sinks.reading.query_answer import ask
from gapwatch.sinks.store.store_reader import StoreReader

#: Author of the change.
_BY = "gapwatch"

# An alert that opened after the issue was fixed: by commits, whose numbers grow whatever the clocks say.
_RETURNED = """WITH fixed AS (
        SELECT * FROM issues QUALIFY row_number() OVER (PARTITION BY issue_id ORDER BY seq DESC) = 1
    ), opened AS (SELECT alert_id, min(seq) AS seq FROM alerts GROUP BY alert_id)
    SELECT f.issue_id, min(a.alert_id) AS alert_id
    FROM fixed f JOIN alerts_open a ON a.metric = f.metric JOIN opened o ON o.alert_id = a.alert_id
    WHERE f.status = 'fixed' AND f.metric <> '' AND o.seq > f.seq AND coalesce(a.verdict, '') <> 'better'
        AND coalesce(a.kind, '') <> 'unknown'
    GROUP BY f.issue_id ORDER BY f.issue_id"""

# An alert on failing traces that was open when the issue was fixed, and still is.
_STILL_OPEN = """WITH fixed AS (
        SELECT * FROM issues QUALIFY row_number() OVER (PARTITION BY issue_id ORDER BY seq DESC) = 1
    ), opened AS (SELECT alert_id, min(seq) AS seq FROM alerts GROUP BY alert_id)
    SELECT f.issue_id, f.seq, a.alert_id, a.rate_before, a.rate_after, a.lane, a.pipeline, a.environment,
        coalesce(a.component, '') AS component, a.metric, a.metric_version, coalesce(a.judge, '') AS judge
    FROM fixed f JOIN alerts_open a ON a.metric = f.metric JOIN opened o ON o.alert_id = a.alert_id
    WHERE f.status = 'fixed' AND f.metric <> '' AND o.seq <= f.seq AND coalesce(a.verdict, '') <> 'better'
        AND a.kind IN ('shift', 'cascade') AND a.rate_before < a.rate_after
    ORDER BY f.issue_id, a.alert_id"""

_SERIES = ("lane", "pipeline", "environment", "component", "metric", "metric_version", "judge")
_SINCE = " AND ".join(["seq > ?", *(f"coalesce({name}, '') = ?" for name in _SERIES)])

# Bad and good traces of a series by tick, and how many sessions hold one trace: those of a session fail together.
_TRACES = f"""SELECT coalesce(sum(n) FILTER (outcome = 'bad'), 0)::BIGINT AS bad,
        coalesce(sum(n) FILTER (outcome = 'good'), 0)::BIGINT AS good
    FROM ticks WHERE {_SINCE} AND level = 'unit' AND facet = 'all' AND outcome IN ('bad', 'good')
    GROUP BY bucket ORDER BY bucket"""
_SESSIONS = f"SELECT count(DISTINCT session_id) / sum(units) AS share FROM session_ticks WHERE {_SINCE}"

# Likelihood ratio from which a fault is gone, and from which it is back: false in one of 100,000 traces. Smaller:
# a lull is taken for a fix. Larger: a return is told later.
_SURE = math.log(1e5)
# Smallest failure rate that is reckoned with: where nothing failed before, a single failure would be a return.
_LEAST_RATE = 0.001


def has_returned(before: float, after: float, traces: Iterable[tuple[int, int]], weight: float = 1.0) -> bool:
    """Return whether traces show that a fault went away and came back: two CUSUM tests, one after the other.

    Args:
        before: Failure rate before the fault, 0 to 1.
        after: Failure rate with the fault, larger.
        traces: Numbers of bad and good traces by tick, in the order of time.
        weight: Independent traces in one trace, 0 to 1: one divided by the traces of a session.

    Source:
        Page 1954, Continuous inspection schemes: the log likelihood ratio of the two rates, never below 0.
    """
    good, fault = (min(max(rate, _LEAST_RATE), 1 - _LEAST_RATE) for rate in (before, after))
    if good >= fault:
        return False
    of_bad, of_good = math.log(fault / good), math.log((1 - fault) / (1 - good))
    evidence, is_gone = 0.0, False
    for bad, fine in traces:
        ratio = weight * (bad * of_bad + fine * of_good)
        evidence = max(0.0, evidence + (ratio if is_gone else -ratio))
        if evidence >= _SURE and is_gone:
            return True
        if evidence >= _SURE:
            evidence, is_gone = 0.0, True
    return False


def regressed_issues(con: StoreReader) -> IssueRecords | None:
    """Return the records that set fixed issues to regressed; None if no fault has returned.

    Raises:
        JobError: The store cannot be read.
    """
    found = {row["issue_id"]: f"alert {row['alert_id']}" for row in ask(con, _RETURNED, []).objects()}
    for row in ask(con, _STILL_OPEN, []).objects():
        if row["issue_id"] not in found and _returned_behind(con, row):
            found[row["issue_id"]] = f"it was gone and is back, behind the open alert {row['alert_id']}"
    if not found:
        return None
    issues = read_issues(con)
    rows = [
        replace(issues[id_], status="regressed", by=_BY, why=f"{why} of {issues[id_].metric}").row()
        for id_, why in found.items()
    ]
    return IssueRecords({"issues": rows})


def _returned_behind(con: StoreReader, alert: dict[str, Any]) -> bool:
    """Return whether the fault of an alert went away and came back since its issue was fixed."""
    where = [alert["seq"], *(alert[name] for name in _SERIES)]
    share = ask(con, _SESSIONS, where).objects()[0]["share"]
    traces = ((row["bad"], row["good"]) for row in ask(con, _TRACES, where).objects())
    return has_returned(alert["rate_before"], alert["rate_after"], traces, min(1.0, share or 1.0))
