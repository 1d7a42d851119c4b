"""Queue of triage: feedback, failing rows and alerts that nobody has decided on yet."""

from __future__ import annotations

from dataclasses import dataclass

from gapwatch.scorers.errors import UsageError
from gapwatch.sinks.reading.query_answer import ask
from gapwatch.sinks.store.store_reader import StoreReader

#: Kinds of items, in the order of the queue.
KINDS = ("alert", "feedback", "row")
#: Decisions on an item.
DECISIONS = ("made", "joined", "dropped")

_QUEUE = """WITH items AS (
        SELECT CASE severity WHEN 'page' THEN -2 WHEN 'ticket' THEN -1 ELSE 0 END AS rank, 'alert' AS kind,
            alert_id AS item, found_at AS "at", pipeline, NULL AS trace_id, [metric] AS metrics, concat(severity, ': ',
                metric, ' of ', coalesce(component, 'the trace'), ' moved ', coalesce(moved, '')) AS "text", incident_id
        FROM alerts_open
        UNION ALL BY NAME
        SELECT 1 AS rank, 'feedback' AS kind, f.feedback_id AS item, f."at",
            coalesce(j.pipeline, f.pipeline) AS pipeline, f.trace_id, [] AS metrics,
            concat_ws(': ', f."value", f.comment) AS "text"
        FROM feedback f LEFT JOIN feedback_joins j USING (feedback_id) WHERE f.number <= 0
        UNION ALL BY NAME
        SELECT 2 AS rank, 'row' AS kind, trace_id AS item, max(event_at) AS "at", any_value(pipeline) AS pipeline,
            trace_id, list(DISTINCT metric ORDER BY metric) AS metrics,
            concat_ws('; ', any_value(observed), string_agg(DISTINCT metric, ', ' ORDER BY metric)) AS "text"
        FROM gaps WHERE outcome = 'fail' AND (lane = 'live' OR lane LIKE 'file:%') GROUP BY trace_id
    )
    SELECT kind, item, "at", pipeline, trace_id, metrics, "text", incident_id FROM items
    WHERE NOT EXISTS (SELECT 1 FROM triage t WHERE t.kind = items.kind AND t.item = items.item)
        AND (? IS NULL OR kind = ?)
    ORDER BY rank, "at" DESC NULLS LAST, item LIMIT ?"""


_OF_INCIDENT = """SELECT o.alert_id, o.incident_id FROM alerts_open o JOIN alerts_open mine USING (incident_id)
    WHERE mine.alert_id = ? AND o.alert_id <> mine.alert_id
        AND NOT EXISTS (SELECT 1 FROM triage t WHERE t.kind = 'alert' AND t.item = o.alert_id)
    ORDER BY o.alert_id"""


@dataclass(frozen=True)
class TriageItem:
    """Something that went wrong and waits for a decision.

    Attributes:
        kind: One of `KINDS`.
        item: Id of the alert, of the feedback, or of the trace with failing rows.
        at: When it happened, UTC; None without a time.
        pipeline: Its pipeline.
        trace_id: Its trace; None for an alert.
        metrics: Failing metrics.
        text: What was seen or said.
        incident_id: Incident of an alert; None for other items.
    """

    kind: str
    item: str
    at: object
    pipeline: str | None
    trace_id: str | None
    metrics: tuple[str, ...]
    text: str
    incident_id: str | None = None

    @property
    def key(self) -> str:
        """Name of the item in commands: kind:item."""
        return f"{self.kind}:{self.item}"


def triage_items(con: StoreReader, kind: str | None = None, limit: int = 50) -> list[TriageItem]:
    """Return items without a decision: alerts by severity, then feedback, then traces with failing rows.

    Items of one rank are sorted by time, the latest first.

    Raises:
        JobError: The store cannot be read.
    """
    rows = ask(con, _QUEUE, [kind, kind, limit]).objects()
    return [TriageItem(**{**row, "metrics": tuple(row["metrics"] or ()), "text": row["text"] or ""}) for row in rows]


def waiting_item(con: StoreReader, wanted: str) -> TriageItem:
    """Return an item without a decision by its key, kind:id.

    Raises:
        UsageError: No such item waits.
    """
    kind, _, id_ = wanted.partition(":")
    found = [one for one in triage_items(con, kind, 1_000_000) if one.item == id_] if id_ else []
    if not found:
        raise UsageError(f"no item {wanted!r} waits for a decision; gapwatch triage list shows them as kind:id")
    return found[0]


def alerts_of_incident(con: StoreReader, alert_id: str) -> list[tuple[str, str]]:
    """Return the other open alerts of an alert's incident without a decision, each with the id of the incident."""
    return [(row["alert_id"], row["incident_id"]) for row in ask(con, _OF_INCIDENT, [alert_id]).objects()]
