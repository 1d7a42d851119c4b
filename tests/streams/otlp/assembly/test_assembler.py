"""When a trace is closed, what becomes of each span, and what is held back."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gapwatch.scorers.portfolio.span_mapping import SpanMapping
from gapwatch.streams.otlp.assembly.assembler import Assembler
from gapwatch.streams.otlp.assembly.close_rules import CloseRules
from gapwatch.streams.otlp.assembly.closed_trace import ClosedTrace
from gapwatch.streams.otlp.assembly.item_ledger import item_imbalance
from gapwatch.streams.otlp.files.span_file import FileRequest
from gapwatch.streams.otlp.mapping.mapper import TraceMapper
from tests.streams.otlp import captures
from tests.streams.otlp.made_spans import request, span


def _assembler(rules: CloseRules | None = None, mapping: SpanMapping | None = None) -> Assembler:
    return Assembler(TraceMapper([] if mapping is None else [("shop", mapping)]), rules)


def _take(assembler: Assembler, at: float, *spans: object, position: int = 0) -> None:
    assembler.advance(at)
    assembler.take(request(*spans), position, 1_795_500_000 + at, at)  # type: ignore[arg-type]


def _closed(assembler: Assembler) -> list[tuple[int, str, int]]:
    return [(int(one.trace_id, 16), one.closed_by, one.span_count) for one in assembler.closed()]


def test_a_trace_with_its_root_is_closed_after_the_quiet_time_and_not_before() -> None:
    assembler = _assembler()
    _take(assembler, 0.0, span(1, 2, 1))
    _take(assembler, 3.0, span(1, 1))
    assembler.advance(12.9)
    assert _closed(assembler) == []
    assembler.advance(13.0)
    assert _closed(assembler) == [(1, "quiet", 2)]


def test_a_trace_without_a_root_is_an_orphan() -> None:
    assembler = _assembler()
    _take(assembler, 0.0, span(1, 2, 1))
    assembler.advance(59.9)
    assert _closed(assembler) == []
    assembler.advance(60.0)
    (closed,) = assembler.closed()
    assert (closed.closed_by, json.loads(closed.envelope or b"")["attributes"]["complete"]) == ("orphan", False)


def test_a_span_that_a_mapping_names_a_root_is_one() -> None:
    assembler = _assembler(mapping=SpanMapping(root=("POST *",)))
    _take(assembler, 0.0, span(1, 2, 1, name="POST /answer"))
    assembler.advance(10.0)
    (closed,) = assembler.closed()
    attributes = json.loads(closed.envelope or b"")["attributes"]
    assert (closed.closed_by, attributes["complete"], attributes["root"]) == ("quiet", True, "POST /answer")


def test_a_trace_with_news_is_closed_after_its_longest_time() -> None:
    assembler = _assembler(CloseRules(max_open=30))
    for at in range(40):
        _take(assembler, float(at), span(1, at + 1, None if at == 0 else 1))
    assert _closed(assembler) == [(1, "max_open", 30)]
    assert assembler.counts()["span.late."] == 10


def test_a_trace_is_closed_when_it_is_full_and_the_rest_is_late() -> None:
    assembler = _assembler(CloseRules(max_spans=5))
    _take(assembler, 0.0, *[span(1, n, None if n == 1 else 1) for n in range(1, 9)])
    assert _closed(assembler) == [(1, "max_spans", 5)]
    assert assembler.counts()["span.late."] == 3


def test_memory_is_kept_by_closing_the_oldest() -> None:
    assembler = _assembler(CloseRules(memory=10_000))
    for number in range(1, 101):
        _take(assembler, number / 10, span(number, 1))
        assert assembler.memory_bytes <= 10_000
    assert _closed(assembler)[:2] == [(1, "memory", 1), (2, "memory", 1)]
    assert item_imbalance(assembler.counts()) == 0


def test_late_spans_are_counted_by_service_with_the_quiet_time_that_would_have_caught_them() -> None:
    assembler = _assembler(CloseRules(quiet=1.0))
    _take(assembler, 0.0, span(1, 1))
    _take(assembler, 3.5, span(1, 2, 1))
    assert assembler.counts()["span.late."] == 1
    assert assembler.late.by_service == {"shop": 1}
    assert assembler.late.quiet_for(0.99) == 5.0
    (late,) = assembler.take_late_spans()
    assert (late.service, late.delay) == ("shop", 0.0)
    assert assembler.take_late_spans() == []


def test_a_span_that_was_sent_twice_counts_once_before_and_after_its_trace_is_closed() -> None:
    assembler = _assembler()
    _take(assembler, 0.0, span(1, 1), span(1, 1))
    _take(assembler, 11.0, span(1, 1))
    assert assembler.counts() == {"span.assembled.quiet": 1, "span.consumed.": 3, "span.duplicate.": 2}


def test_the_second_of_two_services_is_late_with_a_short_quiet_time_only() -> None:
    for quiet, expected in ((10.0, 0), (1.0, 25)):
        assembler = _assembler(CloseRules(quiet=quiet))
        for position, one in enumerate(captures.requests("two-services")):
            assert one.at is not None
            assembler.advance(one.at)
            assembler.take(one, position, 1_795_500_000 + one.at, one.at)
        assembler.advance(1_000.0)
        late = assembler.late.by_service
        assert (late.total() > 0) == (expected > 0)
        assert set(late) <= {"velo-search"}
        assert item_imbalance(assembler.counts()) == 0


def test_a_body_that_is_no_message_is_a_dead_letter_and_the_next_one_counts() -> None:
    assembler = _assembler()
    assembler.take(FileRequest("traces", False, b"\xffgarbage"), 0, 0.0, 0.0)
    _take(assembler, 1.0, span(1, 1))
    assembler.end()
    assert assembler.counts()["request.dead_letter.undecodable"] == 1
    assert _closed(assembler) == [(1, "end", 1)]


def test_the_oldest_position_of_what_is_pending_is_held() -> None:
    assembler = _assembler()
    _take(assembler, 0.0, span(1, 2, 1), position=10)
    _take(assembler, 1.0, span(2, 1), position=20)
    _take(assembler, 2.0, span(1, 3, 1), position=30)
    assert assembler.held() == 10
    assembler.advance(11.5)
    assert assembler.held() == 10
    assembler.advance(62.0)
    assert assembler.held() is None


ARRIVALS = st.lists(
    st.tuples(
        st.integers(1, 6),  # trace
        st.integers(1, 6),  # span
        st.booleans(),  # has a parent
        st.floats(0, 20, allow_nan=False),  # seconds since the one before
    ),
    max_size=60,
)


@given(ARRIVALS)
@settings(max_examples=60, deadline=None)
def test_every_span_is_in_one_state_after_each_step(arrivals: list[tuple[int, int, bool, float]]) -> None:
    assembler, at = _assembler(CloseRules(quiet=5, orphan=15, max_open=40, max_spans=4)), 0.0
    closed: list[ClosedTrace] = []
    for position, (trace, number, has_parent, gap) in enumerate(arrivals):
        at += gap
        _take(assembler, at, span(trace, number, 9 if has_parent else None), position=position)
        counts = assembler.counts()
        assert item_imbalance(counts) == 0
        assert counts["span.consumed."] == position + 1
        closed += assembler.closed()
    assembler.end()
    closed += assembler.closed()
    assert assembler.counts().get("span.pending.", 0) == 0 == assembler.memory_bytes == assembler.open_traces
    assert max(Counter(one.trace_id for one in closed).values(), default=1) == 1


@given(ARRIVALS, st.integers(0, 60))
@settings(max_examples=60, deadline=None)
def test_a_restart_at_the_held_position_gives_what_an_undisturbed_run_gives(
    arrivals: list[tuple[int, int, bool, float]], cut: int
) -> None:
    rules = CloseRules(quiet=5, orphan=15, max_open=40, max_spans=4)
    requests, at = [], 0.0
    for trace, number, has_parent, gap in arrivals:
        at += gap
        requests.append((at, request(span(trace, number, 9 if has_parent else None))))

    def run(assembler: Assembler, first: int, last: int, *, counted: bool = False) -> list[ClosedTrace]:
        closed = []
        for position in range(first, last):
            clock, one = requests[position]
            if not counted:
                assembler.advance(clock)
            assembler.take(one, position, clock, clock, is_counted=counted)
            closed += assembler.closed()
        return closed

    whole = _assembler(rules)
    expected = run(whole, 0, len(requests))

    before = _assembler(rules)
    cut = min(cut, len(requests))
    first_part = run(before, 0, cut)
    after = _assembler(rules)
    after.restore([one.trace_id for one in first_part], before.counts())
    held = before.held()
    assert run(after, cut if held is None else held, cut, counted=True) == []
    assert after.counts() == before.counts()
    assert [one.envelope for one in first_part + run(after, cut, len(requests))] == [one.envelope for one in expected]
    # Of a closed trace only the id is known after a restart: a span that was sent twice then counts as late.
    assert _without_doubles(after) == _without_doubles(whole)


def _without_doubles(assembler: Assembler) -> dict[str, int]:
    counts = assembler.counts()
    counts["span.late."] = counts.get("span.late.", 0) + counts.pop("span.duplicate.", 0)
    return counts


@pytest.mark.slow
def test_traces_of_one_span_without_end_keep_the_memory_bound() -> None:
    rules = CloseRules(memory=5_000_000)
    assembler = _assembler(rules)
    for block in range(50):
        spans = [span(block * 500 + n + 1, 1, 2) for n in range(500)]
        _take(assembler, block / 1_000, *spans)
        assembler.closed()
        assert assembler.memory_bytes <= rules.memory
    assert item_imbalance(assembler.counts()) == 0
    assert assembler.counts()["span.assembled.memory"] > 12_000
