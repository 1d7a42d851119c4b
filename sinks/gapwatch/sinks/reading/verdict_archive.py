"""Reads what a store keeps of a verdict for an audit: its row, its template, its portfolio, the judged record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson
import zstandard

from gapwatch.sinks.reading.stored_portfolios import portfolio_text
from gapwatch.sinks.store.row_place import find_row, place_of
from gapwatch.sinks.store.store_reader import StoreReader

_ANY_SIZE = 1 << 31


@dataclass(frozen=True)
class ArchivedVerdict:
    """The row of one judge.

    Attributes:
        place: As `find_row` reads it.
        lane, source_topic, source_partition, source_offset, span_index: Of the span.
        metric, judge, portfolio_sha: Of the question.
        outcome, band: Of the verdict; an error has no band.
        judge_model_id: Which model answered; None where none did.
        judge_prompt_sha, judge_request_sha, judge_input_sha: Of what was sent; None where nothing was.
        evidence: As the row has it.
    """

    place: str
    lane: str
    source_topic: str
    source_partition: int
    source_offset: int
    span_index: int
    metric: str
    judge: str | None
    portfolio_sha: str
    outcome: str
    band: str | None
    judge_model_id: str | None
    judge_prompt_sha: str | None
    judge_request_sha: str | None
    judge_input_sha: str | None
    evidence: Mapping[str, Any]


_COLUMNS = (
    "portfolio_sha", "outcome", "band", "judge_model_id", "judge_prompt_sha", "judge_request_sha", "judge_input_sha",
    "evidence",
)  # fmt: skip
_PLACE = ("lane", "source_topic", "source_partition", "source_offset", "span_index", "metric", "judge")
_PLACES = """SELECT concat_ws('/', source_topic, source_partition, source_offset, span_index, metric, judge) FROM gaps
    WHERE judge_request_sha IS NOT NULL AND outcome IN ('pass', 'fail') ORDER BY judge_request_sha LIMIT ?"""
_RECORD = """SELECT record FROM samples WHERE lane = ? AND source_topic = ? AND source_partition = ?
    AND source_offset = ? LIMIT 1"""


class VerdictArchive:
    """Verdicts of a store, and what they were made from.

    Args:
        con: The store, for reading.
    """

    def __init__(self, con: StoreReader) -> None:
        self._con = con

    def verdict(self, place: str) -> ArchivedVerdict:
        """Return the row of one judge.

        Args:
            place: topic/partition/offset/span/metric/judge.

        Raises:
            UsageError: There is no such row, or more than one.
        """
        row = find_row(self._con, place, _COLUMNS)
        columns = {name: row[name] for name in (*_PLACE, *_COLUMNS)}
        return ArchivedVerdict(place_of(row), **{**columns, "evidence": orjson.loads(row["evidence"] or "{}")})

    def places(self, most: int) -> list[str]:
        """Return the places of some verdicts, the same ones each time: those whose requests have the lowest hashes."""
        return [place for (place,) in self._con.execute(_PLACES, [most]).fetchall()]

    def portfolio_text(self, sha: str) -> str | None:
        """Return the YAML of a portfolio, or None."""
        return portfolio_text(self._con, sha)

    def template(self, sha: str) -> str | None:
        """Return the text that is stored under the hash of a template, or None."""
        found: list[tuple[str]] = self._con.execute("SELECT text FROM templates WHERE sha = ?", [sha]).fetchall()
        return found[0][0] if found else None

    def record(self, verdict: ArchivedVerdict) -> bytes | None:
        """Return the record that was judged; None where its sample is not stored any more."""
        place = [verdict.lane, verdict.source_topic, verdict.source_partition, verdict.source_offset]
        found = self._con.execute(_RECORD, place).fetchall()
        return zstandard.ZstdDecompressor().decompress(found[0][0], max_output_size=_ANY_SIZE) if found else None
