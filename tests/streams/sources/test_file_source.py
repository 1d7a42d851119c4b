"""A file of JSON lines as slices: what is a line, what is compressed, and up to where it was read before."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from gapwatch.scorers.errors import SourceError
from gapwatch.scorers.slices.slices import RecordSlice
from gapwatch.streams.sources import file_source
from gapwatch.streams.sources.file_source import FileSource

LINES = [b'{"n": %d, "x": "%s"}' % (n, b"y" * (n % 90)) for n in range(5_000)]
PLAIN = b"".join(line + b"\n" for line in LINES)
_SKIPPABLE = b"\x50\x2a\x4d\x18\x04\0\0\0abcd"
ZSTD = zstandard.compress


def streamed_zstd(data: bytes) -> bytes:
    """Compress as a program does that does not know the length beforehand."""
    compressor = zstandard.ZstdCompressor(write_checksum=True).compressobj()
    return compressor.compress(data) + compressor.flush()


#: Name of the file to how it holds PLAIN.
WRITTEN: dict[str, Callable[[bytes], bytes]] = {
    "t.jsonl": bytes,
    "t.jsonl.gz": gzip.compress,
    "two-members.gz": lambda data: gzip.compress(data[:70_001]) + gzip.compress(data[70_001:]),
    "compressed-by-content-not-by-name": gzip.compress,
    "t.jsonl.zst": ZSTD,
    "streamed.zst": streamed_zstd,
    "two-frames.zst": lambda data: ZSTD(data[:70_001]) + ZSTD(b"") + _SKIPPABLE + ZSTD(data[70_001:]),
    "skippable-frame-first.zst": lambda data: _SKIPPABLE + ZSTD(data),
    "zstd-by-content-not-by-name": ZSTD,
}


def slices(path: Path, start: int = 0, prefix: str | None = None) -> list[RecordSlice]:
    with FileSource(str(path)) as source:
        return list(source.slices(start, prefix))


def records(found: list[RecordSlice]) -> list[tuple[int, bytes]]:
    return [
        (offset, value)
        for piece in found
        for offset, value in zip(piece.offsets.tolist(), piece.values.to_pylist(), strict=True)
    ]


def file_of(folder: Path, content: bytes, name: str = "t.jsonl") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("name", WRITTEN)
def test_every_kind_of_file_holds_the_same_records(tmp_path: Path, name: str) -> None:
    found = slices(file_of(tmp_path, WRITTEN[name](PLAIN), name))

    assert records(found) == list(enumerate(LINES))
    assert [(piece.from_offset, piece.to_offset) for piece in found] == [(0, 4_000), (4_000, 5_000)]
    assert found[-1].prefix_sha256 == hashlib.sha256(PLAIN).hexdigest()
    assert {(piece.lane, piece.topic, piece.partition) for piece in found} == {(f"file:{name}", name, 0)}


def test_blocks_of_any_size_make_the_same_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = file_of(tmp_path, PLAIN)
    for size in (1_000, 4_097, 65_536):
        monkeypatch.setattr(file_source, "_READ_BYTES", size)

        assert records(slices(path)) == list(enumerate(LINES))


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"a\nb", [(0, b"a"), (1, b"b")]),
        (b"a\r\nb\r\n", [(0, b"a"), (1, b"b")]),
        (b"a\n\n  \n\t\r\nb\n", [(0, b"a"), (4, b"b")]),
        (b"\n\n", []),
        (b"", []),
        (b" a \n", [(0, b" a ")]),
        (b"a\x00b\n\xff\n", [(0, b"a\x00b"), (1, b"\xff")]),
        (b"a\rb\n", [(0, b"a\rb")]),
        (b"\xe2\x80\xa8\n\x85\n\x0c\n", [(0, b"\xe2\x80\xa8"), (1, b"\x85"), (2, b"\x0c")]),
    ],
)
def test_a_line_ends_at_a_newline_and_a_blank_one_keeps_its_number(
    tmp_path: Path, content: bytes, expected: list[tuple[int, bytes]]
) -> None:
    assert records(slices(file_of(tmp_path, content))) == expected


def test_what_was_read_before_is_digested_and_left_out(tmp_path: Path) -> None:
    for start in (1, 2_500, 4_000, 4_999):
        prefix = hashlib.sha256(b"".join(line + b"\n" for line in LINES[:start])).hexdigest()

        found = slices(file_of(tmp_path, PLAIN), start, prefix)

        assert records(found) == list(enumerate(LINES))[start:]
        assert found[-1].prefix_sha256 == hashlib.sha256(PLAIN).hexdigest()


@pytest.mark.parametrize("start", [1, 4_000, 5_000])
def test_a_file_that_begins_otherwise_is_refused_with_the_remedy(tmp_path: Path, start: int) -> None:
    path = file_of(tmp_path, PLAIN)
    other = hashlib.sha256(b"other").hexdigest()

    with pytest.raises(SourceError, match=f"first {start} lines differ from those .* with --source"):
        slices(path, start, other)


def test_a_file_that_is_shorter_than_it_was_is_refused_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(
        SourceError, match=r"an earlier run read 5001 lines of source .* has only 5000 now; .* --source"
    ):
        slices(file_of(tmp_path, PLAIN), 5_001, "")


def test_an_end_of_line_that_came_later_changes_nothing_of_what_was_read(tmp_path: Path) -> None:
    path = file_of(tmp_path, b"a\nb")
    before = slices(path)[-1].prefix_sha256
    path.write_bytes(b"a\nb\nc")

    assert records(slices(path, 2, before)) == [(2, b"c")]


def test_large_records_make_small_slices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_source, "SLICE_BYTES", 1_000)

    found = slices(file_of(tmp_path, b"".join(b"x" * size + b"\n" for size in (400, 400, 400, 3_000, 10))))

    assert [(piece.from_offset, piece.to_offset) for piece in found] == [(0, 2), (2, 3), (3, 4), (4, 5)]


def test_a_line_without_end_is_refused_before_it_fills_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_source, "_MAX_LINE_BYTES", 50_000)
    monkeypatch.setattr(file_source, "_READ_BYTES", 1_000)

    with pytest.raises(SourceError, match=r"a line is longer than 50000 bytes; is this a file of JSON lines\?"):
        slices(file_of(tmp_path, b"x" * 100_000))


def test_a_little_file_that_unpacks_to_much_is_unpacked_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_source, "_MAX_LINE_BYTES", 100 << 20)
    for name, content in {"bomb.zst": ZSTD(bytes(256 << 20)), "bomb.gz": gzip.compress(bytes(256 << 20), 1)}.items():
        with pytest.raises(SourceError, match="a line is longer than"):
            slices(file_of(tmp_path, content, name))


_BROKEN = {
    "cut-off.gz": gzip.compress(PLAIN)[:-4_000],
    "cut-off.zst": ZSTD(PLAIN)[:-4_000],
    "cut-off-by-a-byte.gz": gzip.compress(PLAIN)[:-1],
    "cut-off-by-a-byte.zst": streamed_zstd(PLAIN)[:-1],
    "cut-off-in-the-second-frame.zst": ZSTD(PLAIN) + ZSTD(PLAIN)[:-1],
    "only-the-first-bytes.gz": gzip.compress(PLAIN)[:5],
    "only-the-first-bytes.zst": ZSTD(PLAIN)[:5],
    "flipped.gz": gzip.compress(PLAIN)[:3_000] + bytes(500) + gzip.compress(PLAIN)[3_500:],
    "flipped.zst": streamed_zstd(PLAIN)[:3_000] + bytes(500) + streamed_zstd(PLAIN)[3_500:],
    "wrong-checksum.gz": gzip.compress(PLAIN)[:-8] + bytes(8),
    "wrong-checksum.zst": streamed_zstd(PLAIN)[:-4] + bytes(4),
    "rubbish-behind.gz": gzip.compress(PLAIN) + b"rubbish",
    "rubbish-behind.zst": ZSTD(PLAIN) + b"rubbish",
}


@pytest.mark.parametrize("name", _BROKEN)
def test_a_broken_compressed_file_is_told_to_be_so(tmp_path: Path, name: str) -> None:
    with pytest.raises(SourceError, match=r"is damaged or cut off: .*Replace the file by a complete one"):
        slices(file_of(tmp_path, _BROKEN[name], name))


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_a_name_that_promises_another_content_is_told_to_do_so(tmp_path: Path, suffix: str) -> None:
    path = file_of(tmp_path, PLAIN, f"t.jsonl{suffix}")

    with pytest.raises(SourceError, match=rf"is not a \w+ file, although its name ends in \{suffix}"):
        slices(path)


@pytest.mark.parametrize("name", ["t.jsonl", "t.gz", "t.zst"])
def test_an_empty_file_holds_nothing(tmp_path: Path, name: str) -> None:
    assert slices(file_of(tmp_path, b"", name)) == []


def test_a_file_of_another_kind_holds_lines_that_are_no_records(tmp_path: Path) -> None:
    found = records(slices(file_of(tmp_path, bz2.compress(PLAIN), "t.bz2")))

    assert found and not any(value.startswith(b"{") for _, value in found)


@pytest.mark.parametrize("written", [bytes, gzip.compress, ZSTD])
def test_standard_input_is_read_and_left_open(
    monkeypatch: pytest.MonkeyPatch, written: Callable[[bytes], bytes]
) -> None:
    stdin = io.TextIOWrapper(io.BufferedReader(io.BytesIO(written(PLAIN))))
    monkeypatch.setattr(sys, "stdin", stdin)

    with FileSource("-", "mine") as source:
        found = list(source.slices())

    assert records(found) == list(enumerate(LINES))
    assert {piece.topic for piece in found} == {"mine"}
    assert not stdin.buffer.closed
