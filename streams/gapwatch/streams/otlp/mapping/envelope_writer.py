"""Writes the steps of a trace as one envelope."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import orjson

from gapwatch.streams.otlp.decoding.raw_items import RawTrace
from gapwatch.streams.otlp.mapping.json_text import compact_text, parsed
from gapwatch.streams.otlp.mapping.mapping_rules import TraceRules
from gapwatch.streams.otlp.mapping.naming import clean_name
from gapwatch.streams.otlp.mapping.span_facts import EXCHANGE, MOST_CHARACTERS, MOST_OWN_CHARACTERS
from gapwatch.streams.otlp.mapping.trace_step import TraceStep

#: Times before 2000 and after 2100, in nanoseconds since the epoch, are no times.
_FIRST_TIME, _LAST_TIME = 946_684_800_000_000_000, 4_102_444_800_000_000_000
_DAY_SECONDS = 86_400
#: Members of metadata and tags of a trace, at most.
_MOST_METADATA = 32
_SERVER = 2  # span kind
_THRESHOLD = re.compile(r"(?:^|[,;])ot=(?:[^,]*;)?th:([0-9a-f]{1,14})(?:[;,]|$)")

# Resource attributes that give a field of the trace, in order of preference.
_RELEASE = ("langfuse.release", "service.version", "langfuse.version")
_ENVIRONMENT = ("deployment.environment.name", "deployment.environment", "langfuse.environment")
_COUNTS = ("cached_tokens", "cache_creation_tokens", "reasoning_tokens")


def envelope_bytes(
    trace: RawTrace, steps: Sequence[TraceStep], kept: Sequence[TraceStep], root: TraceStep, rules: TraceRules
) -> bytes:
    """Return the envelope of a trace as one line of JSON without its end.

    Args:
        trace: The trace as it was closed.
        steps: All its steps by start.
        kept: Those that are in the envelope, by start.
        root: Its root, or else its earliest step.
        rules: Rules of its pipeline.
    """
    last = _LAST_TIME if trace.arrived_at is None else int((trace.arrived_at + _DAY_SECONDS) * 1e9)
    first_to_last = [root, *(step for step in steps if step is not root)]
    said = set().union(*[step.facts.found for step in steps])
    envelope: dict[str, Any] = {"trace_id": trace.trace_id.hex(), "pipeline": rules.pipeline}
    resource = root.facts.resource
    _put(envelope, "environment", _of_resource(resource, first_to_last, _ENVIRONMENT, "environment", said))
    _put(envelope, "release", _of_resource(resource, first_to_last, _RELEASE, "release", said))
    if "session_id" in said:
        _put(envelope, "session_id", _first(first_to_last, "session_id"))
    is_whole = root.parent is None and not root.lost_parent
    if is_whole:
        _put(envelope, "started_at", _seconds(root.facts.record.start, last))
        _put(envelope, "ended_at", _seconds(root.facts.record.end, last))
    else:
        times = [time for step in steps if (time := _seconds(step.facts.record.start, last)) is not None]
        ends = [time for step in steps if (time := _seconds(step.facts.record.end, last)) is not None]
        _put(envelope, "started_at", min(times, default=None))
        _put(envelope, "ended_at", max(ends, default=None))
    probability = _probability(steps)
    if probability is not None:
        envelope["sampling_probability"] = probability
    envelope["attributes"] = _trace_attributes(trace, steps, first_to_last, root, is_whole, rules, said)
    envelope["spans"] = [_span(step, last, rules) for step in kept]
    return orjson.dumps(envelope, option=orjson.OPT_NON_STR_KEYS)


def _trace_attributes(
    trace: RawTrace,
    steps: Sequence[TraceStep],
    first_to_last: Sequence[TraceStep],
    root: TraceStep,
    is_whole: bool,
    rules: TraceRules,
    said: set[str],
) -> dict[str, Any]:
    lost = [step for step in steps if step.lost_parent]
    # A caller outside of what is watched: its span never comes, and nothing is missing.
    is_entry = lost == [root] and root.facts.record.kind == _SERVER
    found: dict[str, Any] = {
        "complete": (is_whole and not lost) or is_entry,
        "closed_by": trace.closed_by,
    }
    if is_whole or is_entry:
        found["root"] = clean_name(root.facts.record.name)
    if "user_id" in said and (user := _first(first_to_last, "user_id")) is not None:
        found["user_id"] = user
    services = {step.facts.service for step in steps}
    if len(services) > 1 and len(named := [one for one in services if one]) > 1:
        found["services"] = sorted(named)
    for step in first_to_last:
        facts = step.facts
        if "metadata" in facts.found or facts.metadata:
            metadata = parsed(facts.found.get("metadata"))
            members = {**(metadata if isinstance(metadata, dict) else {}), **facts.metadata}
            for key, value in list(members.items())[:_MOST_METADATA]:
                if (flat := _flat(value)) is not None:
                    found[f"metadata.{key[:200]}"] = flat
            break
    if "tags" in said:
        tags = next(step.facts.found["tags"] for step in first_to_last if "tags" in step.facts.found)
        found["tags"] = _flat(parsed(tags))
    if rules.picks:
        for step in first_to_last:
            for name, value in rules.picked(step).items():
                found.setdefault(name, _flat(value))
    return found


def _span(step: TraceStep, last: int, rules: TraceRules) -> dict[str, Any]:
    facts, record = step.facts, step.facts.record
    found = facts.found
    parent = step.parent
    while parent is not None and parent.is_dropped:
        parent = parent.parent
    span: dict[str, Any] = {"span_id": record.span_id}
    if parent is not None:
        span["parent_id"] = parent.facts.record.span_id
    elif step.lost_parent and record.parent_id is not None:
        span["parent_id"] = record.parent_id
    span["component"] = step.component
    span["name"] = clean_name(record.name)
    span["kind"] = step.kind
    start, end = record.start, record.end
    if _FIRST_TIME <= start <= last:
        span["started_at"] = start // 1_000 / 1e6
    else:
        facts.absent["time"] = "no_time"
    if _FIRST_TIME <= end <= last:
        span["ended_at"] = end // 1_000 / 1e6
    else:
        facts.absent["time"] = "no_time"
    span["status"] = "error" if facts.is_error else "ok"
    if facts.error_type is not None:
        span["error_type"] = facts.error_type
    if (model := facts.model) is not None:
        span["model"] = model
    if step.tier is not None:
        span["tier"] = step.tier
    if facts.input is not None:
        span["input"] = facts.input
    if facts.output is not None:
        span["output"] = facts.output
    attributes: dict[str, Any] = {}
    usage: dict[str, Any] = {}
    if facts.input_tokens is not None:
        usage["input_tokens"] = facts.input_tokens
    if facts.output_tokens is not None:
        usage["output_tokens"] = facts.output_tokens
    if facts.cost is not None:
        usage["cost_usd"] = facts.cost
    if usage:
        for name in _COUNTS:
            if name in found and (count := parsed(found[name])):
                attributes[name] = count
        if step.is_wrapper:
            for name, value in usage.items():
                attributes[f"reported_{name}"] = value
        else:
            span["usage"] = usage
    if "finish_reason" in found and (reason := _finish_reason(found["finish_reason"])) is not None:
        attributes["finish_reason"] = reason
    if "tool_id" in found:
        attributes["tool_call_id"] = found["tool_id"]
    if step.kind in ("retrieval", "rerank") and (documents := facts.documents()) is not None:
        if documents:
            attributes["documents"] = compact_text(documents)
        attributes["retrieved_count"] = len(documents)
    if record.links:
        attributes["links"] = [f"{trace_id}/{span_id}" for trace_id, span_id in record.links[:_MOST_METADATA]]
    if facts.absent:
        for field, reason in sorted(facts.absent.items()):
            attributes[f"absent.{field}"] = reason
    for key, value in facts.own.items():
        most = MOST_CHARACTERS if key in EXCHANGE else MOST_OWN_CHARACTERS
        flat = value if type(value) is str and len(value) <= most else _flat(value)
        if flat is not None:
            attributes.setdefault(key[:200], flat)
    if rules.picks:
        for name, value in rules.picked(step).items():
            attributes[name] = _flat(value)
    if rules.mapping is not None and rules.mapping.keep_raw:
        attributes |= {f"raw.{name}": compact_text(found[name]) for name in ("input", "output") if name in found}
    if attributes:
        span["attributes"] = attributes
    return span


def _put(members: dict[str, Any], name: str, value: Any) -> None:
    if value is not None:
        members[name] = value


def _seconds(nanoseconds: int, last: int) -> float | None:
    """Return seconds since the epoch; None for no time, which is one outside of 2000 to a day after its arrival."""
    if _FIRST_TIME <= nanoseconds <= last:
        return nanoseconds // 1_000 / 1e6
    return None


def _first(steps: Sequence[TraceStep], field: str) -> str | None:
    """Return a text field of the root, or else of the earliest step that has it."""
    for step in steps:
        value = step.facts.found.get(field)
        if value is not None and value != "":
            return compact_text(value).strip('"')[:MOST_OWN_CHARACTERS]
    return None


def _of_resource(
    resource: dict[str, Any], steps: Sequence[TraceStep], keys: Sequence[str], field: str, said: set[str]
) -> str | None:
    for key in keys:
        value = resource.get(key)
        if isinstance(value, str) and value:
            return value[:MOST_OWN_CHARACTERS]
    return _first(steps, field) if field in said else None


def _flat(value: Any) -> Any:
    """Return a value of a flat map: a text, a number, true or false; None for one that is absent or too long."""
    if value is None or isinstance(value, bool | int | float):
        return value
    text = compact_text(value)
    return text if len(text) <= MOST_OWN_CHARACTERS else None


def _finish_reason(value: Any) -> str | None:
    value = parsed(value)
    if isinstance(value, list):
        value = value[0] if value else None
    if not isinstance(value, str) or not value:
        return None
    reason = value.rsplit(".", 1)[-1].strip().lower().replace("-", "_")
    return "tool_calls" if reason == "tool_call" else reason[:100]


def _probability(steps: Sequence[TraceStep]) -> float | None:
    """Return the smallest probability of the W3C trace states; None if none says one.

    Source: https://opentelemetry.io/docs/specs/otel/trace/tracestate-probability-sampling, rejection threshold `th`.
    """
    found = None
    for step in steps:
        state = step.facts.record.trace_state
        if state and (match := _THRESHOLD.search(state)):
            probability = 1.0 - int(match[1].ljust(14, "0"), 16) / (1 << 56)
            found = probability if found is None else min(found, probability)
    return found
