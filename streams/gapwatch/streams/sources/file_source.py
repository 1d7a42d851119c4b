"""Records of a file of JSON lines, as slices: plain, .gz, .zst, or standard input."""

from __future__ import annotations

import gzip
import hashlib
import io
import sys
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Protocol

import numpy as np
import pyarrow as pa
import zstandard

from gapwatch.scorers.errors import SourceError
from gapwatch.scorers.slices.slices import RecordSlice

#: Records a slice. Fewer cost a commit more often; more hold more memory: 4,000 of 2.3 KB are 10 MB.
SLICE_RECORDS = 4_000
#: Bytes a slice at most, so that few large records do not make a large one; one record alone may be larger.
SLICE_BYTES = 16 << 20
_READ_BYTES = 1 << 20
#: A longer line is not looked at: records of over 10 MB are dead letters, and this much still fits into memory.
_MAX_LINE_BYTES = 512 << 20


@dataclass(frozen=True)
class FileProgress:
    """How much of a source is read: bytes as they lie on the disk, and how many there are (0: not known)."""

    done: int
    total: int


class FileSource:
    """One file, read from its beginning; offsets are line numbers from 0.

    Args:
        path: The file, or `-` for standard input.
        name: Name of the source; None for the file's name.

    Raises:
        SourceError: There is no such file, it is no file, or it cannot be read.
    """

    def __init__(self, path: str, name: str | None = None) -> None:
        self.path = path
        self.name = name or Path(path).name
        self.lane = f"file:{self.name}"
        self._raw, self._total = _open(path)
        self._digest = hashlib.sha256()

    def __enter__(self) -> FileSource:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file; standard input stays open."""
        if self.path != "-":
            self._raw.close()

    def progress(self) -> FileProgress:
        """Return how far the file is read."""
        try:
            return FileProgress(self._raw.tell(), self._total)
        except (OSError, ValueError):
            return FileProgress(0, 0)

    def slices(self, start: int = 0, prefix_sha256: str | None = None) -> Iterator[RecordSlice]:
        """Yield the records from line `start` on, in slices.

        Args:
            start: How many lines were read before; they are digested and left out.
            prefix_sha256: Digest of those lines as it was then; None to trust the file.

        Raises:
            SourceError: The file no longer begins as it did, is shorter than it was, or cannot be decompressed.
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
                f"{self.path}: {start} lines of it were read before, now it has {line}; "
                f"give the new file another name with --source"
            )
        if line == start:
            self._check_prefix(start, prefix_sha256)

    def _check_prefix(self, start: int, expected: str | None) -> None:
        if start and expected is not None and self._digest.hexdigest() != expected:
            raise SourceError(
                f"{self.path}: its first {start} lines are not those that were read before as source {self.name!r}; "
                f"give the new file another name with --source"
            )

    def _cut(self, lines: _Lines, line: int, first: int) -> Iterator[RecordSlice]:
        while first < lines.count:
            last = lines.slice_end(first)
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
            )
            first = last

    def _line_blocks(self) -> Iterator[_Lines]:
        """Yield blocks of whole lines, each as many as make a slice; of a broken file, what comes before the break."""
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
                raise SourceError(f"{self.path}: a line of over {_MAX_LINE_BYTES} bytes; is this a file of JSON lines?")
        rest = b"".join(pieces)
        if broken is not None:
            rest = rest[: rest.rfind(b"\n") + 1]
        if rest:
            # An end of line that is still to be written changes nothing of what was read.
            yield _Lines(rest if rest.endswith(b"\n") else rest + b"\n")
        if broken is not None:
            raise broken

    def _blocks(self) -> Iterator[bytes]:
        """Yield the content, decompressed, in blocks of bounded size."""
        try:
            stream = _decompressed(self.path, self._raw)
            while block := stream.read(_READ_BYTES):
                yield block
        except (OSError, EOFError, zlib.error, zstandard.ZstdError) as error:
            # Not wrapped around the caller: what it raises while it has a block does not come by here.
            raise SourceError(
                f"{self.path}: cannot be read on: {error}; put a whole file in its place and run again: "
                "what was read before is kept, and it goes on from there"
            ) from error


