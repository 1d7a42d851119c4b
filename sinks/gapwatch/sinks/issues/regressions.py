"""Fixed issues whose metric alerts again: they are set to regressed."""

from __future__ import annotations

from dataclasses import replace

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
    GROUP BY f.issue_id ORDER BY f.issue_id"""


def regressed_issues(con: StoreReader) -> IssueRecords | None:
    """Return the records that set fixed issues to regressed; None if no metric of one alerts.

    Raises:
        JobError: The store cannot be read.
    """
    found = {row["issue_id"]: row["alert_id"] for row in ask(con, _RETURNED, []).objects()}
    if not found:
        return None
    issues = read_issues(con)
    rows = [
        replace(issues[id_], status="regressed", by=_BY, why=f"alert {alert} of {issues[id_].metric}").row()
        for id_, alert in found.items()
    ]
    return IssueRecords({"issues": rows})
