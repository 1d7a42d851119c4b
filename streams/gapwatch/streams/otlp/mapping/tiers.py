"""Tiers of model calls: by the mapping, or else by order."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from gapwatch.streams.otlp.mapping.trace_step import TraceStep

_DATE = re.compile(r"[-@:](?:20\d{2}-?\d{2}-?\d{2}|\d{4}|\d{3}|latest)$")


@lru_cache(4_096)
def model_family(model: str) -> str:
    """Return a model's name without its provider and its date: `openai/gpt-4.1-2025-04-14` is `gpt-4.1`."""
    return _DATE.sub("", model.rsplit("/", 1)[-1].strip()).lower()


def set_tiers(steps: Sequence[TraceStep]) -> None:
    """Set the tier of the model calls that have none yet.

    The first model that was tried in a component is `primary`; another that answers after a failed call is `fallback`.
    A call of another model without a failure before it has no tier.

    Args:
        steps: Steps of the trace.
    """
    by_component: dict[str, list[TraceStep]] = {}
    for step in steps:
        if step.kind == "llm" and step.tier is None and not step.is_wrapper and step.facts.model is not None:
            by_component.setdefault(step.component, []).append(step)
    for calls in by_component.values():
        # By end: where the failed attempt lies in the call that answered, it ended first.
        calls.sort(key=lambda step: (step.facts.record.end, step.facts.record.start, step.facts.record.span_id))
        primary = model_family(calls[0].facts.model or "")
        has_failed = False
        for step in calls:
            if model_family(step.facts.model or "") == primary:
                step.tier = "primary"
            elif has_failed:
                step.tier = "fallback"
            has_failed = has_failed or step.facts.is_error
