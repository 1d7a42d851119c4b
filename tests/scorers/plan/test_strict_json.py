"""JSON nested deeper than Python's parser goes is checked by the same grammar, in bounded time."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gapwatch.scorers.plan.strict_json import NOT_JSON_TEXT, NumberText, parse_text, write_compactly
from tests.depth import examples

_DEEP = 5_000
#: Pieces that make JSON, nearly make JSON, or are what the judge of deep JSON writes for itself.
_PIECES = (
    *("[", "]", "{", "}", ",", ":", '"a":', '"b" :', "[]", "{}", "[1,2]", '{"c":{}}', " ", "\n\t"),
    *('"a"', '""', '"\\ud83d"', '"\\"', '"', "\\", "1", "-0.5e+3", "01", "1.", "-", "true", "nul", "NaN"),
    *("\x01", "\x02", "\x03", "\x00", "é", ".", "/"),
)


def _object(values: list[str]) -> str:
    return "{" + ",".join(f'"k" : {value}' for value in values) + "}"


_ELEMENTS = st.recursive(
    st.sampled_from(["1", "-2e5", "null", '"x,]"', '"\\u00e9\\\\"', "[ ]", "{}"]),
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda values: f"[{' ,'.join(values)}]")
        | st.lists(inner, max_size=3).map(_object)
    ),
)


def _refuse(constant: str) -> None:
    raise ValueError(constant)


def is_json_for_python(text: str) -> bool:
    try:
        json.loads(text, parse_constant=_refuse)
    except ValueError:
        return False
    return True


def is_json(text: str) -> bool:
    return parse_text(text) is not NOT_JSON_TEXT


def deep(text: str) -> str:
    """Return JSON with a text in place of a value, nested deeper than Python's parser goes."""
    return "[" * _DEEP + text + "]" * _DEEP


@settings(max_examples=examples(300))
@given(st.lists(st.sampled_from(_PIECES), max_size=7).map("".join))
def test_any_text_is_judged_in_the_depth_as_at_the_top(text: str) -> None:
    # An empty list holds no value, which at the top would be missing; and a text may not close what it did not open.
    expected = is_json_for_python(f"[[{text}]]")

    assert is_json(deep(text)) == expected


def _number(spelling: str) -> float | NumberText:
    """Return a number as a double, or with its spelling where it overflows one."""
    return NumberText(spelling) if math.isinf(float(spelling)) else float(spelling)


@settings(max_examples=examples(300))
@example("-0.5e+311")
@example("[1e400]")
@given(st.lists(st.sampled_from(_PIECES), max_size=7).map("".join))
def test_a_text_is_read_as_python_reads_it(text: str) -> None:
    if is_json_for_python(text):
        assert parse_text(text) == json.loads(text.replace("\\ud83d", "\ufffd"), parse_float=_number)
    else:
        assert not is_json(text)


@settings(max_examples=examples(200))
@given(_ELEMENTS, st.sampled_from(_PIECES), st.integers(0, 100))
def test_json_and_what_a_stray_piece_makes_of_it_are_told_apart(text: str, piece: str, at: int) -> None:
    broken = text[:at] + piece + text[at:]

    assert is_json(deep(text))
    assert is_json(deep(broken)) == is_json_for_python(f"[[{broken}]]")


@pytest.mark.parametrize("missing", ["[" * _DEEP, "]" * _DEEP, '{"a":' * _DEEP, "[" * _DEEP + "}" * _DEEP])
def test_what_is_not_closed_or_not_opened_is_no_json(missing: str) -> None:
    assert not is_json(missing)


def test_lone_surrogates_are_replaced_however_deep() -> None:
    assert write_compactly(parse_text(deep('"\\ud83d"'))) == deep('"\ufffd"')
    assert not is_json(deep('"\\ud83d",'))


_HOSTILE = {
    "brackets": ("[" * 2_000_000 + "]" * 2_000_000, True),
    "keys": ('{"a":' * 500_000 + "1" + "}" * 500_000, True),
    "escaped quotes without an end": ("[" * _DEEP + '"' + '\\"' * 2_000_000 + "]", False),
    "quotes": ("[" * _DEEP + '"' * 4_000_000 + "]", False),
    "digits": ("[" * _DEEP + "1" * 4_000_000 + "]", False),
    "signs": ("[" * _DEEP + "-" * 4_000_000 + "]", False),
    "fractions": ("[" * _DEEP + "1." * 2_000_000 + "]", False),
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(*case, id=name, marks=pytest.mark.slow if name == "brackets" else ())
        for name, case in _HOSTILE.items()
    ],
)
def test_a_hostile_text_takes_time_in_proportion_to_its_length(text: str, expected: bool) -> None:
    # They take up to two seconds; were each mark tried as a beginning, this would not end.
    assert is_json(text) == expected
