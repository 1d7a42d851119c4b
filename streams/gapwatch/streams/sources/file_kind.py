"""Looks at the head of a file of traces before it is read: is there any trace in it, and if not, what is it?"""

from __future__ import annotations

import csv
import json
import shlex
import zlib
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import zstandard

from gapwatch.scorers.errors import JobError
from gapwatch.scorers.printable import shown
from gapwatch.streams.sources.file_source import decompressed, open_source

#: Decompressed bytes that are looked at; 400 traces of usual size.
HEAD_BYTES = 1 << 20
#: Bytes that standard input lets one see without taking them.
_PEEK_BYTES = 8192

#: First bytes of files that are no text, and what to call them.
_MAGIC = {
    b"PAR1": "a Parquet file",
    b"PK\x03\x04": "a zip archive",
    b"BZh": "compressed by bzip2",
    b"\xfd7zXZ": "compressed by xz",
    b"SQLite format 3": "an SQLite database",
    b"%PDF": "a PDF",
}
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
#: What a file of traces is, for those who have another.
_WANTED = "write each trace as one JSON object on one line, with trace_id, pipeline and spans"
#: Keys under which programs wrap a list of objects.
_WRAPPERS = ("data", "traces", "items", "records", "results", "rows")


@dataclass(frozen=True)
class FileHead:
    """Result of looking at the head of a file.

    Attributes:
        path: The file, or `-`.
        is_whole: True if the head is the whole file.
        pipelines: Number of traces by pipeline.
        kind: What the file is and what to do, if the head holds no trace; else empty.
    """

    path: str
    is_whole: bool
    pipelines: Mapping[str, int] = field(default_factory=dict)
    kind: str = ""


def check_files(paths: Sequence[str], pipelines: Collection[str] | None = None) -> list[str]:
    """Refuse files of which not one holds a trace that can be used, before anything is stored or sent.

    Args:
        paths: The files; of `-` only what can be seen without taking it.
        pipelines: Pipelines of the portfolios; None: every pipeline will do.

    Returns:
        A sentence for each file that is of no use beside others that are.

    Raises:
        SourceError: A file is missing or cannot be opened.
        JobError: No file holds a trace, or all traces are of other pipelines.
    """
    heads = [read_head(path) for path in dict.fromkeys(paths)]
    faults = {head.path: fault for head in heads if (fault := _fault(head, pipelines))}
    if not faults or len(faults) < len(heads):
        return list(faults.values())
    first, more = next(iter(faults.values())), len(faults) - 1
    also = f" ({more} more files of no use)" if more > 1 else " (1 more file of no use)" if more else ""
    raise JobError(f"{first}{also}")


def read_head(path: str) -> FileHead:
    """Return what the head of a file holds.

    Raises:
        SourceError: The file is missing, a directory, or cannot be opened; or it is not what its suffix says.
    """
    place = Path(path)
    if path != "-" and place.exists() and not place.is_file() and not place.is_dir():
        return FileHead(path, False)  # a pipe: what is read here would be missing later
    raw, _ = open_source(path)
    if path == "-":
        peek = getattr(raw, "peek", None)
        head = peek(_PEEK_BYTES) if peek is not None else b""
        # Compressed input, and input that has not arrived yet, is judged when it is read.
        return _judge(path, head, is_whole=False) if head[:1] in (b"[", b"{") or b"," in head else FileHead(path, False)
    with raw:
        begin = getattr(raw, "peek", lambda size: b"")(16)[:16]
        try:
            head = decompressed(path, raw).read(HEAD_BYTES + 1)
        except (OSError, EOFError, zlib.error, zstandard.ZstdError):
            return FileHead(path, False)  # damaged: reading it says where
    for magic, name in _MAGIC.items():
        if begin.startswith(magic):
            return FileHead(path, True, kind=f"{path} is {name}; {_WANTED}")
    return _judge(path, head[:HEAD_BYTES], is_whole=len(head) <= HEAD_BYTES)


def _fault(head: FileHead, pipelines: Collection[str] | None) -> str:
    """Return why a file is of no use; empty if it is, or if its head does not show it."""
    if head.kind or pipelines is None or not head.is_whole or any(name in pipelines for name in head.pipelines):
        return head.kind
    return foreign_text(f"every trace in {head.path}", head.pipelines, pipelines)


def foreign_text(what: str, seen: Mapping[str, int], pipelines: Collection[str]) -> str:
    """Return a sentence for traces that are all of pipelines without a portfolio."""
    names = ", ".join(f"{shown(name, 60)!r} ({n:,})" for name, n in sorted(seen.items(), key=lambda one: -one[1])[:5])
    own = ", ".join(f"{shown(name, 60)!r}" for name in sorted(pipelines))
    return (
        f"{what} is of another pipeline than the portfolio's: the traces name {names}, the portfolio names {own}; "
        "correct `pipeline` in the portfolio, or give the portfolio of that pipeline"
    )


