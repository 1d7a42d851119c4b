"""Counts ticks of verdicts: spans and units decided by a judge, or by a composite with a judged part."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from gapwatch.scorers.judges.request import JudgeRequest
from gapwatch.scorers.slices.columns import BUCKET_SECONDS
from gapwatch.scorers.slices.tables import SESSION_TICKS, TICKS
from gapwatch.scorers.slices.value_histogram import histogram_cells

_EPOCH = datetime(1970, 1, 1)
#: Position of the bucket in a key, after the names of the series. The fold bucket follows.
_BUCKET = TICKS.get_field_index("bucket")


@dataclass
class _Count:
    n: int = 0
    scores: int = 0
    total: float = 0.0
    squares: float = 0.0
    cells: Counter[int] = field(default_factory=Counter)

    def add(self, score: float | None) -> None:
        self.n += 1
        if score is not None:
            self.scores += 1
            self.total += score
            self.squares += score * score
            self.cells[_cell(score)] += 1


@lru_cache(maxsize=4096)
def _cell(score: float) -> int:
    """Return the histogram cell of a score. Cached, because a scale has few bands."""
    return int(histogram_cells(np.array([score]))[0])


class VerdictTicks:
    """Counts the decisions of one commit.

    Args:
        closed_at: Time of closing, naive UTC. In the lane `live`, detectors count these decisions in its bucket.
    """

    def __init__(self, closed_at: datetime) -> None:
        self._closed_bucket = int((closed_at - _EPOCH).total_seconds() // BUCKET_SECONDS)
        self._ticks: dict[tuple[Any, ...], _Count] = {}
        self._sessions: dict[tuple[Any, ...], list[int]] = {}

    def add_span(
        self, request: JudgeRequest, series: tuple[str, str, str | None, str], outcome: str, score: float | None,
        label: str | None, p: float,
    ) -> None:  # fmt: skip
        """Count one span under every facet.

        Args:
            request: Judge request, which describes the span.
            series: Metric, its version, judge and epoch.
            outcome: Outcome of the span.
            score: Score of the span; None without one.
            label: Word of the scale; None without one.
            p: Probability of evaluation, 0 to 1.
        """
        named = {"tier": request.tier, "release": request.release, "model": request.model}
        facets = {"all": None, **{facet: request.counted(facet, name) for facet, name in named.items()}}
        facets |= {"stratum": request.stratum, "label": label}
        for facet, value in facets.items():
            if facet == "all" or value is not None:
                scored = score if facet not in ("stratum", "label") else None
                self._add(request, series, "span", facet, value, outcome, p, scored)

    def add_unit(
        self, request: JudgeRequest, series: tuple[str, str, str | None, str], unit: str, score: float | None,
        p: float,
    ) -> None:  # fmt: skip
        """Count one trace as good, bad, unknown or error, and count its session."""
        self._add(request, series, "unit", "all", None, unit, p, score)
        if request.release is not None:
            release = request.counted("release", request.release)
            self._add(request, series, "unit", "release", release, unit, p, score)
        if request.session_id and unit in ("good", "bad"):
            key = (*self._series(request, series), self._time(request.bucket), request.session_id, p)
            units = self._sessions.setdefault(key, [0, 0])
            units[0] += 1
            units[1] += unit == "bad"

    def _add(
        self, request: JudgeRequest, series: tuple[str, str, str | None, str], level: str, facet: str,
        value: str | None, outcome: str, p: float, score: float | None,
    ) -> None:  # fmt: skip
        bucket = request.bucket
        # Files have no clock other than event time: the time of closing must not change the counts.
        fold = self._closed_bucket if request.lane == "live" and bucket is not None else bucket
        key = (*self._series(request, series), bucket, fold, level, facet, value, outcome, p)
        count = self._ticks.get(key)
        if count is None:
            count = self._ticks[key] = _Count()
        count.add(score)

    def _series(self, request: JudgeRequest, series: tuple[str, str, str | None, str]) -> tuple[Any, ...]:
        environment = request.counted("environment", request.series_environment)
        return (request.lane, request.pipeline, environment, request.component, *series)

    def _time(self, bucket: int | None) -> datetime | None:
        return None if bucket is None else _EPOCH + timedelta(seconds=bucket * BUCKET_SECONDS)

    def table(self) -> pa.Table:
        """Return the ticks."""
        rows = [
            (
                *key[:_BUCKET], self._time(key[_BUCKET]), self._time(key[_BUCKET + 1]), *key[_BUCKET + 2 :], c.n,
                c.total if c.scores else None, c.squares if c.scores else None, self._cells(key, c),
            )
            for key, c in self._ticks.items()
        ]  # fmt: skip
        return _table(rows, TICKS)

    def _cells(self, key: tuple[Any, ...], count: _Count) -> list[tuple[int, int]] | None:
        facet = key[len(key) - 4]
        return sorted(count.cells.items()) if count.scores and facet == "all" else None

    def session_table(self) -> pa.Table:
        """Return the session ticks."""
        return _table([(*key, *units) for key, units in self._sessions.items()], SESSION_TICKS)


def _table(rows: list[tuple[Any, ...]], schema: pa.Schema) -> pa.Table:
    columns = [pa.array([row[i] for row in rows], field.type) for i, field in enumerate(schema)]
    return pa.table(columns, schema=schema)
