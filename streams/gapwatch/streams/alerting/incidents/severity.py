"""Severities of alerts and incidents: their order, and the one that messages carry."""

from __future__ import annotations

from collections.abc import Iterable

#: From quiet to loud.
SEVERITIES = ("note", "ticket", "page")


def told_severity(state: str, severity: str) -> str:
    """Return the severity of a message: one step lower once somebody works on the alert or incident."""
    return {"page": "ticket", "ticket": "note"}.get(severity, severity) if state == "acknowledged" else severity


def loudest(severities: Iterable[str]) -> str:
    """Return the loudest of the severities; note without one."""
    return max(severities, key=SEVERITIES.index, default="note")


def at_most(severity: str, most: str) -> str:
    """Return the severity, or `most` where that is quieter."""
    return min(severity, most, key=SEVERITIES.index)
