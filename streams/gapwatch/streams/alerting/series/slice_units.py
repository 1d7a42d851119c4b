"""Units of one slice by series and tick, with units of sessions apart, as the detectors read them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gapwatch.streams.detectors.arrays import Bools, Ints
from gapwatch.streams.detectors.contexts import TICK_SECONDS

_TICK_MICROSECONDS = TICK_SECONDS * 1_000_000
_KEY = ("pipeline", "environment", "component", "metric", "metric_version", "judge", "epoch")
# Columns of units that detectors and bounds read; the others are not worth a copy.
_READ = [*_KEY, "bucket", "level", "value", "outcome", "p", "n", "score_sum", "histogram"]
_PIPELINE, _METRIC = _KEY.index("pipeline"), _KEY.index("metric")
#: A tick after any event; its microseconds still fit into 64 bits.
LAST_TICK = 2**37
#: Outcomes of units. For the detectors a trace whose judge failed is as undecided as an unknown one.
_OUTCOMES = ("good", "bad", "unknown", "error")
_UNDECIDED = 2


@dataclass(frozen=True)
class SliceContent:
    """Counts of one scored slice, as both families of detectors read them.

    Attributes:
        ticks: Columns of `scorers.slices.tables.TICKS`; only rows of whole units and of labels are read.
        sessions: Columns of `SESSION_TICKS`.
    """

    ticks: pa.Table
    sessions: pa.Table

    @cached_property
    def units(self) -> pa.Table:
        """Rows that count whole units at a known time."""
        is_unit = pc.and_(pc.equal(self.ticks["level"], "unit"), pc.equal(self.ticks["facet"], "all"))
        return self.ticks.select(_READ).filter(pc.and_(is_unit, self.ticks["bucket"].is_valid()))

    @cached_property
    def series_of_units(self) -> SeriesOfRows:
        """Series of each row of `units`."""
        return SeriesOfRows.of(self.units)


@dataclass(frozen=True, order=True)
class SeriesKey:
    """Key of a series within its lane; texts are empty where the tables have null."""

    pipeline: str
    environment: str
    component: str
    metric: str
    metric_version: str
    judge: str
    epoch: str


@dataclass(frozen=True)
class SessionUnits:
    """Units of one session in one tick."""

    series: SeriesKey
    tick: int
    session: str
    units: int
    bad: int


@dataclass(frozen=True)
class SliceUnits:
    """Units that one slice adds to the open ticks.

    Attributes:
        series: Distinct keys, sorted.
        which: Series of each entry, as a position in `series`.
        ticks: Tick of event time of each entry: seconds since the epoch over 30.
        counts: Good and bad units outside of sessions, all undecided units, and decided units of sessions; shape
            (4, entries).
        sessions: Units of sessions, sorted.
    """

    series: list[SeriesKey]
    which: Ints
    ticks: Ints
    counts: Ints
    sessions: list[SessionUnits]

    @property
    def newest(self) -> int | None:
        """Latest tick; None without units."""
        return int(self.ticks.max()) if len(self.ticks) else None


def read_units(content: SliceContent, watched: Collection[tuple[str, str]]) -> SliceUnits:
    """Read the units of monitored metrics; units without a time belong to no tick and are skipped.

    Units are counted without their weights: uniform weights cancel. Where weights differ inside a series (strata of a
    judge), a change of the mix of strata looks like a change of the rate.

    Args:
        content: Counts of the slice.
        watched: (pipeline, metric) of each alert rule.
    """
    units = content.units
    keys, of_row = content.series_of_units.chosen(watched)
    inside = of_row >= 0
    tick = tick_numbers(units["bucket"])[inside]
    outcome = pc.index_in(units["outcome"], pa.array(_OUTCOMES)).fill_null(0).to_numpy()[inside]
    outcome = np.minimum(outcome, _UNDECIDED)
    n = units["n"].to_numpy()[inside]
    which = of_row[inside]
    sessions = _sessions(content.sessions, watched)
    if not len(which):
        return SliceUnits([], which, tick, np.zeros((4, 0), np.int64), sessions)
    first = int(tick.min())
    width = int(tick.max()) - first + 1
    distinct, entry = np.unique(which * width + (tick - first), return_inverse=True)
    # Sums of doubles are exact up to 2**53 units.
    summed = np.bincount(outcome * len(distinct) + entry, n, 4 * len(distinct))
    counts = summed.astype(np.int64).reshape(4, len(distinct))
    if not sessions:
        return SliceUnits(keys, distinct // width, distinct % width + first, counts, sessions)
    entry_of = {(int(cell) // width, int(cell) % width + first): i for i, cell in enumerate(distinct.tolist())}
    position = {key: i for i, key in enumerate(keys)}
    for session in sessions:
        cell = entry_of[position[session.series], session.tick]
        counts[0, cell] -= session.units - session.bad
        counts[1, cell] -= session.bad
        counts[3, cell] += session.units
    return SliceUnits(keys, distinct // width, distinct % width + first, counts, sessions)


@dataclass(frozen=True)
class SeriesOfRows:
    """Series of each row of a table.

    Attributes:
        texts: Distinct keys as texts.
        which: Series of each row, as a position in `texts`.
    """

    texts: list[tuple[str, ...]]
    which: Ints

    @classmethod
    def of(cls, table: pa.Table) -> SeriesOfRows:
        """Return the series of the rows of a table with the columns of a series."""
        # Names come from traces and may hold any separator, so columns are encoded one by one, never joined as text.
        which = np.zeros(table.num_rows, np.int64)
        found: list[tuple[str, ...]] = [()] if table.num_rows else []
        for name in _KEY if table.num_rows else ():
            column = table[name].combine_chunks()
            encoded = (column.fill_null("") if column.null_count else column).dictionary_encode()
            values = encoded.dictionary.to_pylist()
            if len(values) == 1:  # as most columns of most slices
                found = [(*texts, values[0]) for texts in found]
                continue
            codes = encoded.indices.to_numpy(zero_copy_only=False)
            which = which * len(values) + codes
            there = np.zeros(len(found) * len(values), np.bool_)
            there[which] = True
            found = [
                (*found[code // len(values)], values[code % len(values)]) for code in np.flatnonzero(there).tolist()
            ]
            which = (np.cumsum(there) - 1)[which]
        return cls(found, which)

    def chosen(self, watched: Collection[tuple[str, str]], rows: Bools | None = None) -> tuple[list[SeriesKey], Ints]:
        """Return the distinct series of some metrics, sorted, and the position of each row's series.

        Args:
            watched: (pipeline, metric) of the series that count.
            rows: True for the rows that count; None for all. Other rows are left out of the result.

        Returns:
            The series, and for each row that counts its series; -1 for rows of other metrics.
        """
        which = self.which if rows is None else self.which[rows]
        there = range(len(self.texts)) if rows is None else np.unique(which).tolist()
        mine = [code for code in there if (self.texts[code][_PIPELINE], self.texts[code][_METRIC]) in watched]
        mine.sort(key=lambda code: self.texts[code])
        position = np.full(len(self.texts), -1, np.int64)
        position[mine] = np.arange(len(mine))
        return [_key(self.texts[code]) for code in mine], position[which]


@lru_cache(10_000)
def _key(texts: tuple[str, ...]) -> SeriesKey:
    """Return the key of some texts; the same object each time, so that dictionaries find it without a comparison."""
    return SeriesKey(*texts)


def series_of(table: pa.Table, watched: Collection[tuple[str, str]]) -> tuple[list[SeriesKey], Ints]:
    """Return the distinct monitored series, sorted, and the position of each row's series; -1 for other rows."""
    return SeriesOfRows.of(table).chosen(watched)


