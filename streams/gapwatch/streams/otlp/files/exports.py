"""Traces that others have exported (Langfuse, Phoenix, MLflow) as OTLP/JSON, for the same mapping as spans.

Each is turned back into spans with the attribute keys of its own convention; what a field means is said in
`conventions.toml` alone.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import orjson

Json = dict[str, Any]

#: Depth of nested attributes that are written as one key with points.
_DEEPEST = 6
_NO_SERVICE = ""
#: Attribute of the resource by which a mapping can name the pipeline: MLflow's spans have no service.
_EXPERIMENT = "mlflow.experiment_id"
_OF_MLFLOW_TRACE = ("mlflow.trace.session", "mlflow.trace.user")


def export_requests(record: Json) -> list[bytes] | None:
    """Return the spans of an exported trace, or an exported span, as requests of OTLP/JSON; None for anything else.

    Args:
        record: A line or a document: a trace of Langfuse with its observations (`{"trace", "observations"}`, or a trace
            with `observations` in it, alone or under `data`), a trace of MLflow (`{"info", "data"}`), a span of Phoenix
            (`context.trace_id`, or `context` with `trace_id`), or a list of such.
    """
    for read in (_langfuse, _mlflow, _phoenix):
        spans = read(record)
        if spans is not None:
            return [_request(service, resource, scope, group) for (service, scope), (resource, group) in spans.items()]
    return None


_Groups = dict[tuple[str, str], tuple[Json, list[Json]]]


def _langfuse(record: Json) -> _Groups | None:
    held = record.get("data") if isinstance(record.get("data"), dict) else record
    if not isinstance(held, dict) or not isinstance(held.get("observations"), list):
        return None
    trace = held.get("trace") if isinstance(held.get("trace"), dict) else held
    if not isinstance(trace, dict):
        return None
    groups: _Groups = {}
    for observation in held["observations"]:
        if not isinstance(observation, dict):
            return None
        metadata = _loaded(observation.get("metadata"))
        metadata = metadata if isinstance(metadata, dict) else {}
        resource, scope = _loaded(metadata.get("resourceAttributes")), _loaded(metadata.get("scope"))
        resource = resource if isinstance(resource, dict) else {}
        own = _loaded(metadata.get("attributes"))
        # What the program sent comes first, what Langfuse made of it last.
        attributes = dict(own) if isinstance(own, dict) else {}
        attributes |= {
            "langfuse.observation.type": str(observation.get("type") or "SPAN").lower(),
            "langfuse.observation.level": observation.get("level"),
            "langfuse.observation.status_message": observation.get("statusMessage"),
            "langfuse.observation.model.name": observation.get("model"),
            "langfuse.observation.input": observation.get("input"),
            "langfuse.observation.output": observation.get("output"),
            "langfuse.observation.usage_details": _usage(observation),
            "langfuse.observation.cost_details": observation.get("costDetails"),
            "langfuse.session.id": trace.get("sessionId"),
            "langfuse.user.id": trace.get("userId"),
            "langfuse.release": trace.get("release") or trace.get("version"),
            # "default" is what Langfuse writes where the program said nothing.
            "langfuse.environment": None if trace.get("environment") == "default" else trace.get("environment"),
            "langfuse.trace.tags": trace.get("tags") or None,
        }
        span = _span(
            trace.get("id") or observation.get("traceId"), observation.get("id"),
            observation.get("parentObservationId"), observation.get("name"), observation.get("startTime"),
            observation.get("endTime"), observation.get("level") == "ERROR", observation.get("statusMessage"),
            attributes,
        )  # fmt: skip
        service = str(resource.get("service.name") or _NO_SERVICE)
        name = str(scope.get("name") or "") if isinstance(scope, dict) else ""
        groups.setdefault((service, name), (resource, []))[1].append(span)
    return groups


def _usage(observation: Json) -> Any:
    details = observation.get("usageDetails")
    if isinstance(details, dict) and details:
        return {key: details[key] for key in details if key in ("input", "output")} or details
    usage = observation.get("usage")
    return usage if isinstance(usage, dict) else None


def _mlflow(record: Json) -> _Groups | None:
    info, data = record.get("info"), record.get("data")
    if not isinstance(info, dict) or not isinstance(data, dict) or not isinstance(data.get("spans"), list):
        return None
    metadata = info.get("trace_metadata") or info.get("request_metadata") or {}
    place = info.get("trace_location")
    place = place.get("mlflow_experiment") if isinstance(place, dict) else info
    experiment = place.get("experiment_id") if isinstance(place, dict) else None
    resource: Json = {} if experiment is None else {_EXPERIMENT: str(experiment)}
    groups: _Groups = {}
    for one in data["spans"]:
        if not isinstance(one, dict):
            return None
        given = one.get("context")
        context: Json = given if isinstance(given, dict) else {}
        attributes = dict(one.get("attributes") or {})
        parent = one.get("parent_span_id") or one.get("parent_id")
        if not parent and isinstance(metadata, dict):
            attributes |= {
                key: metadata[key] for key in ("mlflow.trace.session", "mlflow.trace.user") if key in metadata
            }
        status = one.get("status")
        code = status.get("code") if isinstance(status, dict) else one.get("status_code")
        span = _span(
            info.get("trace_id") or info.get("request_id") or one.get("trace_id") or context.get("trace_id"),
            one.get("span_id") or context.get("span_id"), parent, one.get("name"),
            one.get("start_time_unix_nano") or one.get("start_time"),
            one.get("end_time_unix_nano") or one.get("end_time"),
            "ERROR" in str(code), status.get("message") if isinstance(status, dict) else one.get("status_message"),
            attributes, one.get("events"),
        )  # fmt: skip
        groups.setdefault((_NO_SERVICE, "mlflow"), (resource, []))[1].append(span)
    return groups


def _phoenix(record: Json) -> _Groups | None:
    context = record.get("context")
    trace_id = context.get("trace_id") if isinstance(context, dict) else record.get("context.trace_id")
    span_id = context.get("span_id") if isinstance(context, dict) else record.get("context.span_id")
    if not isinstance(trace_id, str) or not isinstance(span_id, str):
        return None
    attributes: Json = {}
    nested = record.get("attributes")
    if isinstance(nested, dict):
        _flatten(nested, "", attributes, 0)
    for key, value in record.items():
        if key.startswith("attributes."):
            _flatten(value, key.removeprefix("attributes."), attributes, 0)
    attributes.setdefault("openinference.span.kind", record.get("span_kind"))
    span = _span(
        trace_id, span_id, record.get("parent_id"), record.get("name"), record.get("start_time"),
        record.get("end_time"), record.get("status_code") == "ERROR", record.get("status_message"), attributes,
        record.get("events"),
    )  # fmt: skip
    project = str(record.get("project_name") or _NO_SERVICE)
    return {(project, "phoenix"): ({}, [span])}


def _flatten(value: Any, key: str, found: Json, depth: int) -> None:
    if isinstance(value, dict) and depth < _DEEPEST:
        for name, member in value.items():
            _flatten(member, f"{key}.{name}" if key else str(name), found, depth + 1)
    elif isinstance(value, list) and value and isinstance(value[0], dict) and depth < _DEEPEST:
        for number, member in enumerate(value):
            _flatten(member, f"{key}.{number}", found, depth + 1)
    elif value is not None:
        found[key] = value


def _span(
    trace_id: Any,
    span_id: Any,
    parent_id: Any,
    name: Any,
    start: Any,
    end: Any,
    is_error: bool,
    message: Any,
    attributes: Json,
    events: Any = None,
) -> Json:
    return {
        "traceId": _id(trace_id, 16),
        "spanId": _id(span_id, 8),
        "parentSpanId": _id(parent_id, 8) if parent_id else "",
        "name": str(name or ""),
        "kind": 1,
        "startTimeUnixNano": str(_nanoseconds(start)),
        "endTimeUnixNano": str(_nanoseconds(end)),
        "status": {"code": 2 if is_error else 0, "message": str(message or "")},
        "attributes": list(_pairs(attributes)),
        "events": [
            {"name": str(one.get("name") or ""), "attributes": list(_pairs(one.get("attributes") or {}))}
            for one in events or ()
            if isinstance(one, dict)
        ],
    }


def _pairs(attributes: Any) -> Iterator[Json]:
    for key, value in attributes.items() if isinstance(attributes, dict) else ():
        if not key or value is None:
            continue
        if isinstance(value, bool):
            yield {"key": str(key), "value": {"boolValue": value}}
        elif isinstance(value, int):
            yield {"key": str(key), "value": {"intValue": str(value)}}
        elif isinstance(value, float):
            yield {"key": str(key), "value": {"doubleValue": value}}
        else:
            text = value if isinstance(value, str) else orjson.dumps(value).decode()
            yield {"key": str(key), "value": {"stringValue": text}}


def _request(service: str, resource: Json, scope: str, spans: list[Json]) -> bytes:
    attributes = {**resource, **({"service.name": service} if service else {})}
    return orjson.dumps(
        {
            "resourceSpans": [
                {
                    "resource": {"attributes": list(_pairs(attributes))},
                    "scopeSpans": [{"scope": {"name": scope}, "spans": spans}],
                }
            ]
        }
    )


def _id(value: Any, size: int) -> str:
    """Return an id of OpenTelemetry: the same one where it is one, else the start of a digest of the text."""
    text = str(value).removeprefix("tr-")
    if len(text) == 2 * size:
        try:
            bytes.fromhex(text)
        except ValueError:
            pass
        else:
            return text.lower()
    if size == 16:
        try:
            return uuid.UUID(text).hex
        except ValueError:
            pass
    try:
        decoded = base64.b64decode(text, validate=True)
        if len(decoded) == size:
            return decoded.hex()
    except (binascii.Error, ValueError):
        pass
    return hashlib.sha256(text.encode()).digest()[:size].hex()


def _nanoseconds(value: Any) -> int:
    """Return nanoseconds since the epoch of an ISO time, or of a number in seconds, milliseconds or nanoseconds."""
    if isinstance(value, str):
        if value.isdecimal():
            return _nanoseconds(int(value))
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            return 0
        moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
        whole = int(moment.replace(microsecond=0).timestamp())
        return whole * 1_000_000_000 + moment.microsecond * 1_000
    if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
        return 0
    for limit, factor in ((1e11, 1_000_000_000), (1e14, 1_000_000), (1e17, 1_000)):
        if value < limit:
            return int(value * factor)
    return int(value)


def _loaded(value: Any) -> Any:
    if isinstance(value, str) and value[:1] in ("{", "["):
        try:
            return orjson.loads(value)
        except orjson.JSONDecodeError:
            return None
    return value
