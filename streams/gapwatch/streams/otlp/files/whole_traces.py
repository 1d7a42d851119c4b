"""Gives files of spans to commands that read files of whole traces."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from gapwatch.scorers.errors import JobError
from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.streams.otlp.files.missing_extra import need_span_decoder
from gapwatch.streams.otlp.files.span_file import is_span_file

if TYPE_CHECKING:
    from gapwatch.streams.otlp.files.file_assembly import FileSummary


@contextmanager
def whole_trace_files(
    paths: Sequence[str], portfolios: Sequence[Portfolio], summaries: list[FileSummary] | None = None
) -> Iterator[list[str]]:
    """Give the paths of files of whole traces: those of spans are assembled first, into a temporary file.

    All files of spans are one input, because a trace may lie in several. The temporary file has the name of the first
    of them without the suffix of its compression, so that a source keeps its name from one run to the next.

    Args:
        paths: Files of whole traces or of spans, in any mixture.
        portfolios: Portfolios whose mappings hold.
        summaries: Gets the summary, if there are files of spans.

    Raises:
        SourceError: A file is missing or damaged.
        UsageError: There are files of spans, and opentelemetry-proto is not installed.
        JobError: The temporary file cannot be written.
    """
    of_spans = [path for path in dict.fromkeys(paths) if is_span_file(path)]
    if not of_spans:
        yield list(paths)
        return
    need_span_decoder()
    # Imported here: files of whole traces are read without protobuf.
    from gapwatch.streams.otlp.files.file_assembly import FileSummary, assemble_files
    from gapwatch.streams.otlp.mapping.mapper import TraceMapper

    with tempfile.TemporaryDirectory(prefix="gapwatch-") as folder:
        name = Path(of_spans[0]).name.removesuffix(".gz").removesuffix(".zst")
        assembled = Path(folder) / name
        summary = FileSummary()
        try:
            with assembled.open("wb") as out:
                for closed in assemble_files(of_spans, TraceMapper.of(portfolios), summary):
                    if closed.envelope is not None:
                        out.write(closed.envelope + b"\n")
        except OSError as error:
            raise JobError(f"{folder}: the assembled traces cannot be written: {error.strerror or error}") from error
        if summaries is not None:
            summaries.append(summary)
        others = [path for path in paths if path not in of_spans]
        yield [str(assembled), *others]
