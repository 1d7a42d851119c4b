"""Reads the whole traces of the spool of a run, while the run goes on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from gapwatch.scorers.errors import SourceError


def traces_of_spool(folder: Path) -> Iterator[bytes]:
    """Yield the whole traces in the folder of a spool, one line of JSON each, the oldest first.

    Args:
        folder: Folder beside the store of `gapwatch run --otlp`: the path of the store with `.otlp` behind it.

    Raises:
        SourceError: The folder is none of a spool, or cannot be read.
    """
    traces = folder / "traces"
    if not traces.is_dir() or not (folder / "spool").is_dir():
        raise SourceError(
            f"{folder}: is a directory, but not the spool of `gapwatch run --otlp`, which is beside its store and ends "
            "in .otlp"
        )
    try:
        for file in sorted(traces.glob("*.jsonl")):
            with file.open("rb") as lines:
                # The last line may be half written: the run goes on.
                yield from (line for line in lines if line.endswith(b"\n"))
    except OSError as error:
        raise SourceError(f"{traces}: cannot be read: {error.strerror or error}") from error
