"""Reads a file of JSON lines as slices: plain, .gz, .zst, or standard input."""

from __future__ import annotations

import gzip
import hashlib
import io
import sys
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Protocol

import numpy as np
import pyarrow as pa
import zstandard

from gapwatch.scorers.errors import SourceError
from gapwatch.scorers.slices.slices import RecordSlice

#: Records of a slice. Fewer records mean more commits, more records more memory: 4,000 of 2.3 KB are 10 MB.
SLICE_RECORDS = 4_000
#: Most bytes of a slice, so that a few large records do not make a large slice; a single record may be larger.
SLICE_BYTES = 16 << 20
_READ_BYTES = 1 << 20
#: Most bytes of a line. Records of over 10 MB are dead letters; this much still fits into memory.
_MAX_LINE_BYTES = 512 << 20


@dataclass(frozen=True)
class FileProgress:
    """Progress of reading a file.

    Attributes:
        done: Bytes read from the disk, compressed as they are stored.
        total: Size of the file in bytes; 0 if not known.
    """

    done: int
    total: int


class FileSource:
    """One file, read from its beginning; offsets are line numbers from 0.

    Args:
        path: The file, or `-` for standard input.
        name: Name of the source; None takes the file's name.
        lane: Lane of its records; None: `file:` and the name.

    Raises:
        SourceError: The file does not exist, is a directory, or cannot be opened.
    """

    def __init__(self, path: str, name: str | None = None, lane: str | None = None) -> None:
        self.path = path
        self.name = name or Path(path).name
        self.lane = lane or f"file:{self.name}"
        self._raw, self._total = open_source(path)
        self._digest = hashlib.sha256()

    def __enter__(self) -> FileSource:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; standard input stays open."""
        if self.path != "-":
            self._raw.close()

    def progress(self) -> FileProgress:
        """Return how much of the file is read."""
        try:
            return FileProgress(self._raw.tell(), self._total)
        except (OSError, ValueError):
            return FileProgress(0, 0)

    def slices(self, start: int = 0, prefix_sha256: str | None = None) -> Iterator[RecordSlice]:
        """Yield the records from line `start` on, in slices.

        Args:
            start: Number of lines that an earlier run has read; they are skipped.
            prefix_sha256: SHA-256 of those lines at that time, to detect a changed file; None skips the check.

        Raises:
            SourceError: The first lines have changed, the file became shorter, or it cannot be decompressed.
        """
        line = 0
        for lines in self._line_blocks():
            if line + lines.count <= start:
                lines.feed(self._digest, lines.count)
                line += lines.count
                continue
            first = max(0, start - line)
            if first:
                lines.feed(self._digest, first)
            if line <= start:
                self._check_prefix(start, prefix_sha256)
            yield from self._cut(lines, line, first)
            line += lines.count
        if line < start:
            raise SourceError(
                f"{self.path}: an earlier run read {start} lines of source {self.name!r}, but the file has only {line} "
                f"now; if it is another file, give it another name with --source"
            )
        if line == start:
            self._check_prefix(start, prefix_sha256)

    def _check_prefix(self, start: int, expected: str | None) -> None:
        if start and expected is not None and self._digest.hexdigest() != expected:
            raise SourceError(
                f"{self.path}: the first {start} lines differ from those that an earlier run read as source "
                f"{self.name!r}; if it is another file, give it another name with --source"
            )

    def _cut(self, lines: _Lines, line: int, first: int) -> Iterator[RecordSlice]:
        while first < lines.count:
            last = lines.slice_end(first)
            before = self._digest.copy()
            lines.feed(self._digest, last - first, first)
            keep = lines.filled(first, last)
            yield RecordSlice(
                lane=self.lane,
                topic=self.name,
                partition=0,
                from_offset=line + first,
                to_offset=line + last,
                offsets=line + keep,
                values=lines.values(keep),
                prefix_sha256=self._digest.hexdigest(),
                digest_at=partial(lines.digest, before, first, line),
            )
            first = last

    def _line_blocks(self) -> Iterator[_Lines]:
        """Yield blocks of whole lines, one slice each; of a broken file, all lines before the break."""
        blocks = self._blocks()
        broken: SourceError | None = None
        pieces: list[bytes] = []
        lines = size = 0
        while broken is None:
            try:
                piece = next(blocks, b"")
            except SourceError as error:
                broken, piece = error, b""
            if not piece:
                break
            pieces.append(piece)
            lines += piece.count(b"\n")
            size += len(piece)
            while lines >= SLICE_RECORDS or (lines and size >= SLICE_BYTES):
                block = b"".join(pieces)
                end = _end_of_line(block, min(lines, SLICE_RECORDS))
                pieces = [block[end:]]
                lines, size = pieces[0].count(b"\n"), len(pieces[0])
                yield _Lines(block[:end])
            if size > _MAX_LINE_BYTES:
                raise SourceError(
                    f"{self.path}: a line is longer than {_MAX_LINE_BYTES} bytes; is this a file of JSON lines?"
                )
        rest = b"".join(pieces)
        if broken is not None:
            rest = rest[: rest.rfind(b"\n") + 1]
        if rest:
            # A missing last line end counts as written: the digest must not change when it is added later.
            yield _Lines(rest if rest.endswith(b"\n") else rest + b"\n")
        if broken is not None:
            raise broken

    def _blocks(self) -> Iterator[bytes]:
        """Yield the decompressed content in blocks of at most `_READ_BYTES`."""
        try:
            stream = decompressed(self.path, self._raw)
            while block := stream.read(_READ_BYTES):
                yield block
        except (OSError, EOFError, zlib.error, zstandard.ZstdError) as error:
            # Only errors of reading arrive here; those of the caller do not pass through a generator.
            raise SourceError(
                f"{self.path}: the file is damaged or cut off: {error}; the lines before are stored. Replace the file "
                "by a complete one and run the command again: it continues from there"
            ) from error


def _end_of_line(block: bytes, number: int) -> int:
    """Return the position after a line's end; lines are counted from 1."""
    ends = np.flatnonzero(np.frombuffer(block, np.uint8) == 10)
    return int(ends[number - 1]) + 1


