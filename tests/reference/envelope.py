"""Reads raw records: a trace, a dead letter with its cause, or a foreign record."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache

from tests.reference.json_text import Json, JsonObject, NotJsonError, TooDeepError, parse_json, write_json

MAX_BYTES = 10_000_000
MAX_DEPTH = 200


@dataclass(frozen=True)
class Trace:
    """Trace of a record, with its spans in their order."""

    record: JsonObject
    trace_id: str
    pipeline: str
    spans: tuple[JsonObject, ...]


@dataclass(frozen=True)
class DeadLetter:
    """Record that could not be read."""

    cause: str
    detail: str


@dataclass(frozen=True)
class Foreign:
    """Valid record of a pipeline without a portfolio."""

    pipeline: str


def read_record(value: bytes | None, pipelines: Collection[str]) -> Trace | DeadLetter | Foreign:
    """Read one raw record; causes are checked in the order of the contract."""
    raw = b"" if value is None else value
    if len(raw) > MAX_BYTES:
        return DeadLetter("too_large", f"{len(raw)} bytes")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        return DeadLetter("not_utf8", f"at byte {error.start}")
    try:
        document = _parsed(text)
    except TooDeepError:
        return DeadLetter("too_deep", f"more than {MAX_DEPTH} levels")
    except NotJsonError:
        return DeadLetter("not_json", "")
    if not isinstance(document, JsonObject):
        return DeadLetter("not_object", "")
    problem = _missing_field(document) or _bad_spans(document)
    if problem is not None:
        return problem
    spans = document.get("spans")
    assert isinstance(spans, list)
    trace_id, pipeline = text_of(document.get("trace_id")), text_of(document.get("pipeline"))
    if pipeline not in pipelines:
        return Foreign(pipeline)
    return Trace(document, trace_id, pipeline, tuple(span for span in spans if isinstance(span, JsonObject)))


@lru_cache(maxsize=1_000)
def _parsed(text: str) -> Json:
    """Parse a record, with a cache because several tests read the same ones; callers must not change the result."""
    return parse_json(text, MAX_DEPTH)


def _missing_field(document: JsonObject) -> DeadLetter | None:
    for key in ("trace_id", "pipeline", "spans"):
        if document.get(key) is None:
            return DeadLetter("missing_field", key)
    spans = document.get("spans")
    for index, span in enumerate(spans if isinstance(spans, list) else []):
        for key in ("span_id", "component"):
            if isinstance(span, JsonObject) and span.get(key) is None:
                return DeadLetter("missing_field", f"spans[{index}].{key}")
    return None


def _bad_spans(document: JsonObject) -> DeadLetter | None:
    spans = document.get("spans")
    if not isinstance(spans, list):
        return DeadLetter("bad_spans", "no list")
    for index, span in enumerate(spans):
        if not isinstance(span, JsonObject):
            return DeadLetter("bad_spans", f"spans[{index}]")
    return None


def text_of(value: Json) -> str:
    """Return the text of a value that is not null: the text itself, or its compact JSON."""
    return value if isinstance(value, str) else write_json(value)