def _judge(path: str, head: bytes, is_whole: bool) -> FileHead:
    counted: Counter[str] = Counter()
    for line in head.splitlines() if is_whole else head.splitlines()[:-1]:
        record = _object(line.removeprefix(b"\xef\xbb\xbf"))
        if record is not None and "trace_id" in record:
            counted[str(record.get("pipeline"))] += 1
    if counted:
        return FileHead(path, is_whole, counted)
    kind = _kind(path, head, is_whole)
    return FileHead(path, is_whole, kind=kind and f"{path} {kind}")


def _kind(path: str, head: bytes, is_whole: bool) -> str:
    """Return what a file without a trace is, and what to do; empty if the head does not show it."""
    if not head.strip():
        return "is empty: it holds no record; write traces into it first" if is_whole else ""
    if head.startswith(_UTF16) or head[:200].count(0) > len(head[:200]) // 4:
        if head.startswith(_UTF16) or b"{\x00" in head[:200] or b"\x00{" in head[:200]:
            return f"is text in UTF-16; turn it into UTF-8: iconv -f UTF-16 -t UTF-8 {_in_shell(path)}"
        return f"is a binary file; {_WANTED}"
    try:
        text = head.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if error.start < len(head) - 4:
            return f"is not text in UTF-8; {_WANTED}"
        text = head[: error.start].decode("utf-8-sig")
    if "\x00" in text:
        return f"is a binary file; {_WANTED}"
    text = text.lstrip()
    return _kind_of_json(path, text, is_whole) if text[0] in "[{" else _kind_of_text(text, is_whole)


def _kind_of_json(path: str, text: str, is_whole: bool) -> str:
    if "resourceSpans" in text[:2_000] or "resource_spans" in text[:2_000]:
        return "is OTLP JSON of OpenTelemetry; give it as a file with one request a line, as a Collector writes it"
    if text[0] == "[":
        return f"is a JSON array, not one object a line; turn it into lines: jq -c '.[]' {_in_shell(path)}"
    first = text.partition("\n")[0].rstrip()
    record = _object(first.encode())
    if record is not None:
        return _kind_of_object(path, record) if is_whole else ""
    try:
        value, _ = json.JSONDecoder().raw_decode(text)
        is_pretty = isinstance(value, dict)
    except ValueError:
        is_pretty = first == "{"
    except RecursionError:
        is_pretty = False
    if not is_pretty:
        return f"begins like JSON, but its first line is not a whole JSON object; {_WANTED}" if is_whole else ""
    return f"is JSON spread over several lines, not one object a line; turn it into lines: jq -c . {_in_shell(path)}"


def _kind_of_object(path: str, record: dict[str, Any]) -> str:
    for key in _WRAPPERS:
        if isinstance(record.get(key), list) and record[key] and isinstance(record[key][0], dict):
            return (
                f"is one JSON object with a list under {key!r}; turn the list into lines: jq -c '.{key}[]' "
                f"{_in_shell(path)}"
            )
    return f"holds JSON objects that are no traces (they have {_keys(record)}); {_WANTED}"


def _keys(record: dict[str, Any]) -> str:
    return ", ".join(shown(key, 30) for key in list(record)[:8]) or "no keys"


def _kind_of_text(text: str, is_whole: bool) -> str:
    if text.startswith("gapwatch:"):
        return "is a portfolio, not a file of traces; give it as the portfolio, and a file of traces in its place"
    record = next((r for line in text.splitlines() if (r := _record(line)) is not None), None)
    if record is not None:
        if not is_whole:
            return ""
        return f"begins with a line that is no JSON object, and its first JSON object has {_keys(record)}; {_WANTED}"
    lines = [line for line in text.splitlines()[:6] if line.strip()]
    for mark, name in ((",", "CSV"), ("\t", "CSV with tabs"), (";", "CSV with semicolons")):
        try:
            widths = {len(row) for row in csv.reader(lines, delimiter=mark)}
        except csv.Error:
            continue
        if len(lines) > 1 and len(widths) == 1 and widths.pop() > 1:
            return f"is {name}; {_WANTED}"
    return f"is text without a JSON object; {_WANTED}" if is_whole or "{" not in text else ""


def _record(line: str) -> dict[str, Any] | None:
    return _object(line.encode()) if line.lstrip().startswith("{") else None


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, dict) else None


def _in_shell(path: str) -> str:
    """Return the end of a shell command that reads the file and writes another one beside it."""
    stem = path.removesuffix(".jsonl").removesuffix(".json")
    renamed = f"{stem}.lines.jsonl" if path.endswith(".jsonl") else f"{stem}.jsonl"
    return f"{shlex.quote(path)} > {shlex.quote(renamed)}"
