"""Predicate `cited_in`: values that a model wrote cite the passage of another field that they come from."""

from __future__ import annotations

from collections.abc import Iterator

from tests.reference.envelope import text_of
from tests.reference.json_text import Json, JsonObject
from tests.reference.lower_case import lower
from tests.reference.values import NOT_JSON, WRONG_TYPE, Absent, Place, json_of, read_json, read_text


def is_cited(field: str, other: str, place: Place) -> bool | Absent:
    """Return whether every non-empty member that a model wrote has a source span in the other field."""
    text, source, field_meta = (
        read_text(field, place),
        read_text(other, place),
        read_json("attributes.field_meta", place),
    )
    if isinstance(text, Absent):
        return text
    if isinstance(source, Absent):
        return source
    if isinstance(field_meta, Absent) and field_meta != NOT_JSON:
        return field_meta
    if not isinstance(field_meta, JsonObject):
        return WRONG_TYPE  # a text that is no JSON is no object either
    entries = [_entry_holds(name, entry, field, text, source) for name, entry in _entries_by_llm(field_meta)]
    if False in entries:
        return False
    return next((entry for entry in entries if isinstance(entry, Absent)), True)


def _entries_by_llm(field_meta: JsonObject) -> Iterator[tuple[str, JsonObject]]:
    for name, entry in field_meta.members:
        if isinstance(entry, JsonObject) and entry.get("source") == "llm":
            yield name, entry


def _entry_holds(name: str, entry: JsonObject, field: str, text: str, source: str) -> bool | Absent:
    spoken_of = text if name == field else _member_text(text, name)
    if isinstance(spoken_of, Absent) or not spoken_of:
        return spoken_of if isinstance(spoken_of, Absent) else True
    source_span: Json = entry.get("source_span")
    if source_span is None or source_span == "":
        return False
    return lower(text_of(source_span)) in lower(source)


def _member_text(text: str, name: str) -> str | Absent:
    document = json_of(text)
    if isinstance(document, Absent):
        return document
    if not isinstance(document, JsonObject):
        return WRONG_TYPE
    value = document.get(name)
    return "" if value is None else text_of(value)
