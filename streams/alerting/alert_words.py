"""An alert in words: what moved, which way, how much, since when."""

from __future__ import annotations

from typing import Any

from sinks.answer_table import component_text, share_text
from streams.alerting.alert_reading import Alert

_VERDICTS = {"worse": "worse", "better": "better", "unknown": "polarity unknown"}


def headline(alert: Alert) -> str:
    """Return what is wrong in a few words, such as `CASCADE worse`."""
    return headline_of(alert.told)


def headline_of(told: dict[str, Any]) -> str:
    """Return the same of what an alert tells."""
    word = {"cascade": "CASCADE", "shift": "SHIFT", "unknown": "BLIND", "bound": "BOUND"}.get(told.get("kind", ""), "")
    verdict = _VERDICTS.get(told.get("verdict") or "", "")
    return f"{word} {'broken' if told.get('kind') == 'bound' else verdict}".strip()


def subject(alert: Alert) -> str:
    """Return whose failures they are: `ids_known of tools`."""
    return f"{alert.row['metric']} of {component_text(alert.row['component'])}"


def share_name(told: dict[str, Any]) -> str:
    """Return what the share is of: `failing traces`, `undecided traces`."""
    unit = "sessions" if told.get("unit") == "session" else "traces"
    return f"{'undecided' if told.get('kind') == 'unknown' else 'failing'} {unit}"


def size(told: dict[str, Any]) -> str:
    """Return how much it moved: `0.99% -> 47% [14%, 82%]`, or for a bound the rate against it."""
    after = told.get("after")
    if after is None:
        return "-"
    now = f"{_share(after[0])} [{_share(after[1])}, {_share(after[2])}]"
    if told.get("bound"):
        operator, value = told["bound"]
        return f"{now}, promised {operator} {_share(value)}"
    before = told.get("before")
    return now if before is None else f"{_share(before[0])} -> {now}"


def _share(value: float | None) -> str:
    return share_text(value)
