#!/usr/bin/env python3
"""Turn the calls of the AutoGPT safety monitor into trace envelopes, one JSON line a monitored step.

    python deploy/examples/autogpt/convert_autogpt.py agent_steps.jsonl.gz judge_calls.jsonl.gz judge_runs.jsonl.gz \
        > traces.jsonl

The pipeline is the monitor, not the agent: it sees one step of an agent (its prompt and its reply) and says whether the
step may run. Standard library only; the same input gives the same bytes. What is not a plain copy:

- A trace is one decision. Its spans are `whitelist` (a rule; only in runs where that rule was on) and `judge` (the
  model; absent where the whitelist had already stopped the step). They come in the order of the file.
- The release is the monitor's prompt: the parts that were switched on in that run (`judge_runs`), as one word each.
- A judge span ends at `monitor.created`, the one time that is known, in whole seconds; it has no start and so no
  latency. A step stopped by the whitelist has no time at all.
- `inserted` is the truth: the agent's reply was replaced by a bad one (it has a `category`). `right` is whether the
  monitor decided rightly (the source's `score`), and `stopped` follows from the two: a bad step is stopped where the
  monitor was right, a good one where it was wrong. A person learns `inserted` and `right` after the fact.
- The judge's input is the agent's reply that it judged. The prompt around it is not in the source.
- The judge's own number is left in its text, where the source has it ("Score: 87.5").
"""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Json = dict[str, Any]


def lines_of(path: Path) -> Iterator[Json]:
    """Yield the objects of a plain or gzipped JSON-lines file."""
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as file:
        yield from (json.loads(line) for line in file if line.strip())


def prompt_of(run: Json) -> str:
    """Return the parts of the monitor's prompt that were on, in the order of the source; `bare` if none was."""
    parts = [name.removesuffix("_msg") for name, on in run["test_run"]["variables"].items() if on]
    return "+".join(parts) or "bare"


def judge_span(step: Json, call: Json) -> Json:
    """Return the span of the model's part in a decision."""
    reply, choice = call["monitor"], call["monitor"]["choices"][0]
    usage = {"input_tokens": reply["usage"]["prompt_tokens"], "output_tokens": reply["usage"]["completion_tokens"]}
    cost = (call.get("cost") or {}).get("total_cost")
    return {
        "span_id": "judge",
        "component": "judge",
        "name": "monitor",
        "kind": "llm",
        "ended_at": float(reply["created"]),
        "model": reply["model"],
        "input": step["response"]["content"],
        "output": choice["message"]["content"],
        "usage": usage | ({"cost_usd": cost} if cost else {}),
        "attributes": {"finish_reason": choice["finish_reason"]},
    }


def trace_of(number: int, call: Json, step: Json, run: Json) -> Json:
    """Return the envelope of one decision; `number` makes its id, for a step is judged in many runs."""
    inserted = "category" in step["response"]
    stopped = call["score"] if inserted else not call["score"]
    asked_model = call["monitor"] is not None
    spans: list[Json] = []
    if run["test_run"]["variables"].get("deterministic_whitelist"):
        verdict = "passed on" if asked_model else "stopped"
        spans.append({"span_id": "whitelist", "component": "whitelist", "kind": "guardrail", "output": verdict})
    if asked_model:
        spans.append(judge_span(step, call))
    return {
        "trace_id": f"{call['step_id']}-{number:04d}",
        "pipeline": "safety-monitor",
        "release": prompt_of(run),
        "attributes": {
            "run": call["run"],
            "challenge": step["challenge"],
            "step": step["step"],
            "inserted": inserted,
            **({"severity": step["response"]["category"]} if inserted else {}),
            "stopped": stopped,
            "right": call["score"],
        },
        "spans": spans,
    }


def main(arguments: list[str]) -> int:
    """Convert steps, calls and runs, named in this order, to standard output."""
    if {"-h", "--help"} & set(arguments) or len(arguments) != 3:
        print(__doc__)
        return 0 if {"-h", "--help"} & set(arguments) else 2
    steps_path, calls_path, runs_path = (Path(name) for name in arguments)
    steps = {step["step_id"]: step for step in lines_of(steps_path)}
    runs = {run["run"]: run for run in lines_of(runs_path)}
    for number, call in enumerate(lines_of(calls_path)):
        trace = trace_of(number, call, steps[call["step_id"]], runs[call["run"]])
        print(json.dumps(trace, ensure_ascii=False, separators=(",", ":")))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
