"""Joins the content of log records and of events to what their span says, as older GenAI conventions send it."""

from __future__ import annotations

from typing import Any

from gapwatch.streams.otlp.decoding.span_record import LogEntry
from gapwatch.streams.otlp.mapping.convention_table import ConventionTable
from gapwatch.streams.otlp.mapping.json_text import parsed
from gapwatch.streams.otlp.mapping.span_facts import SpanFacts

_CONTENT_FIELDS = ("input", "output", "system", "documents")
#: Event or record of older GenAI conventions to the role and the field of its message.
_MESSAGE_EVENTS = {
    "gen_ai.system.message": ("system", "input"),
    "gen_ai.user.message": ("user", "input"),
    "gen_ai.assistant.message": ("assistant", "input"),
    "gen_ai.tool.message": ("tool", "input"),
    "gen_ai.choice": ("assistant", "output"),
    "gen_ai.assistant.choice": ("assistant", "output"),
}


def join_content(facts: SpanFacts, entry: LogEntry, table: ConventionTable) -> None:
    """Add the content of a log record, or of an event, that belongs to a span; before its content is read."""
    name, attributes = entry.name, entry.attributes
    part = _MESSAGE_EVENTS.get(name)
    if part is not None:
        body = entry.body if entry.body is not None else parsed(attributes.get("gen_ai.event.content"))
        content = body if isinstance(body, dict) else {"content": body} if body is not None else dict(attributes)
        role, field = part
        if field == "output":
            inner = parsed(content.get("message"))
            inner = (
                inner
                if isinstance(inner, dict)
                else {"content": inner if inner is not None else content.get("content")}
            )
            if isinstance(inner.get("content"), str):
                inner = {**inner, "content": parsed(inner["content"])}
            message: dict[str, Any] = {**inner, "role": inner.get("role") or role}
            reason = content.get("finish_reason")
            if reason:
                facts.found.setdefault("finish_reason", reason)
        else:
            message = {**content, "role": content.get("role") or role}
            if isinstance(message.get("content"), str):
                message["content"] = parsed(message["content"])
        known = facts.found.get(field)
        if isinstance(known, list):
            known.append(message)
        elif known is None and field not in facts.indexed:
            facts.found[field] = [message]
        return
    for key, value in attributes.items():
        meaning = table.meanings[key]
        if meaning.member is None and value is not None and meaning.field in _CONTENT_FIELDS:
            facts.found.setdefault(meaning.field, value)


def has_genai_content(entry: LogEntry) -> bool:
    """Return whether a log record is one of the GenAI conventions, rather than a line of a program's log."""
    return entry.name.startswith("gen_ai.") or any(key.startswith("gen_ai.") for key in entry.attributes)
