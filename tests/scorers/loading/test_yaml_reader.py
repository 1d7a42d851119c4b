"""YAML of portfolios is read strictly and within bounds, and every problem has its line."""

from __future__ import annotations

import time
import tracemalloc

import pytest
import yaml

from gapwatch.scorers.errors import PortfolioError
from gapwatch.scorers.loading.yaml_reader import MAX_BYTES, MAX_DEPTH, MAX_VALUES, read_yaml


def value_of(text: str | bytes) -> object:
    place, problems = read_yaml(text, "f.yaml")
    assert not problems, problems.sorted()
    return place.value


def refusal_of(text: str | bytes) -> str:
    with pytest.raises(PortfolioError) as refused:
        _, problems = read_yaml(text, "f.yaml")
        problems.raise_if_any()
    return str(refused.value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2026-11-02", "2026-11-02"),
        ("2026-11-02T10:00:00Z", "2026-11-02T10:00:00Z"),
        ("1e5", 100000.0),
        ("1E-3", 0.001),
        ("1.5e3", 1500.0),
        ("-1e+2", -100.0),
        ('"1e5"', "1e5"),
        ("1e", "1e"),
        ("e5", "e5"),
        ("1_000", 1000),
        ("0x10", 16),
        ("1:30", 90),
        ("yes", True),
        ("Off", False),
        ("~", None),
        ("=", "="),
        ("v1.0", "v1.0"),
        ('"\\ud83d\\ude00"', "😀"),
        ('"a\\0b"', "a\0b"),
        ("'it''s'", "it's"),
    ],
)
def test_a_scalar_is_read_as_yaml_1_1_but_for_dates_and_exponents(text, value):
    assert value_of(f"a: {text}\n") == {"a": value}
    assert type(value_of(f"a: {text}\n")["a"]) is type(value)


def test_an_alias_is_the_value_of_its_anchor():
    assert value_of("a: &x {b: [1]}\nc: *x\n") == {"a": {"b": [1]}, "c": {"b": [1]}}


def test_a_byte_order_mark_and_windows_lines_are_read():
    assert value_of(b"\xef\xbb\xbfa: 1\r\nb: x\r\n") == {"a": 1, "b": "x"}


def test_a_directive_of_a_later_minor_version_is_read():
    assert value_of("%YAML 1.2\n---\na: 1\n...\n") == {"a": 1}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: 1\nb: !!str x\n", "f.yaml:2: b: YAML tags are not supported: tag:yaml.org,2002:str"),
        ("a: 1\nb: !<x> y\n", "f.yaml:2: b: YAML tags are not supported"),
        ("a: [!x {b: 1}]\n", "f.yaml:1: a[0]: YAML tags are not supported"),
        ("a: 1\n\na: 2\n", "f.yaml:3: a: duplicate key, first in line 1"),
        ("b: {c: 1, 'c': 2}\n", "f.yaml:1: b.c: duplicate key"),
        ("b: {yes: 1}\n", 'b.yes: YAML does not read the key yes as a text; expected a text; write "yes":'),
        ("? [a]\n: 1\n", "the key is not a text"),
        ("x: &x {a: 1}\ny: {<<: *x}\n", "f.yaml:2: y.<<: merge keys are not supported"),
        ("a: *nobody\n", "f.yaml:1: a: no anchor &nobody before the alias"),
        ("a: &a {b: [*a]}\n", "f.yaml:1: a.b: the alias *a is inside its own anchor"),
        ("a: .inf\n", "a: .inf is not a finite number"),
        ("a: 1e999\n", "a: 1e999 is not a finite number"),
        ("a: " + "9" * 400 + "\n", "is not a finite number"),
        ("a: 0b_\n", "a: 0b_ is not a finite number"),
        ('a: "\\ud83d"\n', "f.yaml:1: a: half of a surrogate pair is not a character"),
        ('a: "\\U00110000"\n', "f.yaml: not YAML"),
        ("a: x\nb: \x01\n", "f.yaml:2: the character U+0001 is not allowed"),
        ("a: 1\n---\nb: 1\n", "f.yaml:2: a second document begins"),
        ("a: 1\n\tb: 1\n", "f.yaml:2: not YAML"),
        ("a: !x!y z\n", "f.yaml:1: not YAML"),
        (b"a: 1\nb: \xff\n", "f.yaml:2: not UTF-8: byte 0xff"),
        ("a: 1\n".encode("utf-16"), "f.yaml:1: not UTF-8"),
    ],
)
def test_it_is_refused_with_its_line(text, said):
    assert said in refusal_of(text)


def test_every_problem_of_the_yaml_is_told():
    said = refusal_of("a: !x 1\nb: 1\nb: 2\nc: .nan\nd: *e\n")

    assert [line.split(": ")[0] for line in said.splitlines()] == [f"f.yaml:{line}" for line in (1, 3, 4, 5)]


BOMB = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 40)
)
BOMBS = {
    "a bomb of 10 to the 40 values": BOMB,
    "a bomb of maps": "a0: &a0 {x: 1}\n"
    + "".join(f"a{i}: &a{i} {{x: *a{i - 1}, y: *a{i - 1}}}\n" for i in range(1, 400)),
    "one large value many times": f"a: &a [{'x,' * 5_000}]\nb: [{'*a,' * 1_000}]\n",
}
HOSTILE = {
    **BOMBS,
    "deep lists": "a: " + "[" * 200_000,
    "deep maps": "\n".join(" " * depth + "a:" for depth in range(1_900)),
    "deep keys": "? " * 200_000,
    "a number of a megabyte": "a: " + "9" * 1_000_000,
    "a sexagesimal number of a megabyte": "a: 1" + ":59" * 300_000,
    "a hexadecimal number of a megabyte": "a: 0x" + "f" * 1_000_000,
    "too many bytes": "a: " + "x" * MAX_BYTES,
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_file_is_refused_in_little_time(text):
    started = time.process_time()
    said = refusal_of(text)
    seconds = time.process_time() - started

    assert said.startswith("f.yaml")
    assert len(said) < 50_000
    assert seconds < 15  # they take up to two; without a bound, none of them ends


@pytest.mark.parametrize("text", BOMBS.values(), ids=BOMBS.keys())
def test_a_bomb_takes_little_memory(text):
    tracemalloc.start()
    refusal_of(text)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert peak < 50_000_000


def test_the_bounds_leave_room_for_what_is_real():
    nested = "[" * (MAX_DEPTH - 1) + "]" * (MAX_DEPTH - 1)

    assert value_of(f"a: {nested}\n")
    assert len(value_of(f"a: [{'x,' * 20_000}]\n")["a"]) == 20_000
    assert MAX_VALUES >= 500 * 100


def test_without_libyaml_the_same_is_read(monkeypatch):
    text = "a: &x {b: [1, 1e5, ~], c: 2026-11-02}\nd: *x\ne: |\n  f\n  g\n"
    fast, _ = read_yaml(text, "f.yaml")
    monkeypatch.delattr(yaml, "CSafeLoader", raising=False)

    assert read_yaml(text, "f.yaml")[0] == fast
