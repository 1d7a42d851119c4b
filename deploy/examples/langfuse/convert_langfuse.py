#!/usr/bin/env python3
"""Turn exported Langfuse traces into trace envelopes, one JSON line a trace.

    python deploy/examples/langfuse/convert_langfuse.py traces.jsonl.gz > traces.jsonl

Reads JSON lines `{"file": ..., "data": {"trace": {...}, "observations": [...]}}`, plain or gzipped; standard library
only; the same input gives the same bytes. What is not a plain copy:

- The component of a span is the type of the observation, in lower case (`generation`, `tool`, `agent`, `chain`,
  `span`): seventeen frameworks share no other word for a part of theirs.
- `status` is `error` at level ERROR and `ok` at any other; DEBUG and WARNING are no failures.
- Times come from `startTime` and `endTime`. The export's own `latency` is in seconds in most files and in milliseconds
  in one, so it is not used.
- Tokens are `usageDetails.input` and `.output` alone. Their `total` counts reasoning in some frameworks and not in
  others. Cost is `costDetails.total`. What a framework did not report stays absent.
- Of the OpenTelemetry attributes under `metadata` only the scope's name (which instrumentation wrote this) and the
  finish reasons are kept.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

Json = dict[str, Any]

KIND_OF_TYPE = {
    "GENERATION": "llm",
    "EMBEDDING": "embedding",
    "RETRIEVER": "retrieval",
    "TOOL": "tool",
    "AGENT": "agent",
    "CHAIN": "chain",
    "GUARDRAIL": "guardrail",
}
FINISH_REASON_KEYS = ("gen_ai.response.finish_reasons", "ai.response.finishReason")


def epoch(text: str | None) -> float | None:
    """Return seconds since the epoch of an ISO time, or None where there is none."""
    return datetime.fromisoformat(text).timestamp() if text else None


def without_absent(thing: Json) -> Json:
    """Return the object without its null members."""
    return {key: value for key, value in thing.items() if value is not None}


def metadata_of(observation: Json) -> Json:
    """Return the metadata of an observation as an object; exports hold it as one or as its JSON text."""
    metadata = observation.get("metadata")
    metadata = json.loads(metadata) if isinstance(metadata, str) and metadata else metadata
    return metadata if isinstance(metadata, dict) else {}


def finish_reason_of(metadata: Json) -> str | None:
    """Return the first finish reason among the OpenTelemetry attributes, in the provider's own word."""
    attributes = metadata.get("attributes") or {}
    for key in FINISH_REASON_KEYS:
        reason = attributes.get(key)
        if isinstance(reason, str) and reason.startswith("["):
            reason = json.loads(reason)
        if isinstance(reason, list) and reason:
            reason = reason[0]
        if isinstance(reason, str) and reason:
            return reason
    return None


def usage_of(observation: Json) -> Json | None:
    """Return tokens and cost as far as they were reported; None where nothing was."""
    tokens = observation.get("usageDetails") or {}
    cost = observation.get("costDetails") or {}
    usage = {
        "input_tokens": tokens.get("input"),
        "output_tokens": tokens.get("output"),
        "cost_usd": cost.get("total"),
    }
    return without_absent(usage) or None


def span_of(observation: Json) -> Json:
    """Return the span of one observation."""
    metadata = metadata_of(observation)
    attributes = {
        "level": observation.get("level"),
        "status_message": observation.get("statusMessage"),
        "finish_reason": finish_reason_of(metadata),
        "instrumentation": (metadata.get("scope") or {}).get("name"),
        "first_token_seconds": seconds_to_first_token(observation),
        "tool_calls": observation.get("toolCalls") or None,
    }
    return without_absent(
        {
            "span_id": observation["id"],
            "parent_id": observation.get("parentObservationId"),
            "component": observation["type"].lower(),
            "name": observation.get("name"),
            "kind": KIND_OF_TYPE.get(observation["type"], "other"),
            "started_at": epoch(observation.get("startTime")),
            "ended_at": epoch(observation.get("endTime")),
            "status": "error" if observation.get("level") == "ERROR" else "ok",
            "model": observation.get("model"),
            "input": observation.get("input"),
            "output": observation.get("output"),
            "usage": usage_of(observation),
            "attributes": without_absent(attributes),
        }
    )


def seconds_to_first_token(observation: Json) -> float | None:
    """Return the seconds from the start to the first token, where both times are known."""
    started_at, first = epoch(observation.get("startTime")), epoch(observation.get("completionStartTime"))
    return None if started_at is None or first is None else round(first - started_at, 6)


def trace_of(line: Json) -> Json:
    """Return the envelope of one exported trace."""
    trace, observations = line["data"]["trace"], line["data"]["observations"]
    ends = [end for observation in observations if (end := epoch(observation.get("endTime"))) is not None]
    environment = trace.get("environment")
    return without_absent(
        {
            "trace_id": trace["id"],
            "pipeline": "agent-frameworks",
            # "default" is what Langfuse writes where the publisher said nothing.
            "environment": None if environment == "default" else environment,
            "release": trace.get("release") or trace.get("version"),
            "session_id": trace.get("sessionId"),
            "started_at": epoch(trace.get("timestamp")),
            "ended_at": max(ends, default=None),
            "attributes": without_absent({"framework": framework_of(line["file"]), "name": trace.get("name")}),
            "spans": [span_of(observation) for observation in observations],
        }
    )


def framework_of(name: str) -> str:
    """Return the framework of a file named like `pydantic-ai-tools-2025-12-04.trace.json`."""
    return name.removesuffix(".trace.json").rsplit("-", 3)[0]


def lines_of(path: Path) -> Iterator[Json]:
    """Yield the objects of a plain or gzipped JSON-lines file."""
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as file:
        yield from (json.loads(line) for line in file if line.strip())


def main(arguments: list[str]) -> int:
    """Convert the files named on the command line to standard output."""
    if not arguments or {"-h", "--help"} & set(arguments):
        print(__doc__)
        return 0 if arguments else 2
    for name in arguments:
        for line in lines_of(Path(name)):
            print(json.dumps(trace_of(line), ensure_ascii=False, separators=(",", ":")))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
