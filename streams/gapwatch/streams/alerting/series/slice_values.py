"""Values of one slice by series and tick: numbers of measures and scores, labels of label claims."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gapwatch.streams.alerting.series.slice_units import SeriesKey, SliceContent, series_of, tick_numbers
from gapwatch.streams.detectors.arrays import Ints

#: Characters of a label that count; labels come from traces and may be long.
LABEL_LIMIT = 100


@dataclass(frozen=True)
class Numbers:
    """Numbers of a slice, as units by cell of the grid.

    Attributes:
        series: Distinct keys, sorted.
        which: Series of each entry, as a position in `series`.
        ticks: Tick of event time of each entry.
        cells: Cell of each entry.
        n: Units of each entry.
        left_out: Series with a tick that was skipped because of sessions, sorted.
    """

    series: list[SeriesKey]
    which: Ints
    ticks: Ints
    cells: Ints
    n: Ints
    left_out: list[SeriesKey]


@dataclass(frozen=True)
class TickLabels:
    """Labels of one series in one tick.

    Attributes:
        series: Key of the series.
        tick: Tick of event time.
        units: Traces that carry the labels; a trace may hold several labels.
        counts: Label to its number of occurrences.
    """

    series: SeriesKey
    tick: int
    units: int
    counts: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Labels:
    """Labels of a slice.

    Attributes:
        found: Labels by series and tick, sorted.
        left_out: Series with a tick that was skipped because of sessions, sorted.
    """

    found: list[TickLabels]
    left_out: list[SeriesKey]


@dataclass(frozen=True)
class SliceValues:
    """Values that one slice adds to the open windows.

    Attributes:
        numbers: Numbers of measures, and scores of verdicts.
        labels: Labels of label claims.
    """

    numbers: Numbers
    labels: Labels


def read_values(
    content: SliceContent, measures: Collection[tuple[str, str]], levels: Mapping[tuple[str, str], str]
) -> SliceValues:
    """Read numbers and labels; see `read_numbers` and `read_labels`."""
    return SliceValues(read_numbers(content, measures), read_labels(content, levels))


def read_numbers(content: SliceContent, measures: Collection[tuple[str, str]]) -> Numbers:
    """Read the numbers of some metrics.

    Args:
        content: Counts of the slice.
        measures: (pipeline, metric) whose numbers are monitored.

    Units of one session are one observation, but the histogram of a tick does not tell which units are of one session.
    So the numbers of a series are skipped in a tick where any unit of the series has a session.
    """
    with_numbers = content.units["histogram"].is_valid()
    keys, which = content.series_of_units.chosen(measures, with_numbers.to_numpy())
    inside = which >= 0
    if not inside.any():
        nothing = np.zeros(0, np.int64)
        return Numbers([], nothing, nothing, nothing, nothing, [])
    chosen = content.units.select(["bucket", "histogram"]).filter(with_numbers)
    tick = tick_numbers(chosen["bucket"])
    left_out = set()
    for key, with_sessions in _in_sessions(content.sessions, measures):
        if key in keys and (skipped := inside & (which == keys.index(key)) & (tick == with_sessions)).any():
            inside &= ~skipped
            left_out.add(key)
    # A null or empty map has length 0; `take` makes the offsets those of the chosen rows.
    maps = chosen["histogram"].combine_chunks().take(pa.array(np.flatnonzero(inside)))
    offsets = maps.offsets.to_numpy()
    lengths = np.diff(offsets)
    start, stop = int(offsets[0]), int(offsets[-1])
    return Numbers(
        keys,
        np.repeat(which[inside], lengths),
        np.repeat(tick[inside], lengths),
        maps.keys.slice(start, stop - start).to_numpy(zero_copy_only=False).astype(np.int64),
        maps.items.slice(start, stop - start).to_numpy(zero_copy_only=False).astype(np.int64),
        sorted(left_out),
    )


def read_labels(content: SliceContent, levels: Mapping[tuple[str, str], str]) -> Labels:
    """Read the labels of some label claims.

    Args:
        content: Counts of the slice.
        levels: (pipeline, metric) whose labels are monitored, to `unit` or `span`: the level of the labels.

    As with numbers, ticks with sessions are skipped.
    """
    if not levels:
        return Labels([], [])
    ticks = content.ticks
    is_label = pc.and_(pc.equal(ticks["facet"], "label"), ticks["value"].is_valid())
    counted = ticks.filter(pc.and_(is_label, ticks["bucket"].is_valid()))
    keys, which = series_of(counted, levels)
    skipped, left_out = set(_in_sessions(content.sessions, levels)), set()
    whole = _whole(content, levels)
    found: dict[tuple[SeriesKey, int], TickLabels] = {}
    columns = zip(
        which.tolist(),
        tick_numbers(counted["bucket"]).tolist(),
        counted["level"].to_pylist(),
        counted["value"].to_pylist(),
        counted["n"].to_pylist(),
        strict=True,
    )
    for i, tick, level, value, n in columns:
        if i < 0 or level != levels[keys[i].pipeline, keys[i].metric]:
            continue
        key = (keys[i], tick)
        if key in skipped:
            left_out.add(keys[i])
            continue
        entry = found.setdefault(key, TickLabels(*key, whole.get(key, 0)))
        label = value[:LABEL_LIMIT]
        entry.counts[label] = entry.counts.get(label, 0) + n
    return Labels([found[key] for key in sorted(found)], sorted(left_out))


def _whole(content: SliceContent, metrics: Collection[tuple[str, str]]) -> dict[tuple[SeriesKey, int], int]:
    """Return the number of units by series and tick."""
    units = content.units
    keys, which = content.series_of_units.chosen(metrics)
    found: dict[tuple[SeriesKey, int], int] = {}
    for i, tick, n in zip(which.tolist(), tick_numbers(units["bucket"]).tolist(), units["n"].to_pylist(), strict=True):
        if i >= 0:
            found[keys[i], tick] = found.get((keys[i], tick), 0) + n
    return found


def _in_sessions(session_ticks: pa.Table, metrics: Collection[tuple[str, str]]) -> list[tuple[SeriesKey, int]]:
    session_ticks = session_ticks.filter(session_ticks["bucket"].is_valid())
    if not session_ticks.num_rows:
        return []
    keys, which = series_of(session_ticks, metrics)
    ticks = tick_numbers(session_ticks["bucket"])
    return sorted({(keys[i], tick) for i, tick in zip(which.tolist(), ticks.tolist(), strict=True) if i >= 0})