def tick_numbers(bucket: pa.ChunkedArray) -> Ints:
    """Return the number of the tick that begins at each time."""
    result: Ints = bucket.cast(pa.int64()).to_numpy() // _TICK_MICROSECONDS
    return result


def _sessions(table: pa.Table, watched: Collection[tuple[str, str]]) -> list[SessionUnits]:
    table = table.filter(table["bucket"].is_valid())
    if not table.num_rows:
        return []
    keys, which = series_of(table, watched)
    # Keys are sorted: their positions sort as they do, at the price of a comparison of numbers.
    columns = zip(
        tick_numbers(table["bucket"]).tolist(),
        which.tolist(),
        table["session_id"].to_pylist(),
        table["units"].to_pylist(),
        table["bad"].to_pylist(),
        strict=True,
    )
    found = sorted(one for one in columns if one[1] >= 0)
    return [SessionUnits(keys[i], tick, session, units, bad) for tick, i, session, units, bad in found]


@dataclass(frozen=True)
class OpenTicks:
    """Ticks that units may still join; units of other ticks join the nearest one.

    Attributes:
        first: First tick after the watermark; late data joins it.
        last: Tick of the wall clock; events after it come from wrong clocks. At least `first`.
    """

    first: int
    last: int

    @classmethod
    def between(cls, closed: int, now: int | None) -> OpenTicks:
        """Return the ticks after the watermark `closed`, up to `now`; without an upper limit where `now` is None."""
        return cls(closed + 1, LAST_TICK if now is None else max(now, closed + 1))

    def fold_tick(self, tick: int) -> int:
        """Return the tick in which a unit of a tick is folded."""
        return min(max(tick, self.first), self.last)

    def fold_ticks(self, ticks: Ints) -> Ints:
        """Return the ticks in which units of some ticks are folded."""
        return np.clip(ticks, self.first, self.last)


def stamp(ticks: pa.Table, open_ticks: Mapping[str, OpenTicks]) -> pa.Table:
    """Return the ticks of a slice with `fold_bucket`: the bucket in which each row is folded.

    Args:
        ticks: Ticks of a slice.
        open_ticks: Pipeline to its open ticks; rows of other pipelines are not folded and stay as they are.
    """
    column = ticks.schema.get_field_index("fold_bucket")
    if len(open_ticks) == 1:
        # Most slices of one pipeline lie within its open ticks, and are folded where they are.
        ((pipeline, there),) = open_ticks.items()
        ends = pc.min_max(ticks["bucket"].cast(pa.int64())).as_py()
        inside = ends["min"] is None or (
            ends["min"] >= there.first * _TICK_MICROSECONDS and ends["max"] <= there.last * _TICK_MICROSECONDS
        )
        if inside and ticks["pipeline"].null_count == 0 and pc.all(pc.equal(ticks["pipeline"], pipeline)).as_py():
            return ticks.set_column(column, ticks.schema.field(column), ticks["bucket"])
    which = pc.index_in(ticks["pipeline"].combine_chunks(), pa.array(list(open_ticks), pa.string()))
    first, last = (
        pa.array([getattr(one, name) * _TICK_MICROSECONDS for one in open_ticks.values()], pa.int64()).take(which)
        for name in ("first", "last")
    )
    bucket = ticks["bucket"].combine_chunks()
    folded = pc.max_element_wise(bucket.cast(pa.int64()), first, skip_nulls=True)
    folded = pc.min_element_wise(folded, last, skip_nulls=True)
    folded = pc.if_else(bucket.is_valid(), folded, None).cast(bucket.type)
    return ticks.set_column(column, ticks.schema.field(column), folded)
