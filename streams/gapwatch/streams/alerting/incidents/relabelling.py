"""Relabels past shifts when the direction of their metric changes."""

from __future__ import annotations

from gapwatch.sinks.store.alert_tables import ShiftLabel, labelled_shifts, relabel_shift
from gapwatch.sinks.store.transaction import Connection
from gapwatch.streams.alerting.incidents.alert_rows import kind_of, polarity_of
from gapwatch.streams.alerting.rules.alert_rule import AlertRule


def relabel(con: Connection, lane: str, seq: int, rule: AlertRule) -> int:
    """Insert a new label for each past shift of a metric whose direction changed; earlier labels stay as history.

    Args:
        con: Connection in a transaction.
        lane: Lane of the shifts.
        seq: Number of the commit.
        rule: Alert rule of the metric, with the new direction.

    Returns:
        Number of shifts whose label changed.
    """
    changed = 0
    for shift in labelled_shifts(con, lane, rule.pipeline, rule.metric):
        if shift.watched == "labels":
            continue  # a mix of labels has no direction; labels that fail count in the failure rate
        polarity = polarity_of(rule, shift.watched, shift.moved == "up")
        question = rule.question if rule.side_of(shift.watched) == 0 else None
        label = ShiftLabel(kind_of(shift.watched, rule.is_cascade), polarity, question)
        if label != shift.label:
            relabel_shift(con, seq, shift.shift_id, label)
            changed += 1
    return changed
