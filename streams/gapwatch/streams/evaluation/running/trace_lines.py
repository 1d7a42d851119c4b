"""Traces of the examples of a run: envelopes as a publisher writes them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

from gapwatch.streams.evaluation.datasets.example import Example


def trace_of(example: Example, run_id: str, pipeline: str, component: str, tools: str) -> dict[str, Any]:
    """Return the envelope of one example: a span of the function, and one for each call of a tool in its output.

    Args:
        example: Example after its call.
        run_id: Id of the run; the release of the trace.
        pipeline: Pipeline of the trace.
        component: Component of the function.
        tools: Component of the tools.
    """
    begin, output = example.started_at, example.output
    end = None if begin is None or example.latency_seconds is None else begin + example.latency_seconds
    calls = list(_tool_calls(output)) if isinstance(output, dict) else []
    passages = _passages(example)
    definitions = example.context.get("tools") if isinstance(example.context, dict) else None
    attributes: dict[str, Any] = {"example_id": example.id}
    if example.reference is not None:
        attributes["reference"] = example.reference
    if passages is not None:
        attributes["context"], attributes["passages"] = _context_text(passages), passages
    elif example.context is not None:
        attributes["context"] = example.context
    if calls or (isinstance(example.output, dict) and "tool_calls" in example.output):
        attributes["called_tools"] = [call["name"] for call in calls]
    span = {
        "span_id": "0", "component": component, "kind": "llm", "started_at": begin, "ended_at": end,
        "status": "ok" if example.error is None else "error", "input": input_text(example.inputs),
        "attributes": attributes,
    }  # fmt: skip
    for key, value in (("output", output), ("error_type", example.error_type), ("usage", example.usage)):
        if value is not None:
            span[key] = value
    spans = [span]
    for number, call in enumerate(calls, 1):
        called = {
            "span_id": str(number), "parent_id": "0", "component": tools, "kind": "tool", "name": call["name"],
            "status": "ok" if call["error"] is None else "error",
            "error_type": None if call["error"] is None else str(call["error"])[:200],
            "input": call["arguments"], "output": call["result"],
            "attributes": {} if definitions is None else {"tools": definitions},
        }  # fmt: skip
        spans.append({key: value for key, value in called.items() if value is not None})
    return {
        "trace_id": f"{run_id}:{example.id}", "pipeline": pipeline, "environment": "evaluation", "release": run_id,
        "started_at": begin, "ended_at": end, "spans": spans,
    }  # fmt: skip


def answer_spans(
    example_id: str, inputs: Any, orders: Sequence[tuple[Any, Any]], component: str
) -> list[dict[str, Any]]:
    """Return a span for each order of two answers, under the names that claims of the form compare may use.

    Args:
        example_id: Id of the example.
        inputs: What both answer.
        orders: The answers, in each order.
        component: Component of the spans.
    """
    return [
        {
            "span_id": str(number), "component": component, "kind": "llm", "input": input_text(inputs),
            "output": first,
            "attributes": {
                "example_id": example_id, "first_answer": first, "second_answer": second, "baseline_output": second,
            },
        }
        for number, (first, second) in enumerate(orders)
    ]  # fmt: skip


def trace_line(trace: dict[str, Any]) -> bytes:
    """Return an envelope as one line of JSON."""
    return orjson.dumps(trace, str, orjson.OPT_NON_STR_KEYS) + b"\n"


def input_text(inputs: Mapping[str, Any]) -> Any:
    """Return the only text of some inputs, or all of them as an object."""
    values = list(inputs.values())
    return values[0] if len(values) == 1 and isinstance(values[0], str) else dict(inputs)


def _passages(example: Example) -> list[Any] | None:
    """Return the retrieved passages: those that the function tells, else those of the example."""
    told = example.output.get("context") if isinstance(example.output, dict) else None
    for value in (told, example.context):
        if isinstance(value, list):
            return value
    return None


def _context_text(context: Any) -> Any:
    if isinstance(context, list) and all(isinstance(one, str) for one in context):
        return "\n\n".join(context)
    return context


def _tool_calls(output: Any) -> Iterator[dict[str, Any]]:
    """Yield the calls in `tool_calls` of an output, also in OpenAI's form."""
    calls = output.get("tool_calls") if isinstance(output, dict) else None
    for call in calls if isinstance(calls, list) else ():
        if isinstance(call, dict):
            function = call.get("function")
            inner = function if isinstance(function, dict) else call
            yield {
                "name": str(inner.get("name", "")), "arguments": inner.get("arguments"),
                "result": call.get("result"), "error": call.get("error"),
            }  # fmt: skip
