"""Past shifts under a new answer: when it is known which way is better, each is labelled anew."""

from __future__ import annotations

from gapwatch.sinks.store.alert_tables import ShiftLabel, labelled_shifts, relabel_shift
from gapwatch.sinks.store.transaction import Connection
from gapwatch.streams.alerting.incidents.alert_rows import kind_of, polarity_of
from gapwatch.streams.alerting.rules.alert_rule import AlertRule


def relabel(con: Connection, lane: str, seq: int, rule: AlertRule) -> int:
    """Insert the last label of each past shift of a metric whose direction turned; the earlier ones stay as history.

    Args:
        con: In a transaction.
        lane: Whose shifts.
        seq: Number of the commit.
        rule: Of the metric, with the new direction.

    Returns:
        How many shifts are labelled otherwise from now on.
    """
    changed = 0
    for shift in labelled_shifts(con, lane, rule.pipeline, rule.metric):
        if shift.watched == "labels":
            continue  # which label fails is in the rate; the mix of labels has no way
        polarity = polarity_of(rule, shift.watched, shift.moved == "up")
        question = rule.question if rule.side_of(shift.watched) == 0 else None
        label = ShiftLabel(kind_of(shift.watched, polarity), polarity, question)
        if label != shift.label:
            relabel_shift(con, seq, shift.shift_id, label)
            changed += 1
    return changed
