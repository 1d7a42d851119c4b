"""Traces of a size and a depth that no honest program sends: they cost their own time, not minutes."""

from __future__ import annotations

import json
import time

import pytest

from gapwatch.streams.otlp.assembly.assembler import Assembler
from gapwatch.streams.otlp.files.file_assembly import FILE_RULES
from gapwatch.streams.otlp.mapping.mapper import TraceMapper
from tests.streams.otlp.made_spans import request, span


def _seconds(count: int, is_chain: bool) -> tuple[float, list[dict[str, object]]]:
    spans = [
        span(
            1, n, None if n == 1 else n - 1 if is_chain else 1, openinference__span__kind="LLM",
            llm__token_count__prompt=1, llm__model_name="m",
        )
        for n in range(1, count + 1)
    ]  # fmt: skip
    assembler = Assembler(TraceMapper(), FILE_RULES)
    assembler.take(request(*spans), 0, 0.0, 0.0)
    started = time.process_time()
    assembler.end()
    taken = time.process_time() - started
    (closed,) = assembler.closed()
    return taken, json.loads(closed.envelope or b"")["spans"]


@pytest.mark.parametrize("is_chain", [False, True])
def test_ten_times_the_spans_take_about_ten_times_the_time(is_chain: bool) -> None:
    few, _ = _seconds(300, is_chain)
    many, spans = _seconds(3_000, is_chain)
    assert len(spans) == 3_000
    # A chain of model spans is one call, the innermost; others side by side are calls of their own.
    assert sum(one["kind"] == "llm" for one in spans) == (1 if is_chain else 2_999)
    assert many < 40 * few + 0.5
