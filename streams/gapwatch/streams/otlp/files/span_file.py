"""Reads files of spans: requests as captured, what a Collector wrote, values of a topic, what others exported."""

from __future__ import annotations

import base64
import binascii
import gzip
import io
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any

import orjson
import zstandard

from gapwatch.scorers.errors import SourceError
from gapwatch.streams.otlp.decoding.raw_items import UndecodableError, is_json
from gapwatch.streams.otlp.files.exports import export_requests
from gapwatch.streams.sources.file_source import ByteStream, decompressed, open_source

#: Bytes at the beginning of a file by which it is recognised.
_HEAD_BYTES = 64 << 10
#: Bytes of a line or a message, at most.
_MOST_BYTES = 512 << 20
_READ_BYTES = 1 << 20
_ZSTD = b"\x28\xb5\x2f\xfd"
#: Keys at the beginning of a long line by which an exported trace is recognised.
_EXPORT_MARKS = (
    b'"observations":',
    b'"projectId":',
    b'"trace_metadata":',
    b'"request_metadata":',
    b'"context.trace_id":',
)


@dataclass(frozen=True, slots=True)
class FileRequest:
    """Request in a file.

    Attributes:
        signal: `traces` or `logs`.
        is_json: Whether the body is JSON.
        body: The message.
        at: Time of arrival, seconds, by the clock of the file; None if the file does not say it.
        fault: Why a line holds no request; then the body is empty.
    """

    signal: str
    is_json: bool
    body: bytes
    at: float | None = None
    fault: str = ""


def is_span_file(path: str) -> bool:
    """Return whether a file holds spans rather than whole traces, by its beginning; False for standard input.

    Raises:
        SourceError: The file is missing, a directory, or cannot be opened.
    """
    if path == "-":
        return False
    raw, _ = open_source(path)
    with raw:
        try:
            head = _opened(path, raw).read(_HEAD_BYTES)
        except (OSError, EOFError, zlib.error, zstandard.ZstdError, SourceError):
            return False
    return _form(head) is not None


def read_span_file(path: str) -> Iterator[FileRequest]:
    """Yield the requests of a file of spans, in their order.

    Forms: JSON lines of a Collector's file exporter (`resourceSpans`, `resourceLogs`); its protobuf form and its
    compressed forms, each message behind four bytes of its size; exported traces of Langfuse, Phoenix and MLflow, one a
    line; JSON lines with `body` or `value` in base64, beside `path` and `headers` of an HTTP request or the `topic` of
    a record. Plain, gzip or zstd.

    Raises:
        SourceError: The file is missing, holds no spans, or is damaged.
    """
    raw, _ = open_source(path)
    with raw:
        try:
            stream = _opened(path, raw)
            head = stream.read(_HEAD_BYTES)
            form = _form(head)
            if form is None:
                raise SourceError(
                    f"{path}: holds no spans; give requests as JSON lines with `body` in base64, a file of the "
                    "Collector's file exporter, or values of a topic as JSON lines with `value` in base64"
                )
            if form == "messages":
                yield from _messages(path, head, stream)
            else:
                for number, line in enumerate(_lines(path, head, stream), 1):
                    if line.strip():
                        yield from _requests(path, number, line)
        except (OSError, EOFError, zlib.error, zstandard.ZstdError) as error:
            raise SourceError(f"{path}: the file is damaged or cut off: {error}") from error


def _opened(path: str, raw: IO[bytes]) -> ByteStream:
    """Return the content of a file; a Collector compresses each message for itself, behind its size."""
    begin = raw.peek(8) if isinstance(raw, io.BufferedReader) else b""
    return raw if begin[4:8] == _ZSTD else decompressed(path, raw)


def _form(head: bytes) -> str | None:
    """Return `lines` or `messages`; None for a file that holds no spans."""
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if text.startswith(b"{"):
        line = text.partition(b"\n")[0]
        if b'"resourceSpans"' in line[:2_000] or b'"resourceLogs"' in line[:2_000]:
            return "lines"
        try:
            first = orjson.loads(line)
        except orjson.JSONDecodeError:
            # A line that is longer than the head: the keys of a capture come before its body.
            if any(mark in line[:4_000] for mark in _EXPORT_MARKS):
                return "lines"
            has_body = b'"body":' in line[:4_000] or b'"value":' in line[:4_000]
            has_place = b'"path":' in line[:4_000] or b'"topic":' in line[:4_000]
            return "lines" if has_body and has_place and b'"trace_id"' not in line[:4_000] else None
        if isinstance(first, dict) and "spans" not in first and export_requests(first) is not None:
            return "lines"
        is_span_line = isinstance(first, dict) and any(isinstance(first.get(key), str) for key in ("body", "value"))
        return "lines" if is_span_line and ("path" in first or "topic" in first) else None
    # The size of the first message, then the message, which begins with its first resource, or as zstd does.
    if len(head) > 8 and (head[4] == 0x0A or head[4:8] == _ZSTD) and 0 < int.from_bytes(head[:4], "big") < _MOST_BYTES:
        return "messages"
    return None


