"""Finds one row of `gaps` by its place: `topic/partition/offset/span/metric/judge`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gapwatch.scorers.errors import UsageError
from gapwatch.sinks.store.store_reader import StoreReader

_NAMES = ("source_topic", "source_partition", "source_offset", "span_index", "metric", "judge")
_IDENTITY = ("lane", *_NAMES, "metric_version")


def find_row(con: StoreReader, place: str, columns: Sequence[str] = ()) -> dict[str, Any]:
    """Return the row at a place: its identity and the requested columns.

    Args:
        con: Connection that reads the store.
        place: Place of the row. The judge is optional if the metric has one row there. The topic may hold slashes.
        columns: Columns of `gaps` to return besides the identity.

    Raises:
        UsageError: The text is not a place, or there is no row, or more than one.
    """
    topic, partition, offset, span, metric, judge = _taken_apart(place)
    wanted = list(dict.fromkeys((*_IDENTITY, *columns)))
    rows = con.execute(
        f"""SELECT {", ".join(wanted)} FROM gaps WHERE source_topic = ? AND source_partition = ? AND source_offset = ?
            AND span_index = ? AND metric = ? AND (? = '' OR judge = ?)""",
        [topic, partition, offset, span, metric, judge, judge],
    ).fetchall()
    lanes = {row[wanted.index("lane")] for row in rows}
    if len(lanes) > 1 and "live" in lanes:  # a backfill scores the same offsets again; the live row is the original
        rows = [row for row in rows if row[wanted.index("lane")] == "live"]
    if not rows:
        raise UsageError(f"{place}: there is no such row; find rows with `gapwatch history`")
    if len(rows) > 1:
        judges = ", ".join(sorted({str(row[wanted.index("judge")]) for row in rows}))
        raise UsageError(f"{place}: {len(rows)} rows, by the judges {judges}; name one, as .../{metric}/JUDGE")
    return dict(zip(wanted, rows[0], strict=True))


def place_of(row: dict[str, Any]) -> str:
    """Return the place of a row in the form that `find_row` reads."""
    return "/".join(str(row[name]) for name in _NAMES if row[name] is not None)


def _taken_apart(place: str) -> tuple[str, int, int, int, str, str]:
    pieces = place.split("/")
    # Judges and topics may hold slashes, metrics may not. The first three adjacent whole numbers separate them.
    for i in range(1, len(pieces) - 3):
        numbers = pieces[i : i + 3]
        if all(_is_whole(number) for number in numbers):
            topic, metric, judge = "/".join(pieces[:i]), pieces[i + 3], "/".join(pieces[i + 4 :])
            return topic, int(numbers[0]), int(numbers[1]), int(numbers[2]), metric, judge
    raise UsageError(
        f"{place!r} is not the place of a row; write topic/partition/offset/span/metric, and /judge for one of several"
    )


def _is_whole(text: str) -> bool:
    digits = text.removeprefix("-")
    return digits.isascii() and digits.isdigit() and len(digits) < 19
