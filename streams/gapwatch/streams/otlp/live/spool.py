"""Spool: append-only files of OTLP requests, each with its length and checksum, for a machine without Kafka.

A position is a number of bytes from the first request on. `00000000000000000000.otlp` begins at position 0, the next
file where that one ended; files whose requests are all assembled are deleted. A file ends torn if the process was
killed while it wrote: nobody was told that those requests are stored, so the end is cut off.

    length of the body, checksum of the rest, wall clock in ms, log clock in ms, kind; the body
"""

from __future__ import annotations

import logging
import os
import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from gapwatch.scorers.errors import JobError
from gapwatch.streams.otlp.live.safe_write import sync_folder, write_all
from gapwatch.streams.otlp.receiving.intake import OtlpRequest, Signal

log = logging.getLogger("gapwatch.otlp")

#: Bytes after which a new file begins. Larger: disk space is given back later.
SEGMENT_BYTES = 32 << 20
SUFFIX = ".otlp"
_HEAD, _CHECKED = struct.Struct("<II"), struct.Struct("<QQB")
_HEAD_BYTES = _HEAD.size + _CHECKED.size
_KINDS = (Signal.TRACES, Signal.LOGS)


@dataclass(frozen=True)
class SpooledRequest:
    """One request of the spool.

    Attributes:
        position: Where it begins.
        end: Where the next one begins.
        received_at: Time of arrival, seconds since the epoch.
        clock: Time of arrival by the clock of the log, in seconds: it stands still while no process receives.
        request: The request.
    """

    position: int
    end: int
    received_at: float
    clock: float
    request: OtlpRequest


class Spool:
    """Spool in a folder; one process writes it. `append` and `read` may run on two threads.

    Args:
        folder: Folder of its files; created if it does not exist.
        segment_bytes: Bytes after which a new file begins.

    Attributes:
        end: Position after the last request that is stored safely.
        last_clock: Clock of the last request, in seconds; 0.0 without one.

    Raises:
        JobError: The folder cannot be read or written.
    """

    def __init__(self, folder: Path, segment_bytes: int = SEGMENT_BYTES) -> None:
        self._folder, self._segment_bytes = folder, segment_bytes
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._starts = sorted(int(path.stem) for path in folder.glob(f"*{SUFFIX}"))
            if not self._starts:
                self._starts = [0]
                self._path(0).touch()
            self.last_clock, self.end = self._mend()
            self._file = self._path(self._starts[-1]).open("ab", buffering=0)
            sync_folder(folder)
        except OSError as error:
            raise _failed(folder, error) from error

    @property
    def first(self) -> int:
        """Position of the first request that is still here."""
        return self._starts[0]

    def append(self, requests: Sequence[OtlpRequest], received_at: float, clock: float) -> None:
        """Store requests safely: after this they survive a kill and a power cut.

        Args:
            requests: The requests, in order.
            received_at: Time of arrival, seconds since the epoch.
            clock: The same by the clock of the log.

        Raises:
            OSError: The disk is full or broken; none of the requests is stored.
        """
        parts: list[bytes] = []
        for one in requests:
            rest = _CHECKED.pack(round(received_at * 1000), round(clock * 1000), _kind(one))
            parts += [_HEAD.pack(len(one.body), zlib.crc32(one.body, zlib.crc32(rest))), rest, one.body]
        data = b"".join(parts)
        start = self._starts[-1]
        try:
            if self.end - start >= self._segment_bytes:
                self._begin_file()
                start = self._starts[-1]
            write_all(self._file.fileno(), data)
            os.fdatasync(self._file.fileno())
        except OSError:
            # What was written in part would be the beginning of the next request.
            os.ftruncate(self._file.fileno(), self.end - start)
            raise
        self.end += len(data)
        self.last_clock = clock

    def read(self, position: int, most_bytes: int) -> Iterator[SpooledRequest]:
        """Yield the requests from a position on, up to the end or about `most_bytes`.

        Raises:
            JobError: A file is missing or damaged.
        """
        end, used = self.end, 0
        try:
            while position < end and used < most_bytes:
                start = max((one for one in self._starts if one <= position), default=-1)
                if start < 0:
                    raise JobError(f"{self._folder}: the requests from position {position} on are missing")
                with self._path(start).open("rb") as file:
                    file.seek(position - start)
                    before = position
                    while position < end and used < most_bytes and (found := _next(file.read, position)) is not None:
                        used += found.end - position
                        position = found.end
                        yield found
                if position == before:
                    raise JobError(f"{self._path(start)}: the request at position {position} is damaged")
        except OSError as error:
            raise _failed(self._folder, error) from error

    def trim(self, position: int) -> None:
        """Delete the files whose requests all end before a position."""
        while len(self._starts) > 1 and self._starts[1] <= position:
            self._path(self._starts[0]).unlink(missing_ok=True)
            del self._starts[0]

    def close(self) -> None:
        """Close the files."""
        self._file.close()

    def _begin_file(self) -> None:
        made = self._path(self.end).open("ab", buffering=0)
        try:
            sync_folder(self._folder)
        except OSError:
            made.close()
            raise
        self._file.close()
        self._file = made
        self._starts = [*self._starts, self.end]

    def _mend(self) -> tuple[float, int]:
        """Cut off the torn end of the last file; return the clock of the last request and the end."""
        start = self._starts[-1]
        clock, end = 0.0, start
        with self._path(start).open("r+b") as file:
            while (found := _next(file.read, end)) is not None:
                clock, end = found.clock, found.end
            size = file.seek(0, os.SEEK_END)
            if size > end - start:
                log.warning(
                    "%s: the last %d bytes are cut off: they were being written when the process ended, and no "
                    "exporter was told that they are stored", self._path(start), size - (end - start),
                )  # fmt: skip
                file.truncate(end - start)
                os.fdatasync(file.fileno())
        if end == start and len(self._starts) > 1:
            before = self._starts[-2]
            with self._path(before).open("rb") as file:
                while (found := _next(file.read, before)) is not None:
                    clock, before = found.clock, found.end
        return clock, end

    def _path(self, start: int) -> Path:
        return self._folder / f"{start:020d}{SUFFIX}"


def _next(read: Callable[[int], bytes], position: int) -> SpooledRequest | None:
    """Return the next request of a file; None at its end, or if it is torn or damaged."""
    head = read(_HEAD_BYTES)
    if len(head) < _HEAD_BYTES:
        return None
    length, checksum = _HEAD.unpack_from(head)
    body = read(length)
    if len(body) < length or zlib.crc32(body, zlib.crc32(head[_HEAD.size :])) != checksum:
        return None
    wall, clock, kind = _CHECKED.unpack_from(head, _HEAD.size)
    request = OtlpRequest(_KINDS[kind >> 1], bool(kind & 1), body)
    return SpooledRequest(position, position + _HEAD_BYTES + length, wall / 1000, clock / 1000, request)


def _kind(request: OtlpRequest) -> int:
    return _KINDS.index(request.signal) << 1 | request.is_json


def _failed(folder: Path, error: OSError) -> JobError:
    return JobError(f"the spool {folder} cannot be read or written: {error.strerror or error}")
