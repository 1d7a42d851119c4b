"""An alert in words: what moved, which way, how much, since when."""

from __future__ import annotations

from typing import Any

from scorers.printable import shown
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
    """Return what the share is of: `failing traces`, `undecided traces`, `traces above 2.5 seconds`."""
    if told.get("part"):
        return _part_name(told)
    unit = "sessions" if told.get("unit") == "session" else "traces"
    return f"{'undecided' if told.get('kind') == 'unknown' else 'failing'} {unit}"


def _part_name(told: dict[str, Any]) -> str:
    if "statistic" not in told:
        return f"traces labelled {shown(told['part'])}"
    above, below, unit = told.get("above"), told.get("below"), shown(told.get("number_unit") or "")
    ends = [
        *([f"above {_number(above)}"] if above is not None else []),
        *([f"up to {_number(below)}"] if below is not None else []),
    ]
    return f"traces {' or '.join(ends)} {unit}".strip() if ends else f"traces {told['part']}"


def quantile_move(told: dict[str, Any]) -> str | None:
    """Return how a quantile of the numbers moved: `median 2.1 -> 4.3 seconds`; None where it is not known."""
    values = told.get("values") or {}
    if values.get("before") is None or values.get("after") is None:
        return None
    q = 100 * values.get("q", told["statistic"])
    name = "median" if q == 50 else f"p{q:g}"
    before, after = _number(values["before"]), _number(values["after"])
    return f"{name} {before} -> {after} {shown(told.get('number_unit') or '')}".strip()


def _number(value: float) -> str:
    """Return a number that is known to half a percent; what is as near to a whole one is that."""
    nearest = round(value)
    if nearest and abs(value - nearest) <= 0.006 * abs(nearest) and abs(nearest) < 100:
        return str(nearest)
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def size(told: dict[str, Any]) -> str:
    """Return how much it moved: a quantile, `0.99% -> 47% [14%, 82%]`, or for a bound the rate against it."""
    return quantile_move(told) or share_move(told)


def share_move(told: dict[str, Any]) -> str:
    """Return how the share moved: `0.99% -> 47% [14%, 82%]`, or for a bound the rate against it."""
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