def _lines(path: str, head: bytes, stream: ByteStream) -> Iterator[bytes]:
    pieces = [head]
    size = len(head)
    while pieces:
        block = b"".join(pieces)
        *lines, rest = block.split(b"\n")
        yield from lines
        more = stream.read(_READ_BYTES)
        if not more:
            if rest:
                yield rest
            return
        pieces = [rest, more]
        size = len(rest)
        if size > _MOST_BYTES:
            raise SourceError(f"{path}: a line is longer than {_MOST_BYTES} bytes; is this a file of JSON lines?")


def _messages(path: str, head: bytes, stream: ByteStream) -> Iterator[FileRequest]:
    buffer = head
    while True:
        while len(buffer) < 4 or len(buffer) < 4 + int.from_bytes(buffer[:4], "big"):
            more = stream.read(_READ_BYTES)
            if not more:
                if buffer:
                    raise SourceError(f"{path}: the last message is cut off")
                return
            buffer += more
            if len(buffer) > _MOST_BYTES:
                raise SourceError(f"{path}: a message is longer than {_MOST_BYTES} bytes")
        size = int.from_bytes(buffer[:4], "big")
        yield _message(path, buffer[4 : 4 + size])
        buffer = buffer[4 + size :]


def _message(path: str, message: bytes) -> FileRequest:
    if message.startswith(_ZSTD):
        message = zstandard.ZstdDecompressor().stream_reader(message).read(_MOST_BYTES)
        if len(message) == _MOST_BYTES:
            raise SourceError(f"{path}: a message is longer than {_MOST_BYTES} bytes")
    if is_json(message):
        return FileRequest("logs" if message.startswith(b'{"resourceLogs"') else "traces", True, message)
    # Imported here: a base installation, without the extra otlp, tells files of spans from others, too.
    from gapwatch.streams.otlp.decoding.splitting import split

    try:
        parts = split(message, is_json=False, is_logs=False)
    except UndecodableError:
        return FileRequest("traces", False, message)
    # Both signals have one form down to the item; only a span has a text, its trace id, as its first field.
    is_traces = bool(parts.spans) or any(dead.trace_id for dead in parts.dead)
    return FileRequest("traces" if is_traces else "logs", False, message)


def _requests(path: str, number: int, line: bytes) -> Iterator[FileRequest]:
    text = line.lstrip(b"\xef\xbb\xbf \t\r")
    if text.startswith((b'{"resourceSpans"', b'{"resourceLogs"')):
        yield FileRequest("logs" if text.startswith(b'{"resourceLogs"') else "traces", True, text)
        return
    try:
        record = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        yield _faulty(f"{path}, line {number}: is no JSON: {error}")
        return
    if not isinstance(record, dict):
        yield _faulty(f"{path}, line {number}: is no JSON object")
        return
    if "resourceSpans" in record or "resourceLogs" in record:
        yield FileRequest("logs" if "resourceLogs" in record else "traces", True, text)
        return
    exported = None if "body" in record or "value" in record else export_requests(record)
    if exported is not None:
        for request in exported:
            yield FileRequest("traces", True, request)
        return
    body = record.get("body", record.get("value"))
    if not isinstance(body, str):
        yield _faulty(f"{path}, line {number}: has neither `body` nor `value` in base64")
        return
    try:
        content = base64.b64decode(body, validate=True)
    except (binascii.Error, ValueError):
        yield _faulty(f"{path}, line {number}: `body` or `value` is no base64")
        return
    place = str(record.get("path") or record.get("topic") or "")
    if "metrics" in place:
        return
    yield _request(path, number, record, content, place)


def _faulty(fault: str) -> FileRequest:
    return FileRequest("traces", True, b"", fault=fault)


def _request(path: str, number: int, record: dict[str, Any], content: bytes, place: str) -> FileRequest:
    headers = record.get("headers")
    named = {str(key).lower(): str(value) for key, value in headers.items()} if isinstance(headers, dict) else {}
    if named.get("content-encoding") == "gzip":
        try:
            content = gzip.decompress(content)
        except (OSError, EOFError, zlib.error) as error:
            return _faulty(f"{path}, line {number}: the body is no gzip: {error}")
    of_json = "json" in named["content-type"] if "content-type" in named else is_json(content)
    at = record.get("at")
    if not isinstance(at, int | float):
        stamp = record.get("timestamp_ms")
        at = stamp / 1_000 if isinstance(stamp, int | float) else None
    return FileRequest("logs" if "logs" in place else "traces", of_json, content, at)
