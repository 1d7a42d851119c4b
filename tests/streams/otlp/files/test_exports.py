"""Traces that others exported, as spans with the keys of their own convention."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gapwatch.scorers.errors import SourceError
from gapwatch.streams.otlp.files.file_assembly import assemble_files
from gapwatch.streams.otlp.files.span_file import is_span_file, read_span_file
from gapwatch.streams.otlp.mapping.mapper import TraceMapper

TRACE, ROOT, CHILD = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331", "00f067aa0ba902b7"


def _envelopes(file: Path, *records: Any) -> list[dict[str, Any]]:
    file.write_text("".join(json.dumps(record) + "\n" for record in records))
    assert is_span_file(str(file))
    return [json.loads(one.envelope) for one in assemble_files([str(file)], TraceMapper()) if one.envelope is not None]


def test_spans_of_phoenix_with_nested_and_with_flat_attributes(tmp_path: Path) -> None:
    nested = {
        "name": "ChatCompletion", "span_kind": "LLM", "parent_id": ROOT, "status_code": "OK",
        "context": {"trace_id": TRACE, "span_id": CHILD},
        "start_time": "2026-11-24T10:00:00.250000+00:00", "end_time": "2026-11-24T10:00:01+00:00",
        "attributes": {
            "llm": {
                "model_name": "gpt-4.1", "token_count": {"prompt": 10, "completion": 3},
                "input_messages": [{"message": {"role": "user", "content": "hi"}}],
                "output_messages": [{"message.role": "assistant", "message.content": "hello"}],
            }
        },
    }  # fmt: skip
    flat = {
        "name": "answer", "parent_id": None, "status_code": "ERROR", "status_message": "ValueError: no",
        "context.trace_id": TRACE, "context.span_id": ROOT, "start_time": 1795500000000, "end_time": 1795500002000,
        "attributes.openinference.span.kind": "CHAIN", "attributes.input.value": "hi",
    }  # fmt: skip
    (envelope,) = _envelopes(tmp_path / "phoenix.jsonl", nested, flat)
    root, call = sorted(envelope["spans"], key=lambda span: "parent_id" in span)
    assert (root["kind"], root["status"], root["error_type"], root["started_at"]) == (
        "chain", "error", "ValueError", 1795500000.0,
    )  # fmt: skip
    assert (call["kind"], call["model"], call["output"], call["component"]) == ("llm", "gpt-4.1", "hello", "answer")
    assert call["usage"] == {"input_tokens": 10, "output_tokens": 3}
    assert json.loads(call["input"]) == [{"role": "user", "content": "hi"}]


def test_a_trace_of_mlflow(tmp_path: Path) -> None:
    spans = [
        {
            "trace_id": "CvdlGRbNQ92ESOshHIAxnA==", "span_id": "t61rcWkgMzE=", "parent_span_id": None, "name": "agent",
            "start_time_unix_nano": 1795500000000000000, "end_time_unix_nano": 1795500001000000000,
            "status": {"code": "STATUS_CODE_OK", "message": ""},
            "attributes": {"mlflow.spanType": '"AGENT"', "mlflow.spanInputs": '{"text": "hi"}'},
        },
        {
            "trace_id": "CvdlGRbNQ92ESOshHIAxnA==", "span_id": "APBnqgupArc=", "parent_span_id": "t61rcWkgMzE=",
            "name": "Completions", "start_time_unix_nano": 1795500000100000000,
            "end_time_unix_nano": 1795500000900000000, "status": {"code": "STATUS_CODE_ERROR", "message": "429"},
            "attributes": {"mlflow.spanType": '"CHAT_MODEL"', "model": '"gpt-4.1"'},
        },
    ]  # fmt: skip
    info = {"trace_id": f"tr-{TRACE}", "trace_metadata": {"mlflow.trace.session": "s-1", "mlflow.trace.user": "u-1"}}
    (envelope,) = _envelopes(tmp_path / "mlflow.jsonl", {"info": info, "data": {"spans": spans}})
    assert (envelope["trace_id"], envelope["session_id"], envelope["attributes"]["user_id"]) == (TRACE, "s-1", "u-1")
    assert [(span["component"], span["kind"], span["status"]) for span in envelope["spans"]] == [
        ("agent", "agent", "ok"),
        ("agent", "llm", "error"),
    ]
    assert envelope["spans"][1]["model"] == "gpt-4.1"


def test_ids_of_other_forms_become_ids_of_their_size(tmp_path: Path) -> None:
    observation = {"id": "obs 1", "type": "GENERATION", "name": "call", "startTime": "2026-11-24T10:00:00Z"}
    record = {"id": "9c5b94b1-35ad-49bb-b118-8e8fc24abf80", "observations": [observation], "sessionId": "s"}
    (envelope,) = _envelopes(tmp_path / "langfuse.jsonl", record)
    assert envelope["trace_id"] == "9c5b94b135ad49bbb1188e8fc24abf80"
    assert len(envelope["spans"][0]["span_id"]) == 16
    assert "ended_at" not in envelope["spans"][0]


@pytest.mark.parametrize(
    "line", ['{"trace_id": "1", "pipeline": "p", "spans": []}', "[1, 2]", "no json", "", '{"observations": 3}']
)
def test_a_file_of_something_else_holds_no_spans(tmp_path: Path, line: str) -> None:
    file = tmp_path / "other.jsonl"
    file.write_text(line)
    assert not is_span_file(str(file))
    with pytest.raises(SourceError, match="holds no spans"):
        list(read_span_file(str(file)))
