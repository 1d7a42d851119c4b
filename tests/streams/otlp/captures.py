"""Requests that real instrumentors sent, and what is true of them, from `tests/data/otlp`."""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

from gapwatch.streams.otlp.files.file_assembly import FileSummary, assemble_files
from gapwatch.streams.otlp.files.span_file import FileRequest, read_span_file
from gapwatch.streams.otlp.mapping.mapper import TraceMapper

FOLDER = Path(__file__).parents[2] / "data" / "otlp"


@cache
def truth() -> dict[str, Any]:
    """What is true of each capture: counted by the model server, and read from the spans a second time."""
    return dict(json.loads(gzip.decompress((FOLDER / "truth.json.gz").read_bytes())))


def names() -> list[str]:
    return sorted(truth())


def path_of(name: str) -> str:
    return str(FOLDER / f"{name}.jsonl.gz")


@cache
def requests(name: str) -> list[FileRequest]:
    return list(read_span_file(path_of(name)))


@cache
def assembled(name: str) -> tuple[tuple[bytes, ...], FileSummary]:
    """Envelopes of a capture as lines, without a mapping, and the summary."""
    summary = FileSummary()
    lines = [one.envelope for one in assemble_files([path_of(name)], TraceMapper(), summary)]
    return tuple(line for line in lines if line is not None), summary


def envelopes(name: str) -> dict[str, Any]:
    """Envelopes of a capture by their trace id."""
    return {envelope["trace_id"]: envelope for envelope in map(json.loads, assembled(name)[0])}


def steps(capture: str, /, **wanted: Any) -> list[dict[str, Any]]:
    """Steps of a capture with the given values, in the order of the traces."""
    return [
        step
        for envelope in envelopes(capture).values()
        for step in envelope["spans"]
        if all(step.get(key) == value for key, value in wanted.items())
    ]
