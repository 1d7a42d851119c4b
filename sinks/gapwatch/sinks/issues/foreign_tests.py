"""Tests that other programs write: examples of data sets (Langfuse, Phoenix, OpenAI), and promptfoo's test cases."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from gapwatch.scorers.errors import UsageError

#: Names of the right answer: Langfuse's API and its SDK, Gapwatch, OpenAI's evals, Phoenix.
_REFERENCES = ("expectedOutput", "expected_output", "reference", "ideal", "output")
#: Assertions of promptfoo whose value a judge is told, and those whose value is the right answer.
_GUIDELINES = ("llm-rubric", "g-eval", "model-graded-closedqa")
_ANSWERS = ("equals", "contains", "icontains", "similar", "factuality", "model-graded-factuality")
_VARIABLE = re.compile(r"\{\{\s*(\w+)\s*\}\}")


@dataclass(frozen=True)
class ForeignTest:
    """Test as another program has it.

    Attributes:
        given: Input: a text, messages, or an object.
        reference: Right answer; None if there is none.
        guideline: Guideline for the judge; None if there is none.
        trace_id: Trace that it was made from; empty if not said.
        is_active: False if its program has put it aside.
    """

    given: Any
    reference: str | None
    guideline: str | None = None
    trace_id: str = ""
    is_active: bool = True


def read_example(line: Mapping[str, Any]) -> ForeignTest:
    """Return the test of one example of a data set.

    `input` or `inputs`, or OpenAI's `messages`, whose last one of the assistant is the right answer unless `ideal` is.

    Raises:
        KeyError: It has no input.
    """
    right = next((line[name] for name in _REFERENCES if line.get(name) not in (None, "")), None)
    given = next((line[name] for name in ("input", "inputs") if name in line), None)
    if given is None:
        given = [*line["messages"]]
        if right is None and len(given) > 1 and given[-1].get("role") == "assistant":
            right = given.pop()["content"]
    return ForeignTest(
        _single(given), None if right is None else _answer(right), None, str(line.get("sourceTraceId") or ""),
        line.get("status") != "ARCHIVED",
    )  # fmt: skip


def read_promptfoo(written: Any) -> tuple[list[ForeignTest], str]:
    """Return the tests of promptfoo's configuration, or of its list of tests, and what was left out, in words.

    With one prompt, its text with the variables of the test is the input.

    Raises:
        UsageError: The tests are in another file.
        KeyError, TypeError, AttributeError: It has another form.
    """
    config = written if isinstance(written, dict) else {"tests": written}
    prompts = [one.get("raw") if isinstance(one, dict) else one for one in config.get("prompts") or []]
    prompt = prompts[0] if len(prompts) == 1 and not str(prompts[0]).startswith("file://") else None
    default = config.get("defaultTest") or {}
    if isinstance(config["tests"], str):
        raise UsageError(f"the tests are in {config['tests']}: import that file, in YAML")
    tests, others = [], Counter[str]()
    for case in config["tests"]:
        asserts = [*_assertions(default), *_assertions(case)]
        known = {
            kind: [str(one["value"]) for one in asserts if one["type"] in kind] for kind in (_GUIDELINES, _ANSWERS)
        }
        others.update(one["type"] for one in asserts if one["type"] not in (*_GUIDELINES, *_ANSWERS))
        given = {**(default.get("vars") or {}), **(case.get("vars") or {})}
        text = _rendered(prompt, given) if prompt else _single(given)
        guideline = "\n".join(known[_GUIDELINES]) or None
        tests.append(ForeignTest(text, known[_ANSWERS][0] if known[_ANSWERS] else None, guideline))
    left = ", ".join(f"{kind} ({n})" for kind, n in sorted(others.items()))
    return tests, f"assertions that are left out: {left}" if left else ""


def _assertions(case: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for one in case.get("assert") or []:
        yield from one["assert"] if one["type"] == "assert-set" else [one]


def _rendered(prompt: str, given: Mapping[str, Any]) -> str:
    return _VARIABLE.sub(lambda found: _text(given.get(found[1], found[0])), prompt)


def _single(value: Any) -> Any:
    """Return the only value of an object, such as that of {"question": ...}; else the value itself."""
    return (
        next(iter(value.values())) if isinstance(value, dict) and len(value) == 1 and "messages" not in value else value
    )


def _answer(value: Any) -> str:
    if isinstance(value, dict) and isinstance(value.get("messages"), list) and value["messages"]:
        value = value["messages"][-1]
    if isinstance(value, dict) and "role" in value:
        value = value.get("content")
    return _text(_single(value))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()
