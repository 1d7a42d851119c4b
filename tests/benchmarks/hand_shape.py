"""The traffic of the benchmark as typed records, and the slow look at a line that is none of them."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NoReturn

import msgspec
from msgspec import Meta, Struct

from tests.benchmarks.traffic import PIPELINE

Number = float
#: Of an attribute the text counts as well: 1 and 1.0 are shown as they are written.
Written = int | float
Text = Annotated[str, Meta(min_length=1)]


class Usage(Struct, gc=False):
    input_tokens: Number
    output_tokens: Number
    cost_usd: Number


class RetrieveAttributes(Struct, gc=False):
    index: str
    top_k: Written
    score: Written


class GenerateAttributes(Struct, gc=False):
    finish_reason: str
    prompt_version: str


class ReplyAttributes(Struct, gc=False):
    channel: str
    language: str
    retries: Written


class Retrieve(Struct, gc=False):
    span_id: str
    component: Literal["retrieve"]
    started_at: Number
    ended_at: Number
    name: str
    status: str
    error_type: str | None
    model: Text
    tier: Text
    input: str
    output: str
    usage: Usage
    attributes: RetrieveAttributes


class Generate(Struct, gc=False):
    span_id: str
    component: Literal["generate"]
    started_at: Number
    ended_at: Number
    status: str
    error_type: str | None
    model: Text
    tier: Text
    input: str
    output: str
    usage: Usage
    attributes: GenerateAttributes


class Reply(Struct, gc=False):
    span_id: str
    component: Literal["reply"]
    started_at: Number
    ended_at: Number
    status: str
    error_type: str | None
    model: Text
    tier: Text
    input: str
    output: str
    usage: Usage
    attributes: ReplyAttributes


Span = Retrieve | Generate | Reply


class Trace(Struct, gc=False):
    trace_id: str
    pipeline: Literal["support"]
    session_id: None
    ended_at: Number
    spans: tuple[Retrieve, Generate, Reply]
    environment: str = "production"
    release: Text | None = None
    sampling_probability: Number = 1.0


_DECODER = msgspec.json.Decoder(Trace)


@dataclass
class Records:
    """Contents of one slice of lines.

    Attributes:
        traces: Those of the benchmark's pipeline.
        offsets: Line number of each trace.
        lines: Raw line of each trace, without what ends it.
        foreign: How many records are of another pipeline.
        dead: Line number, cause and raw line of each record that is none.
    """

    traces: list[Trace] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    lines: list[bytes] = field(default_factory=list)
    foreign: int = 0
    dead: list[tuple[int, str, bytes]] = field(default_factory=list)

    @property
    def count(self) -> int:
        """How many records there are."""
        return len(self.traces) + self.foreign + len(self.dead)


def decode(records: Records, lines: list[bytes], block: bytes, first: int) -> None:
    """Decode some lines.

    Args:
        records: Where the records go.
        lines: With their line ends.
        block: The lines as one text.
        first: Number of the first line.
    """
    try:
        traces = _DECODER.decode_lines(block)
    except (msgspec.DecodeError, UnicodeDecodeError):
        traces = []
    if len(traces) == len(lines):
        records.traces += traces
        records.offsets += range(first, first + len(lines))
        records.lines += lines
        return
    for i, line in enumerate(lines, first):
        if line.strip(b" \t\r\n"):
            _decode_one(records, line.removesuffix(b"\n").removesuffix(b"\r"), i)


def _decode_one(records: Records, line: bytes, offset: int) -> None:
    try:
        trace = _DECODER.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        cause = _cause(line)
        if cause is None:
            records.foreign += 1
        else:
            records.dead.append((offset, cause, line))
        return
    records.traces.append(trace)
    records.offsets.append(offset)
    records.lines.append(line)


def _cause(line: bytes) -> str | None:
    """Return why a line is a dead letter; None where it is of another pipeline.

    Raises:
        ValueError: It is a trace of the benchmark's pipeline that looks otherwise than its traffic does.
    """
    if len(line) > 10_000_000:
        return "too_large"
    try:
        text = line.decode()
    except UnicodeDecodeError:
        return "not_utf8"
    try:
        value = json.loads(text, parse_constant=_refuse, object_pairs_hook=_first_wins)
    except RecursionError:
        return "too_deep"
    except ValueError:
        return "not_json"
    if not isinstance(value, dict):
        return "not_object"
    if any(value.get(key) is None for key in ("trace_id", "pipeline", "spans")):
        return "missing_field"
    spans = value["spans"]
    if not isinstance(spans, list):
        return "bad_spans"
    objects = [span for span in spans if isinstance(span, dict)]
    if any(span.get(key) is None for span in objects for key in ("span_id", "component")):
        return "missing_field"
    if len(objects) < len(spans):
        return "bad_spans"
    if value["pipeline"] == PIPELINE:
        raise ValueError(f"the loop knows only the benchmark's own traffic, and not {line[:200]!r}")
    return None


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)


def _first_wins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    return dict(reversed(pairs))


def dead_letter_row(offset: int, cause: str, line: bytes) -> dict[str, object]:
    """Return what the table says of a dead letter, without where it came from."""
    digest = hashlib.sha256(line).hexdigest()
    return {"source_offset": offset, "cause": cause, "detail": cause, "size": len(line), "sha256": digest}
