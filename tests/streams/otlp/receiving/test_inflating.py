"""Inflating within limits."""

import gzip
import os
import tracemalloc
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapwatch.streams.otlp.receiving.inflating import InflateError, InflateLimitError, inflate


@given(st.lists(st.binary(max_size=2_000), min_size=1, max_size=4))
def test_members_of_gzip_are_inflated_one_after_the_other(members):
    assert inflate(b"".join(gzip.compress(one) for one in members)) == b"".join(members)


@given(st.binary(min_size=1, max_size=400), st.data())
def test_a_cut_or_broken_body_is_refused(content, data):
    whole = gzip.compress(content, mtime=0)
    cut = data.draw(st.integers(1, len(whole) - 1))
    with pytest.raises(InflateError):
        inflate(whole[:cut])


def test_what_is_no_gzip_is_refused():
    with pytest.raises(InflateError, match="gzip"):
        inflate(b"spans")


def test_a_bomb_is_refused_before_it_fills_the_memory():
    machine = zlib.compressobj(9, zlib.DEFLATED, 31)
    bomb = b"".join([*(machine.compress(bytes(1 << 20)) for _ in range(64)), machine.flush()])
    assert len(bomb) < 1 << 17
    tracemalloc.start()
    try:
        with pytest.raises(InflateLimitError, match="200 times"):
            inflate(bomb)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


def test_a_body_of_a_low_ratio_is_refused_at_the_limit(monkeypatch):
    monkeypatch.setattr("gapwatch.streams.otlp.receiving.inflating.INFLATED_LIMIT", 2 << 20)
    with pytest.raises(InflateLimitError, match="2 MiB"):
        inflate(gzip.compress(os.urandom(3 << 20), 1))
