"""Canonical JSON has the bytes of RFC 8785 on the fast path and on the slow one."""

from __future__ import annotations

import math
from typing import Any

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from gapwatch.scorers.judges.canonical import canonical_texts, canonical_value
from gapwatch.scorers.judges.chat_model import ChatCall
from gapwatch.scorers.judges.prompt import request_bytes

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | TEXTS
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@given(st.dictionaries(TEXTS, st.none() | TEXTS, max_size=5))
def test_texts_are_written_as_the_standard_says(texts: dict[str, str | None]) -> None:
    assert canonical_texts(texts) == rfc8785.dumps(texts)


@given(VALUES)
def test_values_are_written_as_the_standard_says(value: Any) -> None:
    assert canonical_value(value) == rfc8785.dumps(value)


@given(st.dictionaries(TEXTS.filter(lambda name: name not in ("model", "messages")), VALUES, max_size=4), TEXTS)
def test_a_request_is_written_as_the_standard_says(params: dict[str, Any], text: str) -> None:
    call = ChatCall("v/m", (("system", text), ("user", "x")), params, {"type": "json_schema"})

    assert request_bytes(call) == rfc8785.dumps(call.body())  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [math.nan, {"a": [math.inf]}, {"a": object()}, {"a": 2**60}])
def test_what_is_no_json_is_refused(value: object) -> None:
    with pytest.raises(ValueError):
        canonical_value(value)
