"""Files that hold no trace are named for what they are, with what to do; files with traces pass."""

from __future__ import annotations

import gzip
import json
import os
import threading
from pathlib import Path

import pytest
import zstandard

from gapwatch.scorers.errors import JobError, SourceError
from gapwatch.streams.sources.file_kind import HEAD_BYTES, check_files

TRACES = [{"trace_id": f"t{n}", "pipeline": "support", "spans": []} for n in range(3)]
LINES = "".join(json.dumps(trace) + "\n" for trace in TRACES)
OTLP = {"resourceSpans": [{"scopeSpans": [{"spans": [{"traceId": "0a", "spanId": "01"}]}]}]}
WANTED = "write each trace as one JSON object on one line, with trace_id, pipeline and spans"

OF_NO_USE = {
    "empty": ("t.jsonl", b"", "is empty: it holds no record"),
    "blank": ("t.jsonl", b"\n \n\n", "is empty: it holds no record"),
    "csv": ("t.csv", b"trace_id,output\nt1,hello\nt2,bye\n", f"is CSV; {WANTED}"),
    "tabs": ("t.csv", b"trace_id\toutput\nt1\thello\n", f"is CSV with tabs; {WANTED}"),
    "semicolons": ("t.csv", b"trace_id;output\nt1;hello\n", f"is CSV with semicolons; {WANTED}"),
    "array": ("t.json", json.dumps(TRACES), "turn it into lines: jq -c '.[]' t.json > t.jsonl"),
    "pretty array": ("t.json", json.dumps(TRACES, indent=1), "turn it into lines: jq -c '.[]' t.json > t.jsonl"),
    "array in a .jsonl": ("t.jsonl", json.dumps(TRACES), "jq -c '.[]' t.jsonl > t.lines.jsonl"),
    "name with a space": ("my t.json", json.dumps(TRACES), "jq -c '.[]' 'my t.json' > 'my t.jsonl'"),
    "pretty": ("t.json", json.dumps(TRACES[0], indent=2), "over several lines, not one object a line; turn it into"),
    "several pretty": ("t.json", "\n".join(json.dumps(t, indent=2) for t in TRACES), "jq -c . t.json > t.jsonl"),
    "wrapped": ("t.json", json.dumps({"data": TRACES}), "turn the list into lines: jq -c '.data[]' t.json"),
    "otlp": ("t.json", json.dumps(OTLP), "is OTLP JSON of OpenTelemetry"),
    "pretty otlp": ("t.json", json.dumps(OTLP, indent=2), "is OTLP JSON of OpenTelemetry"),
    "other objects": ("t.jsonl", '{"id": 1, "input": "a"}\n', "objects that are no traces (they have id, input)"),
    "numbers": ("t.jsonl", "1\n2\n", f"is text without a JSON object; {WANTED}"),
    "a log": ("t.log", "started\nan error\n", f"is text without a JSON object; {WANTED}"),
    "a log with an object": ("t.log", 'started\n{"id": 1}\n', "is no JSON object, and its first JSON object has id;"),
    "a log with an empty object": ("t.log", "started\nan error\n{}\n", "its first JSON object has no keys;"),
    "utf-16": ("t.jsonl", LINES.encode("utf-16"), "iconv -f UTF-16 -t UTF-8 t.jsonl > t.lines.jsonl"),
    "utf-16 without its mark": ("t.jsonl", LINES.encode("utf-16-le"), "is text in UTF-16"),
    "latin-1": ("t.jsonl", "schön\n".encode("latin-1") * 9, "is not text in UTF-8"),
    "binary": ("t.bin", bytes(range(256)) * 9, "is not text in UTF-8"),
    "zeros": ("t.bin", bytes(900), "is a binary file"),
    "parquet": ("t.parquet", b"PAR1" + bytes(90), "is a Parquet file"),
    "zip": ("t.zip", b"PK\x03\x04" + bytes(90), "is a zip archive"),
    "csv in gzip": ("t.csv.gz", gzip.compress(b"a,b\n1,2\n3,4\n"), "is CSV"),
    "portfolio": ("p.yaml", "gapwatch: 1\nportfolio: x\n", "is a portfolio, not a file of traces"),
    "half an object": ("t.jsonl", '{"trace_id": "t1", "pipel', "begins like JSON, but its first line is not a whole"),
    "deeply nested": ("t.json", '{"a":' * 100_000, "begins like JSON, but"),
}  # fmt: skip


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def written(name: str, content: str | bytes) -> str:
    Path(name).write_bytes(content.encode() if isinstance(content, str) else content)
    return name


