"""Reads model, tokens, finish reason and price from the replies of model clients, by their form."""

from __future__ import annotations

from typing import Any

_INPUT = ("prompt_tokens", "input_tokens", "prompt_token_count", "prompt_eval_count")
_OUTPUT = ("completion_tokens", "output_tokens", "candidates_token_count", "eval_count")


def client_reply(value: Any) -> dict[str, Any]:
    """Return model, input_tokens, output_tokens, finish_reason and cost_usd of a reply, as far as it has them.

    Args:
        value: Result of a function; one that is no reply gives nothing.
    """
    generations = _member(value, "generations")
    if isinstance(generations, list) and generations:  # LangChain
        inner = generations[0][0] if isinstance(generations[0], list) and generations[0] else generations[0]
        message = _member(inner, "message")
        found = client_reply(message) if message is not None else {}
        usage = _member(_member(value, "llm_output"), "token_usage")
        return {**_tokens(usage), **found}
    metadata = _member(value, "response_metadata")
    usage = _first(value, ("usage", "usage_metadata")) or _member(metadata, "token_usage")
    found = _tokens(usage)
    choices = _member(value, "choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    reason = (
        _member(choice, "finish_reason")
        or _member(metadata, "finish_reason")
        or _first(value, ("stop_reason", "finish_reason", "done_reason"))
        or _candidate_reason(value)
    )
    model = _first(value, ("model", "model_name", "model_version")) or _first(metadata, ("model_name", "model"))
    if not found and choice is None and reason is None:
        return {}
    if not found and "eval_count" in _keys(value):
        found = _tokens(value)
    if isinstance(model, str):
        found["model"] = model
    if reason is not None:
        found["finish_reason"] = str(getattr(reason, "value", reason)).lower()
    cost = _first(usage, ("cost_usd", "cost"))
    hidden = _member(value, "_hidden_params")
    cost = cost if isinstance(cost, int | float) else _member(hidden, "response_cost")
    if isinstance(cost, int | float) and not isinstance(cost, bool) and cost > 0:
        found["cost_usd"] = float(cost)
    return found


def _tokens(usage: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, keys in (("input_tokens", _INPUT), ("output_tokens", _OUTPUT)):
        count = _first(usage, keys)
        if type(count) is int:
            found[name] = count
    return found


def _candidate_reason(value: Any) -> Any:
    candidates = _member(value, "candidates")
    return _member(candidates[0], "finish_reason") if isinstance(candidates, list) and candidates else None


def _first(value: Any, names: tuple[str, ...]) -> Any:
    return next((found for name in names if (found := _member(value, name)) is not None), None)


def _keys(value: Any) -> Any:
    return value if isinstance(value, dict) else getattr(value, "__dict__", {})


def _member(value: Any, name: str) -> Any:
    if value is None:
        return None
    if isinstance(value, dict):
        return value.get(name)
    if isinstance(value, str | bytes | int | float | list | tuple):
        return None
    try:
        return getattr(value, name, None)
    except Exception:
        return None


def count_results(value: Any) -> int | None:
    """Return the number of results of a search; None if its result is no list of them."""
    for name in ("documents", "points", "matches", "results", "ids"):
        inner = _member(value, name)
        if isinstance(inner, list):
            return count_results(inner)
    if isinstance(value, list | tuple):
        if len(value) == 1 and isinstance(value[0], list):  # one list for each query
            return len(value[0])
        if isinstance(value, tuple) and value and isinstance(value[0], list):
            return len(value[0])
        return len(value)
    if isinstance(value, dict):
        lists = [len(v) for v in value.values() if isinstance(v, list)]
        return lists[0] if len(lists) == 1 else None
    return None
