"""Decisions on issues as requests of the page: an item of triage, and the status of an issue."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from gapwatch.scorers.errors import UsageError
from gapwatch.sinks.issues.issue_query import find_issue
from gapwatch.sinks.issues.triaging import TriageDecision, drop_item, join_issue, make_issue
from gapwatch.sinks.store.store_reader import StoreReader


def decide_item(con: StoreReader, asked: Mapping[str, Any]) -> TriageDecision:
    """Return the decision of a request: `item`, `decision` (make, join, drop), `by`; `title`, `issue`, `why`, `force`.

    Raises:
        UsageError: A field is missing or wrong, no such item waits, or similar issues exist.
    """
    item, decision, by = (_text(asked, name) for name in ("item", "decision", "by"))
    if decision == "make":
        return make_issue(con, item, _text(asked, "title", required=False) or None, asked.get("force") is True, by)
    if decision == "join":
        return join_issue(con, item, _text(asked, "issue"), by)
    if decision == "drop":
        return drop_item(con, item, _text(asked, "why"), by)
    raise UsageError("decision must be make, join or drop")


def decide_status(con: StoreReader, asked: Mapping[str, Any]) -> TriageDecision:
    """Return the new version of an issue: `issue`, `status`, `by`, `why`.

    Raises:
        UsageError: A field is missing or wrong, or there is no such issue.
    """
    wanted, status, by, why = (_text(asked, name) for name in ("issue", "status", "by", "why"))
    old = find_issue(con, wanted)
    new = replace(old, status=status, by=by, why=why)
    return TriageDecision({"issues": [new.row()]}, old.issue_id, f"{old.issue_id} is {status}")


#: Decisions by the path of their requests.
DECIDED_BY: dict[str, Callable[[StoreReader, Mapping[str, Any]], TriageDecision]] = {
    "/v1/triage": decide_item, "/v1/issues/status": decide_status,
}  # fmt: skip


def _text(asked: Mapping[str, Any], name: str, required: bool = True) -> str:
    value = asked.get(name, "")
    if not isinstance(value, str) or (required and not value.strip()):
        raise UsageError(f"send `{name}` as a text")
    return value.strip()
