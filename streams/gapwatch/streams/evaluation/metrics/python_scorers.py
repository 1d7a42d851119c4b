"""Functions behind the shipped metrics whose claim is `form: python`; `--scorers` takes the name of this module."""

from __future__ import annotations

from typing import Any

import orjson

from gapwatch.scorers.scoring.python_scorer import Scored, Span, scorer

#: Importable name of this module, for `--scorers` and the runs of evaluations.
MODULE = "gapwatch.streams.evaluation.metrics.python_scorers"


@scorer(name="gapwatch_exact_match", fields=["output", "attributes.reference"])
def exact_match(spans: list[Span]) -> list[Any]:
    """Return whether each output equals the reference answer; None where one of them is absent."""
    return [_equal(span["output"], span["attributes.reference"]) for span in spans]


def _equal(output: Any, reference: Any) -> bool | None:
    return None if output is None or reference is None else bool(output == reference)


@scorer(name="gapwatch_context_precision", fields=["attributes.passages", "attributes.reference"])
def context_precision(spans: list[Span]) -> list[Any]:
    """Return the share of the retrieved passages that are relevant; None where nothing was retrieved."""
    return [_overlap(span, "passages") for span in spans]


@scorer(name="gapwatch_context_recall", fields=["attributes.passages", "attributes.reference"])
def context_recall(spans: list[Span]) -> list[Any]:
    """Return the share of the relevant passages that were retrieved; None where no passage is relevant."""
    return [_overlap(span, "relevant") for span in spans]


def _overlap(span: Span, of: str) -> Scored:
    reference = _json(span["attributes.reference"])
    relevant = _texts(reference.get("context") if isinstance(reference, dict) else None)
    passages = _texts(_json(span["attributes.passages"]))
    if relevant is None or passages is None:
        return Scored("unknown", reason="the reference answer or the example has no list of passages")
    whole = set(passages if of == "passages" else relevant)
    if not whole:
        return Scored("unknown", reason="an empty list of passages")
    return Scored("pass", score=len(set(passages) & set(relevant)) / len(whole))


@scorer(name="gapwatch_valid_tool_call", fields=["name", "input", "attributes.tools"])
def valid_tool_call(spans: list[Span]) -> list[Any]:
    """Return whether each call names a tool and its arguments have the form of the tool's JSON Schema."""
    return [_call_validity(span) for span in spans]


def _call_validity(span: Span) -> bool | None:
    tools = _json(span["attributes.tools"])
    if not isinstance(tools, list) or not all(isinstance(tool, dict) for tool in tools):
        return None
    # OpenAI's form has the definition in `function`.
    definitions = [tool.get("function", tool) for tool in tools]
    schema = next((one.get("parameters") or {} for one in definitions if one.get("name") == span["name"]), None)
    arguments = _json(span["input"])
    if schema is None or not isinstance(arguments, dict):
        return False
    from jsonschema import ValidationError, validate

    try:
        validate(arguments, schema)
    except ValidationError:
        return False
    return True


@scorer(name="gapwatch_right_tools", fields=["attributes.called_tools", "attributes.reference"])
def right_tools(spans: list[Span]) -> list[Any]:
    """Return whether the called tools are those of the reference answer, in order; None where it names none.

    The reference answer is a name, a list of names, or an object with such a list in `tools`.
    """
    return [_right_tools(span) for span in spans]


def _right_tools(span: Span) -> bool | None:
    reference = _json(span["attributes.reference"])
    if isinstance(reference, dict):
        reference = reference.get("tools")
    wanted = _texts([reference] if isinstance(reference, str) else reference)
    called = _texts(_json(span["attributes.called_tools"]))
    return None if wanted is None or called is None else called == wanted


def _texts(value: Any) -> list[str] | None:
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else None


def _json(value: Any) -> Any:
    """Return the JSON value in a text; a text that holds none is returned as it is."""
    if not isinstance(value, str):
        return value
    try:
        return orjson.loads(value)
    except orjson.JSONDecodeError:
        return value
