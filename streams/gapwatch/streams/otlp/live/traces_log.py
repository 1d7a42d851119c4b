"""Log of whole traces: append-only files of JSON lines, which the pipeline reads as it reads a topic.

The offset of a trace is its line number over all files; `000000000000.jsonl` begins with line 0. Only committed lines
are read: what was written after the last commit before a kill is cut off, and written again.
"""

from __future__ import annotations

import logging
import math
import os
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from threading import Lock

from gapwatch.scorers.errors import JobError, UsageError
from gapwatch.streams.otlp.live.safe_write import sync_folder, write_all

log = logging.getLogger("gapwatch.otlp")

#: Bytes after which a new file begins. Larger: disk space is given back later, and a start reads more.
SEGMENT_BYTES = 64 << 20
_SUFFIX = ".jsonl"
_READ_BYTES = 1 << 20


@dataclass(frozen=True)
class LogPlace:
    """End of the committed lines.

    Attributes:
        lines: Number of lines over all files, those that were deleted included.
        file: Number of the first line of the last file.
        size: Committed bytes of that file.
    """

    lines: int = 0
    file: int = 0
    size: int = 0


class TracesLog:
    """Log in a folder; one thread appends and commits, another one reads.

    Args:
        folder: Folder of its files; created if it does not exist.
        committed: End of the committed lines; what follows is cut off.
        segment_bytes: Bytes after which a new file begins.

    Raises:
        JobError: The files cannot be read or written.
        UsageError: Committed lines are missing.
    """

    def __init__(self, folder: Path, committed: LogPlace, segment_bytes: int = SEGMENT_BYTES) -> None:
        self._folder, self._segment_bytes = folder, segment_bytes
        self._lock = Lock()
        self._committed = self._written = committed
        self._reading: tuple[int, int] | None = None  # next line to read, and the byte in its file where it begins
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._files = sorted(int(path.stem) for path in folder.glob(f"*{_SUFFIX}"))
            for later in [one for one in self._files if one > committed.file]:
                self._path(later).unlink()
                self._files.remove(later)
            if committed.file not in self._files:
                if committed.size:
                    raise UsageError(f"{self._path(committed.file)} is missing; its traces are not stored yet")
                self._files.append(committed.file)
            self._file = self._path(committed.file).open("ab", buffering=0)
            size = self._file.seek(0, os.SEEK_END)
            if size < committed.size:
                raise UsageError(f"{self._path(committed.file)} has become shorter; restore it from a backup")
            os.ftruncate(self._file.fileno(), committed.size)
            os.fsync(self._file.fileno())
            sync_folder(folder)
        except OSError as error:
            raise self._failed(error) from error

    @property
    def first(self) -> int:
        """First line that is still here."""
        return self._files[0]

    @property
    def lines(self) -> int:
        """Number of committed lines."""
        return self._committed.lines

    def append(self, traces: Sequence[bytes]) -> LogPlace:
        """Write traces safely, after those that were written before; return the end, for `commit`.

        Raises:
            JobError: The disk is full or broken; the next `append` begins at the same place.
        """
        at = self._written
        if not traces:
            return at
        try:
            if at.size >= self._segment_bytes:
                at = self._begin_file(at)
            data = b"\n".join(traces) + b"\n"
            os.ftruncate(self._file.fileno(), at.size)
            write_all(self._file.fileno(), data)
            os.fdatasync(self._file.fileno())
        except OSError as error:
            raise self._failed(error) from error
        self._written = LogPlace(at.lines + len(traces), at.file, at.size + len(data))
        return self._written

    def commit(self, place: LogPlace) -> None:
        """Give the lines up to a place to the reader."""
        with self._lock:
            self._committed = place

    def read(self, line: int, most: int) -> list[bytes]:
        """Return committed lines, without their ends.

        Args:
            line: First line.
            most: Most lines; fewer are returned at the end of a file.

        Raises:
            UsageError: The line was deleted.
            JobError: A file cannot be read.
        """
        with self._lock:
            committed = self._committed
            files = list(self._files)
        if line >= committed.lines:
            return []
        if line < files[0]:
            raise UsageError(f"{self._folder}: line {line} was deleted; the log begins with line {files[0]} now")
        place = bisect_right(files, line) - 1
        begin = files[place]
        until = min(committed.lines, files[place + 1] if place + 1 < len(files) else committed.lines, line + most)
        try:
            with self._path(begin).open("rb") as file:
                if self._reading is not None and self._reading[0] == line and self._reading[1]:
                    file.seek(self._reading[1])
                else:
                    for _ in range(line - begin):
                        file.readline()
                found = [file.readline() for _ in range(until - line)]
                self._reading = (until, file.tell()) if until not in files else None
        except OSError as error:
            raise self._failed(error) from error
        return [one.rstrip(b"\n") for one in found]

    def read_again(self, line: int) -> bytes | None:
        """Return one committed line; None if it was deleted. It may be called on any thread.

        Raises:
            JobError: A file cannot be read.
        """
        with self._lock:
            files, end = list(self._files), self._committed.lines
        if not files[0] <= line < end:
            return None
        begin = files[bisect_right(files, line) - 1]
        try:
            with self._path(begin).open("rb") as file:
                return next(islice(file, line - begin, None), b"").rstrip(b"\n")
        except OSError as error:
            raise self._failed(error) from error

    def trim(self, line: int, before: float = math.inf) -> None:
        """Delete the files whose lines all come before a line, and that were written before a time.

        Args:
            line: First line that is still needed.
            before: Seconds since the epoch.
        """
        with self._lock:
            while len(self._files) > 1 and self._files[1] <= line:
                path = self._path(self._files[0])
                if path.exists() and path.stat().st_mtime > before:
                    return
                path.unlink(missing_ok=True)
                del self._files[0]

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _begin_file(self, at: LogPlace) -> LogPlace:
        made = self._path(at.lines).open("wb", buffering=0)
        sync_folder(self._folder)
        self._file.close()
        self._file = made
        with self._lock:
            if at.lines not in self._files:
                self._files.append(at.lines)
        self._written = LogPlace(at.lines, at.lines, 0)
        return self._written

    def _path(self, first: int) -> Path:
        return self._folder / f"{first:012d}{_SUFFIX}"

    def _failed(self, error: OSError) -> JobError:
        return JobError(f"the log of traces {self._folder} cannot be read or written: {error.strerror or error}")
