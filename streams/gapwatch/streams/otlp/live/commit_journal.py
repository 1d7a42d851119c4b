"""Journal of the assembly's commits: how far the spool is read, what is still open, and the ledger of spans.

Each line is one commit with a checksum. The last whole line is the truth: the traces that were written after it are cut
off, and the requests from its `held` on are read again. The ids of closed traces of the commits since then say which of
their spans are done.
"""

from __future__ import annotations

import contextlib
import os
import zlib
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import orjson

from gapwatch.scorers.errors import JobError, UsageError
from gapwatch.streams.otlp.live.safe_write import sync_folder, write_all
from gapwatch.streams.otlp.live.traces_log import LogPlace

#: Bytes after which the journal is written anew, without the commits that no start needs.
REWRITE_BYTES = 16 << 20
#: Closed traces that a start knows, at least: a span that comes for one of them is late, and opens no second trace.
REMEMBERED_TRACES = 100_000


@dataclass(frozen=True)
class AssemblyCommit:
    """State of the assembly after a commit.

    Attributes:
        number: Number of the commit, from 1 on; 0 before the first.
        at: Time, seconds since the epoch.
        read: Position up to which the spool is read.
        held: Position of the first request of which something is still pending; at most `read`.
        traces: End of the written traces.
        counts: Spans and log records by state since the first start, `pending` included.
        closed: Ids of the traces that this commit closed, in hexadecimal.
    """

    number: int = 0
    at: float = 0.0
    read: int = 0
    held: int = 0
    traces: LogPlace = field(default_factory=LogPlace)
    counts: Mapping[str, int] = field(default_factory=dict)
    closed: Sequence[str] = ()

    def line(self) -> bytes:
        """Return the line of the journal."""
        place = self.traces
        text = orjson.dumps(
            {
                "number": self.number, "at": self.at, "read": self.read, "held": self.held,
                "traces": [place.lines, place.file, place.size], "counts": dict(self.counts),
                "closed": list(self.closed),
            }
        )  # fmt: skip
        return b"%08x %s\n" % (zlib.crc32(text), text)


class CommitJournal:
    """Journal in a file; one thread writes it.

    Args:
        path: The file; created if it does not exist.
        rewrite_bytes: Bytes after which it is written anew.

    Attributes:
        last: The last commit.
        recent: Commits that a start needs, the last one included.

    Raises:
        JobError: The file cannot be read or written.
        UsageError: The file is damaged before its end.
    """

    def __init__(self, path: Path, rewrite_bytes: int = REWRITE_BYTES) -> None:
        self._path, self._rewrite_bytes = path, rewrite_bytes
        self.last = AssemblyCommit()
        self.recent: deque[AssemblyCommit] = deque()
        self._remembered = 0
        try:
            self._size = self._load(path.read_bytes() if path.exists() else b"")
            self._file = path.open("ab", buffering=0)
            os.ftruncate(self._file.fileno(), self._size)
            os.fsync(self._file.fileno())
            sync_folder(path.parent)
        except OSError as error:
            raise self._failed(error) from error

    def closed_ids(self) -> list[str]:
        """Return the ids of the traces that were closed lately, the oldest first."""
        return [one for commit in self.recent for one in commit.closed]

    def append(self, commit: AssemblyCommit) -> None:
        """Write a commit safely.

        Raises:
            JobError: The disk is full or broken; the commit does not hold.
        """
        line = commit.line()
        try:
            if self._size > self._rewrite_bytes:
                self._rewrite()
            try:
                write_all(self._file.fileno(), line)
                os.fdatasync(self._file.fileno())
            except OSError:
                with contextlib.suppress(OSError):
                    os.ftruncate(self._file.fileno(), self._size)
                raise
        except OSError as error:
            raise self._failed(error) from error
        self._size += len(line)
        self._note(commit)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _load(self, data: bytes) -> int:
        """Read the lines of a file; return the size of the whole ones."""
        size = 0
        while (end := data.find(b"\n", size)) >= 0:
            line = data[size:end]
            if not _is_whole(line):
                if data.find(b"\n", end + 1) >= 0:
                    raise UsageError(f"{self._path} is damaged at byte {size}; restore the folder from a backup")
                break
            held = orjson.loads(line[9:])
            self._note(AssemblyCommit(**(held | {"traces": LogPlace(*held["traces"])})))
            size = end + 1
        return size

    def _note(self, commit: AssemblyCommit) -> None:
        self.last = commit
        self.recent.append(commit)
        self._remembered += len(commit.closed)
        while len(self.recent) > 1:
            first = self.recent[0]
            if first.read > commit.held or self._remembered - len(first.closed) < REMEMBERED_TRACES:
                break
            self._remembered -= len(first.closed)
            self.recent.popleft()

    def _rewrite(self) -> None:
        """Replace the file by one with the commits that a start needs."""
        data = b"".join(commit.line() for commit in self.recent)
        made = self._path.with_name(self._path.name + ".new")
        with made.open("wb", buffering=0) as file:
            write_all(file.fileno(), data)
            os.fdatasync(file.fileno())
        made.replace(self._path)
        sync_folder(self._path.parent)
        self._file.close()
        self._file = self._path.open("ab", buffering=0)
        self._size = len(data)

    def _failed(self, error: OSError) -> JobError:
        return JobError(f"the journal {self._path} cannot be read or written: {error.strerror or error}")


def _is_whole(line: bytes) -> bool:
    try:
        return len(line) > 9 and int(line[:8], 16) == zlib.crc32(line[9:])
    except ValueError:
        return False
