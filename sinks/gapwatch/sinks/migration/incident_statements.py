"""Statements that give a converted store of a version before 5 its incidents, from the groups of its alerts."""

from __future__ import annotations

# Rows of the current state of each alert that was copied. Incidents have no message texts of that time.
_LAST = """
    SELECT alert_id, arg_max(incident_id, rowid) AS incident_id, any_value(lane) AS lane,
        any_value(pipeline) AS pipeline, any_value(environment) AS environment, any_value(component) AS component,
        any_value(metric) AS metric, arg_max(state, rowid) AS state, arg_max(severity, rowid) AS severity,
        arg_min(attribution, rowid) AS facts, arg_max(attribution->>'until', rowid) AS until, max("at") AS "at",
        min(rowid) AS place, max(seq) AS seq
    FROM new.alerts GROUP BY alert_id"""

INCIDENT_STATEMENTS = (
    # The id is a function of the first alert, as `streams.alerting.incidents.incident_book.incident_id_of` computes it.
    """UPDATE new.alerts SET incident_id = g.incident_id FROM (
        SELECT alert_id, 'i' || substr(sha256(arg_max(group_id, rowid)), 1, 9) AS incident_id
        FROM old.alerts WHERE state <> 'noted' GROUP BY alert_id) g WHERE g.alert_id = new.alerts.alert_id""",
    # A shift for the worse was called a cascade; now only a shift of a step from one way to another is one.
    """UPDATE new.shifts SET kind = 'shift' WHERE kind = 'cascade' AND shift_id NOT IN (
        SELECT shift_id FROM new.alerts WHERE attribution->>'cascade' = 'true')""",
    f"""INSERT INTO new.incidents BY NAME
    SELECT max(seq) AS seq, incident_id, any_value(lane) AS lane, any_value(pipeline) AS pipeline,
        any_value(environment) AS environment,
        arg_min(metric, place) || ' of ' || coalesce(arg_min(component, place), 'the trace')
            || CASE WHEN count(*) > 1 THEN ' and ' || (count(*) - 1) || ' more' ELSE '' END AS "name",
        CASE WHEN bool_or(facts->>'cascade' = 'true') THEN 'cascade'
            WHEN bool_or(facts->>'kind' IN ('cascade', 'shift')) THEN 'shift'
            ELSE coalesce(arg_min(facts->>'kind', place), '') END AS kind,
        CASE WHEN bool_or(state = 'open') THEN 'open' WHEN bool_or(state = 'silenced') THEN 'silenced'
            WHEN bool_or(state = 'acknowledged') THEN 'acknowledged' WHEN bool_and(state = 'accepted') THEN 'accepted'
            ELSE 'resolved' END AS state,
        CASE WHEN bool_or(severity = 'page') THEN 'page' WHEN bool_or(severity = 'ticket') THEN 'ticket'
            ELSE 'note' END AS severity,
        arg_min(component, place) AS component, arg_min(TRY_CAST(facts->>'change_at' AS TIMESTAMP), place) AS since,
        arg_min(TRY_CAST(facts->>'change_from' AS TIMESTAMP), place) AS since_from,
        arg_min(TRY_CAST(facts->>'change_to' AS TIMESTAMP), place) AS since_to,
        to_json(list(alert_id ORDER BY place)) AS members, max("at") AS "at", 'gapwatch' AS "by",
        'from a store of an earlier version' AS why,
        CASE WHEN bool_or(state = 'silenced') THEN json_object('until', max(until)) ELSE '{{}}'::JSON END AS told
    FROM ({_LAST}) WHERE incident_id IS NOT NULL GROUP BY incident_id ORDER BY min(place)""",
)