class _Lines:
    """A block of whole lines."""

    def __init__(self, block: bytes) -> None:
        self._block = block
        ends = np.flatnonzero(np.frombuffer(block, np.uint8) == 10) + 1
        if not len(ends) or ends[-1] != len(block):
            ends = np.append(ends, len(block))
        #: Beginning of each line, and the end of the last.
        self._bounds = np.concatenate(([0], ends)).astype(np.int64)
        self.count = len(ends)

    def feed(self, digest: Any, lines: int, first: int = 0) -> None:
        """Add lines to a digest.

        Args:
            digest: Of `hashlib`.
            lines: Number of lines.
            first: First line.
        """
        view = memoryview(self._block)
        digest.update(view[self._bounds[first] : self._bounds[first + lines]])

    def digest(self, before: Any, first: int, line: int, offset: int) -> str:
        """Return the digest of a source up to an offset.

        Args:
            before: Digest of `hashlib` up to the line `first`.
            first: Number of that line in the block.
            line: Offset of the first line of the block.
            offset: Offset in the block, exclusive.
        """
        digest = before.copy()
        self.feed(digest, offset - line - first, first)
        return str(digest.hexdigest())

    def slice_end(self, first: int) -> int:
        """Return one past the last line of the slice that begins at `first`."""
        by_bytes = int(np.searchsorted(self._bounds, self._bounds[first] + SLICE_BYTES, side="right")) - 1
        return min(self.count, first + SLICE_RECORDS, max(first + 1, by_bytes))

    def filled(self, first: int, last: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """Return the lines in `[first, last)` with more than white space; a blank line is not a record."""
        starts, ends = self._bounds[first:last], self._bounds[first + 1 : last + 1]
        # Only lines under 256 bytes are tested; a longer line of white space counts as a record.
        short = np.flatnonzero(ends - starts < 256)
        blank = [i for i in short.tolist() if not self._block[starts[i] : ends[i]].strip(b" \t\r\n")]
        keep = np.arange(first, last)
        return np.delete(keep, blank) if blank else keep

    def values(self, lines: np.ndarray[tuple[int], np.dtype[np.int64]]) -> pa.BinaryArray:
        """Return lines without their line ends."""
        starts, ends = self._bounds[lines], self._bounds[lines + 1]
        data = np.frombuffer(self._block, np.uint8)
        has_end = data[ends - 1] == 10
        has_return = data[np.maximum(ends - 2, 0)] == 13
        first, last = (int(starts[0]), int(ends[-1])) if len(lines) else (0, 0)
        if has_end.all() and not has_return.any() and int((ends - starts).sum()) == last - first:
            # The usual file: one pass over the bytes instead of one object per line.
            joined = self._block[first:last].replace(b"\n", b"")
            offsets = np.append(starts - first, last - first) - np.arange(len(lines) + 1)
            buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(joined)]
            return pa.Array.from_buffers(pa.binary(), len(lines), buffers)
        ends = ends - has_end
        ends = ends - ((ends > starts) & (data[np.maximum(ends - 1, 0)] == 13))
        return pa.array([self._block[s:e] for s, e in zip(starts.tolist(), ends.tolist(), strict=True)], pa.binary())


