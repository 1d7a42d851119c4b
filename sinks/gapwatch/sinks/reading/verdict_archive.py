"""Reads the stored parts of a verdict for an audit: its row, template, portfolio and judged record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from gapwatch.scorers.slices.sample_record import unpack_record
from gapwatch.sinks.reading.stored_portfolios import portfolio_text
from gapwatch.sinks.store.row_place import find_row, place_of
from gapwatch.sinks.store.store_reader import StoreReader


@dataclass(frozen=True)
class ArchivedVerdict:
    """The row of one judge.

    Attributes:
        place: Place in the form that `find_row` reads.
        lane, source_topic, source_partition, source_offset, span_index: Position of the span.
        metric, judge, portfolio_sha: Metric, judge and portfolio of the request.
        outcome, band: Outcome and band of the verdict; an error has no band.
        judge_model_id: Id of the model that answered; None without an answer.
        judge_prompt_sha, judge_request_sha, judge_input_sha: Hashes of the request; None if nothing was sent.
        evidence: Evidence of the row.
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
_RETRIED_COLUMNS = _COLUMNS[1:]
_PLACE = ("lane", "source_topic", "source_partition", "source_offset", "span_index", "metric", "judge")
_PLACES = """SELECT concat_ws('/', source_topic, source_partition, source_offset, span_index, metric, judge) FROM gaps
    WHERE judge_request_sha IS NOT NULL AND outcome IN ('pass', 'fail') ORDER BY judge_request_sha LIMIT ?"""
_RETRIED = """SELECT o.outcome, o.label AS band, r.judge_model_id, r.judge_prompt_sha, r.judge_request_sha,
        r.judge_input_sha, r.evidence
    FROM overrides o JOIN internal.retried_verdicts r USING (override_id)
    WHERE o.lane = ? AND o.source_topic = ? AND o.source_partition = ? AND o.source_offset = ? AND o.span_index = ?
        AND o.metric = ? AND o.judge IS NOT DISTINCT FROM ? ORDER BY o."at" DESC LIMIT 1"""
_WAS_RETRIED = """SELECT count(*) FROM overrides WHERE "by" = 'judge retry' AND lane = ? AND source_topic = ?
    AND source_partition = ? AND source_offset = ? AND span_index = ? AND metric = ?
    AND judge IS NOT DISTINCT FROM ?"""
_RECORD = """SELECT record FROM samples WHERE lane = ? AND source_topic = ? AND source_partition = ?
    AND source_offset = ? AND record IS NOT NULL LIMIT 1"""


class VerdictArchive:
    """Verdicts of a store and their stored inputs.

    Args:
        con: Connection that reads the store.
    """

    def __init__(self, con: StoreReader) -> None:
        self._con = con

    def verdict(self, place: str) -> ArchivedVerdict:
        """Return the verdict of one judge: that of its row, or where the judge was asked again, the last one.

        Args:
            place: topic/partition/offset/span/metric/judge.

        Raises:
            UsageError: There is no such row, or more than one.
        """
        row = find_row(self._con, place, _COLUMNS)
        columns = {name: row[name] for name in (*_PLACE, *_COLUMNS)}
        identity = [row[name] for name in _PLACE]
        if self._con.execute(_WAS_RETRIED, identity).fetchall()[0][0]:
            for retried in self._con.execute(_RETRIED, identity).fetchall():
                columns |= dict(zip(_RETRIED_COLUMNS, retried, strict=True))
        return ArchivedVerdict(place_of(row), **{**columns, "evidence": orjson.loads(columns["evidence"] or "{}")})

    def places(self, most: int) -> list[str]:
        """Return the places of at most `most` verdicts: those with the lowest request hashes, the same each time."""
        return [place for (place,) in self._con.execute(_PLACES, [most]).fetchall()]

    def portfolio_text(self, sha: str) -> str | None:
        """Return the YAML of a portfolio; None if it is not stored."""
        return portfolio_text(self._con, sha)

    def template(self, sha: str) -> str | None:
        """Return the template with this hash; None if it is not stored."""
        found: list[tuple[str]] = self._con.execute("SELECT text FROM templates WHERE sha = ?", [sha]).fetchall()
        return found[0][0] if found else None

    def record(self, verdict: ArchivedVerdict) -> bytes | None:
        """Return the judged record; None if its sample is no longer stored."""
        place = [verdict.lane, verdict.source_topic, verdict.source_partition, verdict.source_offset]
        found = self._con.execute(_RECORD, place).fetchall()
        return unpack_record(found[0][0]) if found else None
