"""Converts a scored slice to the values of the reference, and lists the differences."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from gapwatch.scorers.slices.slices import ScoredSlice
from tests.reference.slice_reading import LedgerKey, Reading, Row, SessionKey, Tick, TickKey


def differences(scored: ScoredSlice, reading: Reading, values: Sequence[bytes | None]) -> list[str]:
    """Return every difference between a scored slice and the reference for the same records; empty if they agree."""
    return [
        *_row_differences(rows_of(scored), reading.rows),
        *_count_differences("ledger", ledger_of(scored), reading.ledger),
        *_tick_differences(ticks_of(scored), reading.ticks),
        *_count_differences("session ticks", sessions_of(scored), reading.sessions),
        *_count_differences("dead letters", dead_letters_of(scored), expected_dead_letters(reading, values)),
        *_total_differences(scored, reading, values),
    ]


def rows_of(scored: ScoredSlice) -> list[Row]:
    """Return the gap rows, with the columns that the contract defines."""
    table = scored.tables["gaps"]
    moments = table["event_at"].cast(pa.int64()).to_pylist()
    return [
        Row(
            **{name: row[name] for name in Row._fields if name not in ("offset", "event_at")},
            offset=row["source_offset"],
            event_at=None if moment is None else moment / 1e6,
        )
        for row, moment in zip(table.to_pylist(), moments, strict=True)
    ]


def ledger_of(scored: ScoredSlice) -> Counter[LedgerKey]:
    """Return the sums of the ledger's deltas."""
    ledger: Counter[LedgerKey] = Counter()
    for row in scored.tables["ledger"].to_pylist():
        ledger[LedgerKey(row["pipeline"], row["metric"], row["state"])] += row["n"]
    return ledger


def sessions_of(scored: ScoredSlice) -> Counter[SessionKey]:
    """Return the known units by session."""
    sessions: Counter[SessionKey] = Counter()
    table = scored.tables["session_ticks"]
    for row, bucket in zip(table.to_pylist(), _seconds(table["bucket"]), strict=True):
        place = (row["pipeline"], row["environment"], row["component"], row["metric"], bucket, row["session_id"])
        sessions[SessionKey(*place, row["p"], "bad")] += row["bad"]
        sessions[SessionKey(*place, row["p"], "good")] += row["units"] - row["bad"]
    return sessions


def dead_letters_of(scored: ScoredSlice) -> Counter[tuple[int, str, int, str]]:
    """Return the dead letters by offset, cause, size and digest."""
    rows = scored.tables["dead_letters"].to_pylist()
    return Counter((row["source_offset"], row["cause"], row["size"], row["sha256"]) for row in rows)


def expected_dead_letters(reading: Reading, values: Sequence[bytes | None]) -> Counter[tuple[int, str, int, str]]:
    """Return the dead letters of the reference, in the same form."""
    letters: Counter[tuple[int, str, int, str]] = Counter()
    for offset, letter in reading.dead_letters:
        raw = values[offset] or b""
        # Deeper than the limit, a record that is no JSON either may be called by the one or the other.
        cause = "not_json" if letter.cause == "too_deep" and raw == b"[" * len(raw) else letter.cause
        letters[offset, cause, len(raw), hashlib.sha256(raw).hexdigest()] += 1
    return letters


def _seconds(column: pa.ChunkedArray) -> list[int | None]:
    moments: list[int | None] = column.cast(pa.int64()).to_pylist()
    return [None if moment is None else moment // 1_000_000 for moment in moments]


def _row_differences(found: Sequence[Row], expected: Sequence[Row]) -> Iterator[str]:
    found_by, expected_by = _by_identity(found), _by_identity(expected)
    for identity in sorted({**found_by, **expected_by}):
        ours, theirs = found_by.get(identity, []), expected_by.get(identity, [])
        if len(ours) != len(theirs):
            yield f"row {identity}: product {ours}, reading {theirs}"
            continue
        for mine, other in zip(ours, theirs, strict=True):
            for name in Row._fields:
                if not _is_close(getattr(mine, name), getattr(other, name)):
                    yield f"row {identity}: {name}: product {getattr(mine, name)!r}, reading {getattr(other, name)!r}"


def _by_identity(rows: Sequence[Row]) -> dict[tuple[int, int, str], list[Row]]:
    by_identity: dict[tuple[int, int, str], list[Row]] = {}
    for row in rows:
        by_identity.setdefault((row.offset, row.span_index, row.metric), []).append(row)
    return by_identity


def _is_close(mine: Any, other: Any) -> bool:
    if isinstance(mine, float) and isinstance(other, float):
        return math.isclose(mine, other, rel_tol=1e-9, abs_tol=1e-300)
    return bool(mine == other)


def _count_differences(name: str, found: Mapping[Any, int], expected: Mapping[Any, int]) -> Iterator[str]:
    for key in sorted({**found, **expected}, key=repr):
        if found.get(key, 0) != expected.get(key, 0):
            yield f"{name} {key}: product {found.get(key, 0)}, reading {expected.get(key, 0)}"


@dataclass
class TickSum:
    """Sum of the tick rows of one key; a slice may have several."""

    n: int = 0
    score_sum: float = 0.0
    score_sum_squares: float = 0.0
    histogram: Counter[int] = field(default_factory=Counter)


def ticks_of(scored: ScoredSlice) -> dict[TickKey, TickSum]:
    """Return the sums of the ticks by key."""
    table = scored.tables["ticks"]
    ticks: dict[TickKey, TickSum] = {}
    for row, bucket in zip(table.to_pylist(), _seconds(table["bucket"]), strict=True):
        key = TickKey(**{**{name: row[name] for name in TickKey._fields}, "bucket": bucket})
        total = ticks.setdefault(key, TickSum())
        total.n += row["n"]
        total.score_sum += row["score_sum"] or 0.0
        total.score_sum_squares += row["score_sum_squares"] or 0.0
        total.histogram.update(dict(row["histogram"] or {}))
    return ticks


def _tick_differences(found: Mapping[TickKey, TickSum], expected: Mapping[TickKey, Tick]) -> Iterator[str]:
    for key in sorted({**found, **expected}, key=repr):
        mine, other = found.get(key, TickSum()), expected.get(key, Tick())
        if mine.n != other.n:
            yield f"tick {key}: product {mine.n}, reading {other.n}"
        elif key.facet == "all" and dict(mine.histogram) != other.histogram:
            yield f"tick {key}: histogram: product {mine.histogram}, reading {other.histogram}"
        elif not _are_sums(mine, other.scores):
            yield f"tick {key}: sums: product {mine}, reading {other.scores}"


def _are_sums(tick: TickSum, scores: list[float]) -> bool:
    size = sum(map(abs, scores))
    squares = sum(score * score for score in scores)
    return math.isclose(tick.score_sum, sum(scores), rel_tol=1e-9, abs_tol=1e-9 * size) and math.isclose(
        tick.score_sum_squares, squares, rel_tol=1e-9
    )


def _total_differences(scored: ScoredSlice, reading: Reading, values: Sequence[bytes | None]) -> Iterator[str]:
    reads = sum(n for key, n in reading.ledger.items() if key.metric is None and key.state == "read")
    for name, found, expected in (
        ("records", scored.records, len(values)),
        ("spans", scored.spans, reading.spans),
        ("trace ids", scored.tables["trace_ids"].num_rows, reads),
    ):
        if found != expected:
            yield f"{name}: product {found}, reading {expected}"
