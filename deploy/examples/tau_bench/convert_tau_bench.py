#!/usr/bin/env python3
"""Turn tau-bench trajectories into trace envelopes, one JSON line a trajectory.

    python deploy/examples/tau_bench/convert_tau_bench.py gpt-4o-airline.json.gz > traces.jsonl

Standard library only; the same input gives the same bytes. The recording holds what was said and done and whether it
was right, and no telemetry: no time, no token, no cost, no model name a message. All of that is *absent* in the
envelope, nothing is made up for it. What is not a plain copy:

- A message becomes a span, but for the system prompt (the policy, the same in all): `agent`, `user`, `tools`.
- A tool result is an error if its text begins with `Error`, which is all that the recording says about it; `agent` and
  `user` spans carry no status, for nothing says how those calls went.
- The release is the first part of the file's name before the domain (`gpt-4o-airline` gives `gpt-4o`).
"""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Json = dict[str, Any]


def spans_of(messages: list[Json]) -> Iterator[Json]:
    """Yield a span for each message after the system prompt."""
    calls: dict[str, tuple[str, str]] = {}  # by call id: the span that called, the arguments as written
    heard: list[str] = []  # what was said since the agent spoke last
    for turn, message in enumerate(messages):
        span: Json = {"span_id": f"turn-{turn:03d}"}
        text = message.get("content") or ""
        if message["role"] == "user":
            heard.append(text)
            yield span | {"component": "user", "name": "customer", "kind": "llm", "output": text}
        elif message["role"] == "tool":
            heard.append(text)
            yield span | tool_result(message, text, calls)
        elif message["role"] == "assistant":
            made = message.get("tool_calls") or []
            calls |= {call["id"]: (span["span_id"], call["function"]["arguments"]) for call in made}
            span |= {"component": "agent", "name": "chat", "kind": "llm", "input": "\n".join(heard), "output": text}
            yield span | ({"attributes": {"tool_calls": [tool_call(call) for call in made]}} if made else {})
            heard = []


def tool_call(call: Json) -> Json:
    """Return id, name and arguments (the text as the model wrote it) of a call."""
    return {"id": call["id"], "name": call["function"]["name"], "arguments": call["function"]["arguments"]}


def tool_result(message: Json, text: str, calls: dict[str, tuple[str, str]]) -> Json:
    """Return what a tool span holds beside its id; a result whose call is not recorded has no input and no parent."""
    failed = text.startswith("Error")
    parent_id, arguments = calls.get(message["tool_call_id"], (None, None))
    result = {
        "parent_id": parent_id,
        "component": "tools",
        "name": message.get("name"),
        "kind": "tool",
        "status": "error" if failed else "ok",
        "error_type": "tool_error" if failed else None,
        "input": arguments,
        "output": text,
    }
    return {key: value for key, value in result.items() if value is not None}


def trace_of(trajectory: Json, release: str, domain: str) -> Json:
    """Return the envelope of one trajectory."""
    return {
        "trace_id": f"{release}-{domain}-task-{trajectory['task_id']}-trial-{trajectory['trial']}",
        "pipeline": f"tau-bench-{domain}",
        "release": release,
        "attributes": {
            "task_id": trajectory["task_id"],
            "trial": trajectory["trial"],
            "reward": int(trajectory["reward"]),
        },
        "spans": list(spans_of(trajectory["traj"])),
    }


def traces_of(path: Path) -> Iterator[Json]:
    """Yield the envelopes of one file, plain or gzipped, in its order."""
    release, _, domain = path.name.removesuffix(".gz").removesuffix(".json").rpartition("-")
    if not release:
        raise SystemExit(f"{path}: expected a name like gpt-4o-airline.json.gz (model, hyphen, domain)")
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as file:
        yield from (trace_of(trajectory, release, domain) for trajectory in json.load(file))


def main(arguments: list[str]) -> int:
    """Convert the files named on the command line to standard output."""
    if not arguments or {"-h", "--help"} & set(arguments):
        print(__doc__)
        return 0 if arguments else 2
    for name in arguments:
        for trace in traces_of(Path(name)):
            print(json.dumps(trace, ensure_ascii=False, separators=(",", ":")))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