@pytest.mark.parametrize(("name", "content", "says"), OF_NO_USE.values(), ids=OF_NO_USE)
def test_a_file_without_a_trace_is_named_for_what_it_is(name: str, content: str | bytes, says: str) -> None:
    with pytest.raises(JobError) as refused:
        check_files([written(name, content)], {"support"})

    assert str(refused.value).startswith(f"{name} ")
    assert says in str(refused.value)


@pytest.mark.parametrize(
    "content",
    [
        LINES,
        "\ufeff" + LINES,
        "not a trace\n" + LINES,
        LINES.removesuffix("\n"),
        LINES.replace("\n", "\r\n"),
        gzip.compress(LINES.encode()),
        zstandard.compress(LINES.encode()),
    ],
    ids=["plain", "byte order mark", "first line broken", "no last line end", "windows", "gzip", "zstd"],
)
def test_a_file_with_a_trace_passes(content: str | bytes) -> None:
    assert check_files([written("t.jsonl", content)], {"support"}) == []


def test_traces_of_another_pipeline_alone_are_refused_with_both_names() -> None:
    lines = LINES.replace("support", "suport") + LINES.replace("support", "shop")

    with pytest.raises(JobError) as refused:
        check_files([written("t.jsonl", lines)], {"support"})

    assert str(refused.value) == (
        "every trace in t.jsonl is of another pipeline than the portfolio's: the traces name 'suport' (3), 'shop' (3), "
        "the portfolio names 'support'; correct `pipeline` in the portfolio, or give the portfolio of that pipeline"
    )
    assert check_files(["t.jsonl"]) == []


def test_beside_a_file_of_use_the_others_are_warned_of() -> None:
    files = [written("a.csv", "a,b\n1,2\n"), written("t.jsonl", LINES), written("b.jsonl", "")]

    faults = check_files(files, {"support"})

    assert [fault.partition(";")[0] for fault in faults] == ["a.csv is CSV", "b.jsonl is empty: it holds no record"]


def test_of_several_files_without_use_the_first_is_described() -> None:
    with pytest.raises(JobError, match=r"^a.csv is CSV; .* \(1 more file of no use\)$"):
        check_files([written("a.csv", "a,b\n1,2\n"), written("b.jsonl", "")])


@pytest.mark.parametrize(
    "begin", ['{"event": "other"}\n', LINES.replace("support", "shop")], ids=["objects", "pipeline"]
)
def test_a_long_file_is_not_condemned_for_its_beginning(begin: str) -> None:
    lines = begin * (HEAD_BYTES // len(begin) + 9)

    assert check_files([written("t.jsonl", lines + LINES)], {"support"}) == []


def test_a_pipe_is_not_read() -> None:
    os.mkfifo("pipe")
    writer = threading.Thread(target=lambda: Path("pipe").write_text(LINES, encoding="utf-8"))
    writer.start()

    assert check_files(["pipe"], {"support"}) == []
    assert Path("pipe").read_text(encoding="utf-8") == LINES
    writer.join(60)


def test_a_missing_file_is_still_a_usage_error() -> None:
    with pytest.raises(SourceError, match="no such file"):
        check_files(["missing.jsonl"])