def open_source(path: str) -> tuple[IO[bytes], int]:
    """Open a file, or standard input for `-`; return it with its size in bytes, 0 if that is not known.

    Raises:
        SourceError: The file does not exist, is a directory, or cannot be opened.
    """
    if path == "-":
        return sys.stdin.buffer, 0
    file = Path(path)
    if file.is_dir():
        raise SourceError(f"{path}: is a directory; give the files in it")
    try:
        return file.open("rb"), file.stat().st_size
    except FileNotFoundError:
        raise SourceError(f"{path}: no such file") from None
    except OSError as error:
        raise SourceError(f"{path}: cannot be opened: {error.strerror}") from error


class ByteStream(Protocol):
    """Source of bytes."""

    def read(self, size: int, /) -> bytes:
        """Return about `size` bytes; an empty text at the end."""
        ...


_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_KINDS = {".gz": "gzip", ".zst": "zstd"}


def decompressed(path: str, raw: IO[bytes]) -> ByteStream:
    """Return the decompressed content of a file, by its first bytes.

    Raises:
        SourceError: The name says .gz or .zst, but the content is something else.
    """
    begin = raw.peek(len(_ZSTD)) if isinstance(raw, io.BufferedReader) else b""
    if begin.startswith(_GZIP):
        return gzip.GzipFile(fileobj=raw)
    # The frames of zstd that hold no data begin with other bytes.
    if begin.startswith(_ZSTD) or (path.endswith(".zst") and begin[1:4] == b"\x2a\x4d\x18"):
        return _ZstdReader(raw)
    suffix = Path(path).suffix
    if begin and suffix in _KINDS:
        raise SourceError(
            f"{path}: is not a {_KINDS[suffix]} file, although its name ends in {suffix}; if it is not compressed, "
            f"rename it"
        )
    return raw


class _ZstdReader:
    """Decompresses zstd frame by frame, and detects a cut-off last frame, which the library's own reader does not."""

    #: Compressed bytes read at once. Four bytes may hold a block of 128 KB, so 2 KB become at most 64 MB.
    _BYTES = 2048

    def __init__(self, raw: IO[bytes]) -> None:
        self._raw = raw
        self._frame = zstandard.ZstdDecompressor().decompressobj()
        self._is_inside = False

    def read(self, size: int, /) -> bytes:
        """Return about `size` bytes; an empty text at the end.

        Raises:
            EOFError: The file ends inside a frame.
            ZstdError: A frame is damaged.
        """
        pieces: list[bytes] = []
        while size > 0:
            data = self._raw.read(self._BYTES)
            if not data:
                if self._is_inside:
                    raise EOFError("the compressed file is cut off")
                break
            while data:
                pieces.append(self._frame.decompress(data))
                size -= len(pieces[-1])
                self._is_inside, data = not self._frame.eof, self._frame.unused_data
                if self._frame.eof:
                    self._frame = zstandard.ZstdDecompressor().decompressobj()
        return b"".join(pieces)
