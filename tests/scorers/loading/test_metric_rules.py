"""Patterns that are one literal between anchors are found; other patterns are not."""

from __future__ import annotations

import sys

import pytest
import re2
from hypothesis import given
from hypothesis import strategies as st

from gapwatch.scorers.loading.metric_rules import fixed_text
from gapwatch.scorers.loading.re2 import CITED_BY_LINK, CITED_BY_NUMBER, pattern_problem


@pytest.mark.parametrize(
    "pattern",
    [
        "^Paris$",
        r"\AParis\z",
        "(?i)^Paris$",
        "(?im-s)^Paris$",
        "^(?:Paris)$",
        "^(?P<city>Paris)$",
        r"^\QParis\E$",
        r"^\QParis\E\z",
        "^(Paris|Paris)$",
        "^(Paris)$",
        "^(?i:Paris)$",
    ],
)
def test_an_anchored_literal_is_found(pattern):
    assert pattern_problem(pattern) is None
    assert fixed_text(pattern) == "Paris"


@pytest.mark.parametrize(
    ("pattern", "text"),
    [("^$", ""), (r"^Paris\.$", "Paris."), (r"^a\$$", "a$"), (r"^\\$", "\\"), (r"^\Qa.b\E$", "a.b")],
)
def test_it_is_known_which_text(pattern, text):
    assert pattern_problem(pattern) is None
    assert fixed_text(pattern) == text


@pytest.mark.parametrize(
    "pattern",
    [
        "",
        "Paris",
        "^Paris",
        "Paris$",
        "^(Paris|London)$",
        "^Paris$|London",
        "^Pari.$",
        "^Paris?$",
        "^Paris+$",
        "^Paris*$",
        r"^Paris\s*$",
        r"^\d$",
        r"^\pL$",
        "^[Pp]aris$",
        "^[^a]$",
        "^[[:alpha:]]$",
        "^a{1,2}$",
        "^a{2,}$",
        "^(a|)$",
        "^Paris$.",
        "^Pa$ris$",
        "^Paris|Paris$",
        "^(Paris)|(Paris)$",
        r"^Paris\$",
        r"^Paris\\z",
        # Fixed, too, and not seen through: an author has written a pattern, not an answer.
        "(^Paris$)",
        "^P[a]ris$",
        r"^\x50aris$",
        "^P{1}aris$",
        "^Paris$|^Paris$",
        r"^\C$",
    ],
)
def test_a_pattern_that_lets_more_through_is_left_alone(pattern):
    assert pattern_problem(pattern) is None
    assert fixed_text(pattern) is None


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\ue000\ue001"), max_size=20))
def test_every_escaped_text_is_found_as_itself(text):
    assert fixed_text(f"^{re2.escape(text)}$") == text


@given(
    st.from_regex(r"\^?(\(|\)|\||[a-c]|\[[a-c]\]|[*+?]|\{[1-3]\}|\^|\$|\(\?:){0,9}\$?", fullmatch=True),
    st.text("abc", max_size=6),
)
def test_what_is_called_fixed_matches_nothing_else(pattern, other):
    try:
        compiled = re2.compile(pattern, options=_quiet())
    except re2.error:
        return
    text = fixed_text(pattern)

    if text is not None:
        assert compiled.search(text) or "^" in pattern[1:] or "$" in pattern[:-1]
        assert other == text or not compiled.search(other)


def _quiet() -> re2.Options:
    options = re2.Options()
    options.log_errors = False
    return options


@pytest.mark.parametrize(
    "pattern", ["(" * 5_000 + "a" + ")" * 5_000, "^" + "(?:a{1000})" * 500 + "$", "^(((((a{9}){9}){9}){9}){9})$"]
)
def test_a_hostile_pattern_is_read_in_little_time(pattern):
    assert fixed_text(pattern) is None


@pytest.mark.parametrize(
    "pattern", [CITED_BY_NUMBER, CITED_BY_LINK, "^chat .*$", r"^a\.b\ c\-d:\/e_1$", "", "^$", ".*.*"]
)
def test_re2_takes_what_is_taken_without_loading_arrow(pattern, monkeypatch):
    re2.compile(pattern)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert pattern_problem(pattern) is None
