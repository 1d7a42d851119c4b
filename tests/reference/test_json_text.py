"""The reference's JSON reader agrees with an independent one, and refuses what RFC 8259 refuses."""

from __future__ import annotations

import json

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.reference.json_text import Json, JsonNumber, JsonObject, NotJsonError, TooDeepError, parse_json, write_json

_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


def plain(value: Json) -> object:
    if isinstance(value, JsonNumber):
        return int(value.spelling) if value.is_whole else float(value.spelling)
    if isinstance(value, JsonObject):
        return {key: plain(item) for key, item in value.members}
    return [plain(item) for item in value] if isinstance(value, list) else value


@given(_VALUES, st.booleans())
def test_reads_what_was_dumped(value: object, ascii_only: bool) -> None:
    assert plain(parse_json(json.dumps(value, ensure_ascii=ascii_only))) == value


@given(_VALUES)
def test_writes_what_can_be_read_again(value: object) -> None:
    written = write_json(parse_json(json.dumps(value)))

    assert plain(parse_json(written)) == value


@given(st.text(alphabet='{}[]",:0123456789.eE+-truefalsn\\u \n', max_size=12))
def test_refuses_what_a_strict_reader_refuses(text: str) -> None:
    try:
        json.loads(text, parse_constant=_refuse)
        is_json = True
    except ValueError:
        is_json = False

    if is_json:
        parse_json(text)
    else:
        with pytest.raises(NotJsonError):
            parse_json(text)


def _refuse(word: str) -> object:
    raise ValueError(word)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a":1,"a":2}', JsonObject((("a", JsonNumber("2")),))),
        (r'"a\ud83db"', "a�b"),
        (r'"\ud83d\ude00"', "😀"),
        (r'"\ude00\ud83d"', "��"),
        (r'"\ud83d\ud83d\ude00"', "�😀"),
        (r'"\u0000"', "\x00"),
        ("1e400", JsonNumber("1e400")),
    ],
)
def test_odd_but_sound(text: str, value: Json) -> None:
    assert parse_json(text) == value


def test_the_last_of_equal_keys_counts() -> None:
    value = parse_json('{"a": 1, "a": 2}')

    assert isinstance(value, JsonObject)
    assert value.get("a") == JsonNumber("2")


@pytest.mark.parametrize(
    "text", ["", " ", "\ufeff{}", "{}\x00", "[1,]", '{"a":1,}', "01", "NaN", "'a'", '"\t"', "\xa0{}"]
)
def test_refused(text: str) -> None:
    with pytest.raises(NotJsonError):
        parse_json(text)


def test_depth_is_counted_from_the_outermost() -> None:
    assert parse_json("[[]]", max_depth=2) == [[]]
    with pytest.raises(TooDeepError):
        parse_json("[[[]]]", max_depth=2)


@pytest.mark.slow
def test_a_million_levels_are_followed() -> None:
    with pytest.raises(NotJsonError):
        parse_json("[" * 1_000_000)


def test_numbers_are_written_as_duckdb_writes_them() -> None:
    with duckdb.connect() as connection:

        @given(st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(10**25), 10**25))
        def compare(number: float) -> None:
            document = json.dumps(number)
            row = connection.execute("SELECT json(?)", [document]).fetchone()

            assert row == (write_json(parse_json(document)),)

        compare()
