"""Chooses a tool of a shop and calls it."""

from __future__ import annotations

from typing import Any

ORDERS = {"A1": "shipped"}


def act(request: str) -> dict[str, Any]:
    """Return the calls of tools that a request leads to, each with its result or its error."""
    if "cancel" in request:
        return {"tool_calls": [{"name": "cancel_order", "arguments": {"id": 7}, "error": "no such order"}]}
    order = request.split()[-1].strip("?")
    call: dict[str, Any] = {"name": "order_status", "arguments": {"id": order}}
    call |= {"result": ORDERS[order]} if order in ORDERS else {"error": "no such order"}
    return {"tool_calls": [call]}
