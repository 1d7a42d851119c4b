"""OTLP/JSON of a protobuf request, written by the library's own mapping with the ids in hexadecimal digits."""

from __future__ import annotations

import base64
import json
from typing import Any

from google.protobuf import json_format
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

_IDS = ("traceId", "spanId", "parentSpanId")


def as_json(body: bytes, signal: str) -> bytes:
    message = (ExportLogsServiceRequest if signal == "logs" else ExportTraceServiceRequest).FromString(body)
    return json.dumps(_with_hex_ids(json.loads(json_format.MessageToJson(message)))).encode()


def _with_hex_ids(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: base64.b64decode(inner).hex() if key in _IDS else _with_hex_ids(inner) for key, inner in value.items()
        }
    if isinstance(value, list):
        return [_with_hex_ids(inner) for inner in value]
    return value


def as_protobuf(body: bytes) -> bytes:
    """Protobuf of a request of spans in OTLP/JSON."""
    message = json_format.ParseDict(_with_base64_ids(json.loads(body)), ExportTraceServiceRequest())
    return bytes(message.SerializeToString())


def _with_base64_ids(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: base64.b64encode(bytes.fromhex(inner)).decode() if key in _IDS else _with_base64_ids(inner)
            for key, inner in value.items()
        }
    if isinstance(value, list):
        return [_with_base64_ids(inner) for inner in value]
    return value
