"""Times that a pipeline assigns to its traces and spans."""

from tests.streams.publisher.test_trace_publisher import make_publisher, only_trace


def test_times_that_the_pipeline_sets_by_hand_are_kept():
    publisher = make_publisher()
    with publisher.trace() as trace:
        trace.started_at, trace.ended_at = 100.0, 120.0
        with publisher.span("both") as span:
            span.started_at, span.ended_at = 101.0, 109.5
        with publisher.span("start alone") as span:
            span.started_at = 110.0

    record = only_trace(publisher)
    both, start = record["spans"]
    assert (record["started_at"], record["ended_at"]) == (100.0, 120.0)
    assert (both["started_at"], both["ended_at"]) == (101.0, 109.5)
    assert start["started_at"] == 110.0
    assert 110.0 <= start["ended_at"] < 1e6  # its start and the duration measured, not the time of day


def test_a_span_that_ends_after_its_trace_is_late_whatever_the_times_say():
    publisher = make_publisher()
    with publisher.trace() as trace:
        trace.ended_at = 120.0
        late = publisher.span("late")
        span = late.__enter__()
        span.ended_at = 110.0
    late.__exit__(None, None, None)

    assert only_trace(publisher)["spans"] == []
    assert publisher.counts["late_spans"] == 1
