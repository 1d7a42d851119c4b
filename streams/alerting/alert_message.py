"""An alert of the topic `alerts` as one line for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scorers.printable import shown
from streams.alerting.alert_words import headline_of, quantile_move, share_name, size


def message_text(message: Mapping[str, Any]) -> str:
    """Return one line: how loud, what, where, how much, since when.

    Args:
        message: As it is sent to the topic.
    """
    told = dict(message)
    where = f"{shown(told['metric'])} of {shown(told.get('component') or 'the trace')}"
    place = f"{shown(told['pipeline'])} in {shown(told['environment'])}"
    if "kind" not in told:  # what somebody said to it
        by = f" by {shown(told['by'])}" if told.get("by") else ""
        return f"{told['state'].upper()}{by}: {where}, {place} ({told['alert_id']})"
    if told["state"] == "resolved":
        return f"RESOLVED: {where}, {place} ({told['alert_id']})"
    since = f", since {told['change_at']}" if told.get("change_at") else ""
    moved = quantile_move(told) or f"{share_name(told)} {size(told)}"
    parts = f"{told['severity'].upper()}: {headline_of(told)}: {where}: {moved}{since}, {place}"
    return f"{parts} ({told['alert_id']})"
