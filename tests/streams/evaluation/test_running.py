"""A function is called on each example in a process that may hang, crash or flood; each costs its example alone."""

from __future__ import annotations

import inspect
import os
import pickle
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

import gapwatch.eval
from gapwatch.eval import Example
from gapwatch.scorers.errors import UsageError


@gapwatch.eval(task="classification")
def label(text: str, *, upper: bool = False) -> str:
    if text == "raise":
        raise LookupError("not known")
    return text.upper() if upper else text


def _breaking(text: str) -> Any:
    if text == "hang":
        time.sleep(60)
    if text == "exit":
        sys.exit(3)
    if text == "die":
        os._exit(4)
    if text == "memory":
        return len(bytearray(4 << 30))
    if text == "flood":
        print("x" * 100_000_000)
    return text


class SpeechlessError(Exception):
    """An error whose text cannot be had."""

    def __str__(self) -> str:
        raise ValueError


def _wordy(text: str) -> str:
    raise SpeechlessError if text == "none" else OSError(f"\ud800 {text}")


def test_an_error_without_a_text_or_with_half_a_character_is_reported() -> None:
    run = gapwatch.eval(task="chat", metrics=[])(_wordy).eval(_examples("none", "half"))

    assert [(one.error_type, one.error) for one in run.errors] == [
        ("SpeechlessError", "SpeechlessError"),
        ("OSError", "? half"),
    ]
    assert b"? half" in orjson.dumps(run.to_json())


def _examples(*texts: str) -> list[Example]:
    return [Example(str(i), {"text": text}, reference="a") for i, text in enumerate(texts)]


def test_the_function_stays_as_it_is() -> None:
    assert (label("a"), label("a", upper=True)) == ("a", "A")
    assert str(inspect.signature(label)) == "(text: 'str', *, upper: 'bool' = False) -> 'str'"
    assert pickle.loads(pickle.dumps(label)) is label
    with pytest.raises(LookupError):
        label("raise")


def test_each_fault_is_one_error_and_the_rest_is_scored() -> None:
    faults = ["hang", "exit", "die", "memory", "flood"]
    function = gapwatch.eval(task="classification")(_breaking)

    run = function.eval(_examples("a", *faults, *["a"] * 8, "b"), timeout_seconds=1.0, concurrency=2)

    told = {example.inputs["text"]: example.error_type for example in run.errors}
    assert told == {
        "hang": "TimeoutError", "exit": "SystemExit", "die": "ProcessDied", "memory": "MemoryError",
        "flood": "OutputFlood",
    }  # fmt: skip
    assert len(run.errors) == len(faults)
    accuracy = run.result("accuracy")
    assert accuracy is not None
    assert (accuracy.score, accuracy.details["n"], accuracy.details["undecided"]) == (pytest.approx(0.9), 10, 5)
    assert "5 of 15 calls gave no output" in run.to_markdown()


async def _later(text: str) -> str:
    return text


def _parts(text: str) -> Iterator[str]:
    yield from text


async def _later_parts(text: str) -> AsyncIterator[int]:
    for letter in text:
        yield ord(letter)


def test_coroutines_and_generators_give_their_values() -> None:
    for function, expected in ((_later, "ab"), (_parts, "ab"), (_later_parts, [97, 98])):
        run = gapwatch.eval(task="chat", metrics=[])(function).eval(_examples("ab"))
        assert [example.output for example in run.examples] == [expected]


def test_what_does_not_fit_is_refused_before_any_call() -> None:
    for given, settings, told in (
        ([Example("1", {"txt": "a"})], {}, "the keys of inputs are its arguments"),
        (_examples("a"), {"concurrency": 0}, "concurrency is 0; it must be above 0"),
        (_examples("a"), {"stor": "x"}, "eval has no argument 'stor'"),
        (_examples("a"), {"metrics": ["rag_faithfulness_llm_judge"]}, "no example has a context"),
        (_examples("a"), {"use_case_overrides": {"risk": 1}}, "no key 'risk'"),
    ):
        with pytest.raises(UsageError, match=told):
            label.eval(given, **settings)


def test_a_dying_process_repeats_no_call_and_loses_no_result(tmp_path: Path) -> None:
    called = tmp_path / "called"

    def note(text: str) -> str:
        with called.open("a") as file:
            file.write(f"{text}\n")
        if text in ("300", "555"):
            os._exit(9)
        if text == "700":
            time.sleep(60)
        return text if text != "800" else text * 2_000_000

    run = gapwatch.eval(task="chat", metrics=[])(note).eval(
        [Example(str(i), {"text": str(i)}) for i in range(1_000)], timeout_seconds=1.0, concurrency=2
    )

    assert sorted(called.read_text().split(), key=int) == [str(i) for i in range(1_000)]
    assert {one.id: one.error_type for one in run.errors} == {
        "300": "ProcessDied", "555": "ProcessDied", "700": "TimeoutError", "800": "ValueError",
    }  # fmt: skip
    assert all(one.output == one.id for one in run.examples if one.error_type is None)
