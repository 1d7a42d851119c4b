"""Feedback that comes as an event over OTLP is taken out of what is assembled, whenever it comes."""

from __future__ import annotations

from typing import Any

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue

from gapwatch.streams.otlp.assembly.assembler import Assembler
from gapwatch.streams.otlp.assembly.close_rules import CloseRules
from gapwatch.streams.otlp.assembly.item_ledger import item_imbalance
from gapwatch.streams.otlp.files.span_file import FileRequest
from gapwatch.streams.otlp.mapping.mapper import TraceMapper
from tests.streams.otlp.made_spans import START, request, span
from tests.streams.otlp.otlp_json import as_json

PREFIX = "gen_ai.evaluation."
BAD: dict[str, Any] = {"name": "helpful", "score.value": 0.25, "score.label": "fail", "explanation": "wrong day"}


def value_of(value: object) -> AnyValue:
    if isinstance(value, str):
        return AnyValue(string_value=value)
    return AnyValue(double_value=float(value))  # type: ignore[arg-type]


def evaluation(trace: int, given: dict[str, Any], at: int = START, name: str = PREFIX + "result") -> FileRequest:
    """A request with one log record in the context of a trace; 0 for none."""
    made = ExportLogsServiceRequest()
    record = made.resource_logs.add().scope_logs.add().log_records.add(event_name=name, time_unix_nano=at)
    if trace:
        record.trace_id, record.span_id = trace.to_bytes(16, "big"), (1).to_bytes(8, "big")
    for key, value in given.items():
        record.attributes.add(key=PREFIX + key if "." not in key or key.startswith("score") else key).value.CopyFrom(
            value_of(value)
        )
    return FileRequest("logs", False, made.SerializeToString())


@pytest.fixture
def assembler() -> Assembler:
    made = Assembler(TraceMapper.of([]), CloseRules(quiet=1.0, orphan=1.0))
    made.has_feedback = True
    return made


def take(assembler: Assembler, one: FileRequest, at: float = 0.0) -> None:
    assembler.advance(at)
    assembler.take(one, int(at), 1_795_500_000 + at, at)
    assert item_imbalance(assembler.counts()) == 0


def test_before_its_trace_and_after_it_was_closed_and_twice_it_is_one_feedback_of_one_id(assembler: Assembler) -> None:
    take(assembler, evaluation(1, BAD))
    assert (assembler.open_traces, assembler.held()) == (0, None)
    take(assembler, request(span(1, 1)), 1.0)
    take(assembler, evaluation(1, BAD), 9.0)
    as_text = FileRequest("logs", True, as_json(evaluation(1, BAD).body, "logs"))
    take(assembler, as_text, 10.0)
    take(assembler, evaluation(1, BAD | {"explanation": "wrong city"}), 11.0)
    first, *others = assembler.take_feedback()
    assert (first.trace_id, first.number) == (f"{1:032x}", 0.25)
    assert (first.comment, first.at.isoformat()) == ("helpful (fail): wrong day", "2026-11-24T06:00:00")
    assert [one.id == first.id for one in others] == [True, True, False]
    assert assembler.take_feedback() == []
    counts = assembler.counts()
    assert (counts["log_record.consumed."], counts["log_record.feedback."]) == (4, 4)
    assert [one.span_count for one in assembler.closed()] == [1]


def test_an_event_of_a_span_is_feedback_also_where_the_span_is_late(assembler: Assembler) -> None:
    for number, at in ((1, 0.0), (2, 9.0)):
        made = span(1, number, None if number == 1 else 1)
        event = made.events.add(name=PREFIX + "result", time_unix_nano=START)
        event.attributes.add(key=PREFIX + "score.label").value.string_value = "Pass"
        take(assembler, request(made), at)
    assert [one.value for one in assembler.take_feedback()] == ["up", "up"]
    counts = assembler.counts()
    assert (counts["span_event.feedback."], counts["span.late."], counts["span.assembled.quiet"]) == (2, 1, 1)


@pytest.mark.parametrize(
    ("trace", "given"),
    [
        (1, {"name": "helpful"}),
        (1, {"score.value": "high"}),
        (1, {"score.value": float("nan")}),
        (1, {"score.label": "purple"}),
        (1, {"score.value": 1.0, "explanation": "x" * 20_000}),
        (0, BAD),
    ],
)
def test_a_wrong_one_is_a_dead_letter_that_says_why(assembler: Assembler, trace: int, given: dict[str, Any]) -> None:
    take(assembler, evaluation(trace, given))
    assert assembler.take_feedback() == []
    assert assembler.counts()["log_record.dead_letter.bad_feedback"] == 1
    (dead,) = assembler.take_dead()
    assert dead.cause == "bad_feedback"
    assert ("context" if trace == 0 else "of a feedback") in dead.detail


def test_a_wrong_event_of_a_span_costs_the_span_nothing(assembler: Assembler) -> None:
    made = span(1, 1)
    made.events.add(name=PREFIX + "result")
    take(assembler, request(made))
    assert assembler.counts()["span_event.dead_letter.bad_feedback"] == 1
    assert assembler.counts()["span.pending."] == 1


def test_what_a_commit_has_counted_is_not_taken_again_and_opens_no_trace(assembler: Assembler) -> None:
    take(assembler, evaluation(1, BAD))
    counts = assembler.counts()
    again = Assembler(TraceMapper.of([]))
    again.has_feedback = True
    again.restore([], counts)
    again.take(evaluation(1, BAD), 0, 1_795_500_000, 0.0, is_counted=True)
    assert (again.take_feedback(), again.open_traces, again.counts()) == ([], 0, counts)


def test_other_records_and_files_are_as_they_were(assembler: Assembler) -> None:
    take(assembler, evaluation(1, {"explanation": PREFIX + "result"}, name="gen_ai.choice"))
    assert (assembler.take_feedback(), assembler.open_traces) == ([], 1)
    of_files = Assembler(TraceMapper.of([]))
    take(of_files, evaluation(1, BAD))
    assert (of_files.take_feedback(), of_files.open_traces) == ([], 1)
