"""Prints one trace in full: its rows with their expectations, and the text of the trace if a sample is stored."""

from __future__ import annotations

import contextlib
import sys
from typing import Any

import orjson

from gapwatch.scorers.printable import shown
from gapwatch.scorers.slices.sample_record import unpack_record
from gapwatch.sinks.reading.json_values import read_json, to_json
from gapwatch.sinks.reading.query_answer import ask
from gapwatch.sinks.reading.terminal_table import Column, component_text, print_note, print_table, six_digit_text
from gapwatch.sinks.store.store_reader import StoreReader

#: Largest number of printed lines of a sample; `--format json` gives all.
_SAMPLE_LINES = 400

_COLUMNS = (
    Column("span", right=True),
    Column("component", whole=True),
    Column("metric", whole=True),
    Column("outcome", whole=True),
    Column("observed"),
)
#: Numbers with more characters than this are shown with six digits.
_LONG_NUMBER = 9


def seen_text(row: dict[str, Any]) -> str | None:
    """Return the observed value of a row, after the reason if the row was not decided."""
    seen = row["observed"] if row["observed"] is not None else row["label"]
    if seen is None and row["score"] is not None:
        seen = six_digit_text(row["score"])
    elif seen is not None and len(seen) > _LONG_NUMBER:
        with contextlib.suppress(ValueError):
            seen = six_digit_text(float(seen)) if seen[0] in "-.0123456789" else seen
    reason = row["reason"] if row["outcome"] in ("skip", "unknown", "error") else None
    return ": ".join(text for text in (reason, seen) if text) or None


def print_expected(rows: list[dict[str, Any]]) -> None:
    """Print the expectation of each metric in some rows, once each."""
    expected = {row["metric"]: row["expected"] for row in rows if row["expected"]}
    if expected:
        sys.stdout.write("\n")
        print_table([Column("metric", whole=True), Column("expected")], sorted(expected.items()))


def print_trace(con: StoreReader, trace_id: str) -> None:
    """Print one trace for people."""
    rows, samples = _read(con, trace_id)
    if not rows and not samples:
        print_note(f"no row and no sample of trace {shown(trace_id)}: it never came, or none of its rows was stored")
        return
    for one in _runs(rows):
        _print_head(one[0])
        print_table(_COLUMNS, [_cells(row) for row in one])
        for row in one:
            _print_more(row)
    print_expected(rows)
    stored = [sample for sample in samples if sample["record"] is not None]
    for sample in stored:
        _print_sample(sample)
    if not stored:
        print_note("text no longer in the topic" if samples else "no sample of its text is stored")


def print_trace_json(con: StoreReader, trace_id: str) -> None:
    """Print one trace as a JSON object: `rows` of the view `verdicts`, and `samples` with the parsed `record`."""
    rows, samples = _read(con, trace_id)
    for row in rows:
        for name in ("evidence", "row_evidence", "direction"):
            row[name] = read_json(row[name]) if row[name] is not None else None
    for sample in samples:
        if sample["record"] is None:
            continue
        sample["record"] = read_json(unpack_record(sample["record"]).decode("utf-8", "replace"))
    sys.stdout.flush()
    sys.stdout.buffer.write(to_json({"trace_id": trace_id, "rows": rows, "samples": samples}) + b"\n")


def _read(con: StoreReader, trace_id: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    rows = ask(
        con,
        """SELECT * FROM verdicts WHERE trace_id = ?
            ORDER BY lane, source_topic, source_partition, source_offset, span_index, metric, judge""",
        [trace_id],
    ).objects()
    samples = ask(
        con,
        """SELECT * FROM samples WHERE trace_id = ?
            QUALIFY row_number() OVER (PARTITION BY record_sha256 ORDER BY kept_at) = 1
            ORDER BY lane, source_topic, source_partition, source_offset""",
        [trace_id],
    ).objects()
    return rows, samples


def _runs(rows: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Group the rows by record: a trace id can come again at another offset or in another lane."""
    runs: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        key = (row["lane"], row["source_topic"], row["source_partition"], row["source_offset"])
        runs.setdefault(key, []).append(row)
    return list(runs.values())


def _print_head(row: dict[str, Any]) -> None:
    parts = [f"trace {shown(row['trace_id'], 200)}", f"{shown(row['pipeline'])} ({shown(row['environment'])})"]
    parts += [
        f"{word} {shown(row[name])}" for word, name in (("release", "release"), ("session", "session_id")) if row[name]
    ]
    if row["lane"] == f"file:{row['source_topic']}":
        parts.append(f"{shown(row['lane'])} line {row['source_offset']} (from 0)")
    else:
        where = f"{shown(row['source_topic'])} [{row['source_partition']}] at {row['source_offset']}"
        parts.append(f"{shown(row['lane'])} {where}")
    sys.stdout.write(", ".join(parts) + "\n")


def _cells(row: dict[str, Any]) -> list[Any]:
    span = "trace" if row["span_index"] < 0 else f"{row['span_index']}"
    metric = row["metric"] if row["judge"] is None else f"{row['metric']} ({row['judge']})"
    return [span, component_text(row["component"]), metric, row["outcome"], seen_text(row)]


def _print_more(row: dict[str, Any]) -> None:
    """Print the override of a row, and the reason that a judge gave."""
    if row["overridden"]:
        sys.stdout.write(
            f"{shown(row['metric'])}: {shown(row['override_by'])} says {row['outcome']}, not {row['scored_outcome']}"
            f"{': ' + shown(row['override_why'], 300) if row['override_why'] else ''}\n"
        )
    if row["row_evidence"] is not None:
        sys.stdout.write(f"{shown(row['metric'])}: {shown(row['row_evidence'], 1000)}\n")


def _print_sample(sample: dict[str, Any]) -> None:
    text = unpack_record(sample["record"])
    with contextlib.suppress(orjson.JSONDecodeError):  # a text that is not JSON is shown unchanged
        text = orjson.dumps(orjson.loads(text), option=orjson.OPT_INDENT_2)
    lines = text.decode("utf-8", "replace").split("\n")
    sys.stdout.write(f"\nsample at {sample['source_offset']}, redacted, stored for: {shown(sample['cause'])}\n")
    for line in lines[:_SAMPLE_LINES]:
        sys.stdout.write(shown(line, 2000) + "\n")
    if len(lines) > _SAMPLE_LINES:
        print_note(f"{len(lines) - _SAMPLE_LINES} more lines; use --format json for all")
