"""Assembles files of spans to whole traces: the trace ends where the files end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from gapwatch.streams.otlp.assembly.assembler import Assembler
from gapwatch.streams.otlp.assembly.close_rules import CloseRules
from gapwatch.streams.otlp.assembly.closed_trace import ClosedTrace
from gapwatch.streams.otlp.decoding.raw_items import DeadItem, RawTrace
from gapwatch.streams.otlp.files.span_file import read_span_file
from gapwatch.streams.otlp.mapping.mapper import MappedTrace, TraceMapper

#: A file has no clock that is worth waiting for: only size and the end close a trace.
FILE_RULES = CloseRules(
    quiet=float("inf"), orphan=float("inf"), max_open=float("inf"), memory=4_000_000_000, max_spans=100_000
)
#: Dead letters and faulty lines that are named; the others are counted.
_MOST_NAMED = 100


@dataclass
class FileSummary:
    """Numbers of what was in files of spans.

    Attributes:
        requests: Number of requests.
        traces: Number of whole traces.
        counts: Ledger of spans and log records; see `item_ledger`.
        conventions: Number of spans by convention.
        dead: Some of the dead letters.
        faults: Some of the lines that hold no request.
        faulty_lines: Number of lines that hold no request.
    """

    requests: int = 0
    traces: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    conventions: Counter[str] = field(default_factory=Counter)
    dead: list[DeadItem] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    faulty_lines: int = 0


class _CountingMapper:
    """Mapper that counts the conventions."""

    def __init__(self, mapper: TraceMapper, conventions: Counter[str]) -> None:
        self._mapper, self._conventions = mapper, conventions

    @property
    def root_globs(self) -> tuple[str, ...]:
        return self._mapper.root_globs

    def map(self, trace: RawTrace) -> MappedTrace:
        mapped = self._mapper.map(trace)
        self._conventions.update(mapped.conventions)
        return mapped


def assemble_files(
    paths: Sequence[str], mapper: TraceMapper, summary: FileSummary | None = None, rules: CloseRules = FILE_RULES
) -> Iterator[ClosedTrace]:
    """Yield the whole traces of files of spans, by the arrival of their first span.

    Args:
        paths: The files, read in this order as one input.
        mapper: Maps the traces.
        summary: Is filled while the traces are read.
        rules: When a trace is closed before the end.

    Raises:
        SourceError: A file is missing, holds no spans, or is damaged.
    """
    summary = summary if summary is not None else FileSummary()
    assembler = Assembler(_CountingMapper(mapper, summary.conventions), rules)
    for path in paths:
        for request in read_span_file(path):
            if request.fault:
                summary.faulty_lines += 1
                summary.faults += [request.fault] if len(summary.faults) < _MOST_NAMED else []
                continue
            assembler.take(request, summary.requests, 0.0, float(summary.requests))
            summary.requests += 1
            summary.dead += assembler.take_dead()[: max(0, _MOST_NAMED - len(summary.dead))]
            for closed in assembler.closed():
                summary.traces += closed.envelope is not None
                yield closed
    assembler.end()
    summary.dead += assembler.take_dead()[: max(0, _MOST_NAMED - len(summary.dead))]
    summary.counts = assembler.counts()
    for closed in assembler.closed():
        summary.traces += closed.envelope is not None
        yield closed
