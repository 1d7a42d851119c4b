"""Names of steps: cleaned of ids and models, and whose they are, a person's or an instrumentor's."""

from __future__ import annotations

import re
from functools import lru_cache

from gapwatch.streams.otlp.mapping.convention_table import ConventionTable
from gapwatch.streams.otlp.mapping.span_facts import MODEL_KINDS
from gapwatch.streams.otlp.mapping.trace_step import TraceStep

#: Characters of a name; the rest of a longer one is cut.
MOST_CHARACTERS = 120
_UUID = re.compile(r"[-_:. ]?[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}|[-_:. ]?\b[0-9a-fA-F]{24,}\b")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]+")
_OPERATIONS = ("invoke_agent ", "create_agent ", "execute_tool ", "execute_task ", "invoke_workflow ")
_SUFFIXES = (".workflow", ".task", ".agent", ".tool")
_NO_NAME = "unnamed"
_CLIENT = 3  # span kind
#: Characters of a name for which the answer is remembered.
_LONGEST_KEY = 200


@lru_cache(20_000)
def clean_name(name: str) -> str:
    """Return a name without ids and control characters, cut to `MOST_CHARACTERS`."""
    text = _CONTROL.sub(" ", name[: 8 * MOST_CHARACTERS])
    return _UUID.sub("", text).strip()[:MOST_CHARACTERS] or _NO_NAME


def name_steps(steps: list[TraceStep], table: ConventionTable) -> None:
    """Give each step its own name, if a person named it, and its component.

    A span that an instrumentor made for a client belongs to the nearest step above it that a person named.

    Args:
        steps: Steps of the trace by start; parents may come after their children.
        table: Knows the names of clients and of frameworks' plumbing.
    """
    for step in steps:
        step.own_name = _own_name(step, table)
    for step in steps:
        step.component = step.own_name or _inherited(step) or clean_name(step.facts.record.name)


def _inherited(step: TraceStep) -> str | None:
    for above in step.above():
        if above.own_name is not None:
            return above.own_name
    enclosing = step.facts.found.get("enclosing")
    return clean_name(enclosing) if isinstance(enclosing, str) and step.facts.record.parent_id is not None else None


def _own_name(step: TraceStep, table: ConventionTable) -> str | None:
    facts = step.facts
    given, model = facts.found.get("component"), facts.found.get("model")
    if isinstance(given, str) and (cleaned := clean_name(given)) != _NO_NAME:  # an id alone is no name
        return cleaned
    record = facts.record
    key = (record.name, facts.kind, facts.scope, model, record.kind == _CLIENT, facts.is_infrastructure)
    try:
        return table.known_names[key]
    except (KeyError, TypeError):
        name = _name_by_rules(step, table)
        if isinstance(model, str | None) and len(record.name) < _LONGEST_KEY:
            table.known_names[key] = name
        return name


def _name_by_rules(step: TraceStep, table: ConventionTable) -> str | None:
    facts = step.facts
    name = facts.record.name
    if facts.kind in MODEL_KINDS:
        return None if _is_made_for_client(step, table) else clean_name(name)
    if facts.kind is None and facts.is_infrastructure:
        return None
    if table.is_plumbing(name):
        return None
    for operation in _OPERATIONS:
        if name.startswith(operation):
            name = name[len(operation) :]
            if name == facts.model:
                return None
    for suffix in _SUFFIXES:
        name = name.removesuffix(suffix)
    cleaned = clean_name(name)
    return None if cleaned == _NO_NAME else cleaned


def _is_made_for_client(step: TraceStep, table: ConventionTable) -> bool:
    facts = step.facts
    name, model = facts.record.name, facts.found.get("model")
    return (
        table.is_client_name(name)
        or table.is_instrumentor(facts.scope)
        or facts.record.kind == _CLIENT
        or (isinstance(model, str) and model.rsplit("/", 1)[-1] in name)
    )