def _end_of_line(block: bytes, number: int) -> int:
    """Return one past the end of a line, counted from 1."""
    ends = np.flatnonzero(np.frombuffer(block, np.uint8) == 10)
    return int(ends[number - 1]) + 1


class _Lines:
    """A block of whole lines."""

    def __init__(self, block: bytes) -> None:
        self._block = block
        ends = np.flatnonzero(np.frombuffer(block, np.uint8) == 10) + 1
        if not len(ends) or ends[-1] != len(block):
            ends = np.append(ends, len(block))
        #: Where each line begins; one more for the end of the last.
        self._bounds = np.concatenate(([0], ends)).astype(np.int64)
        self.count = len(ends)

    def feed(self, digest: Any, lines: int, first: int = 0) -> None:
        """Digest some lines."""
        view = memoryview(self._block)
        digest.update(view[self._bounds[first] : self._bounds[first + lines]])

    def slice_end(self, first: int) -> int:
        """Return one past the last line of the slice that begins at `first`."""
        by_bytes = int(np.searchsorted(self._bounds, self._bounds[first] + SLICE_BYTES, side="right")) - 1
        return min(self.count, first + SLICE_RECORDS, max(first + 1, by_bytes))

    def filled(self, first: int, last: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """Return the lines in `[first, last)` that hold more than white space; a blank line is no record."""
        starts, ends = self._bounds[first:last], self._bounds[first + 1 : last + 1]
        # Only short lines can be blank ones in practice, and only those are looked at; a long blank one is a record.
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
            # The usual file: one pass over the bytes instead of an object a line.
            joined = self._block[first:last].replace(b"\n", b"")
            offsets = np.append(starts - first, last - first) - np.arange(len(lines) + 1)
            buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(joined)]
            return pa.Array.from_buffers(pa.binary(), len(lines), buffers)
        ends = ends - has_end
        ends = ends - ((ends > starts) & (data[np.maximum(ends - 1, 0)] == 13))
        return pa.array([self._block[s:e] for s, e in zip(starts.tolist(), ends.tolist(), strict=True)], pa.binary())


def _open(path: str) -> tuple[IO[bytes], int]:
    if path == "-":
        return sys.stdin.buffer, 0
    file = Path(path)
    if file.is_dir():
        raise SourceError(f"{path}: is a directory; name the files in it")
    try:
        return file.open("rb"), file.stat().st_size
    except FileNotFoundError:
        raise SourceError(f"{path}: no such file") from None
    except OSError as error:
        raise SourceError(f"{path}: cannot be opened: {error.strerror}") from error


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_KINDS = {".gz": "gzip", ".zst": "zstd"}


def _decompressed(path: str, raw: IO[bytes]) -> _Readable:
    """Return the content of a file by what it is; a name that promises a compressed one must not lie."""
    begin = raw.peek(len(_ZSTD)) if isinstance(raw, io.BufferedReader) else b""
    if begin.startswith(_GZIP):
        return gzip.GzipFile(fileobj=raw)
    # The frames of zstd that hold no data begin with other bytes.
    if begin.startswith(_ZSTD) or (path.endswith(".zst") and begin[1:4] == b"\x2a\x4d\x18"):
        return _ZstdReader(raw)
    suffix = Path(path).suffix
    if begin and suffix in _KINDS:
        raise SourceError(
            f"{path}: is no {_KINDS[suffix]} file, though its name says so; if it is plain, name it without {suffix}"
        )
    return raw


class _ZstdReader:
    """Decompresses zstd frame by frame, and sees where the last one is cut off; the library's own reader does not."""

    #: Compressed bytes at once. A block of 128 KB may take four bytes, so 2 KB become at most 64 MB.
    _BYTES = 2048

    def __init__(self, raw: IO[bytes]) -> None:
        self._raw = raw
        self._frame = zstandard.ZstdDecompressor().decompressobj()
        self._is_inside = False

    def read(self, size: int, /) -> bytes:
        """Return about `size` bytes; none at the end.

        Raises:
            EOFError: The file ends inside a frame.
            ZstdError: It is broken.
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
