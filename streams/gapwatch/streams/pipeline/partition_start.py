"""The point where scoring of a partition continues: all that it needs of the store, as one value."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from gapwatch.scorers.slices.event_clock import EventClock
from gapwatch.scorers.slices.facet_names import FacetNames
from gapwatch.sinks.reading.lane_commits import event_clocks, facet_names
from gapwatch.sinks.store.recorded_selections import SelectionStep, counted_since, selection_steps
from gapwatch.sinks.store.store import Store


@dataclass(frozen=True)
class PartitionStart:
    """State of a partition in a store.

    Attributes:
        window: Number of the thinning window of the last stored record; of the first record where nothing is stored.
        counts: Spans of that window so far, by (pipeline, metric, outcome).
        selection: The last recorded selection; None where nothing is stored.
        clocks: Event clock of each pipeline.
        names: Names that it counts apart.
    """

    window: int
    counts: Mapping[tuple[str, str, str], int] = field(default_factory=dict)
    selection: SelectionStep | None = None
    clocks: Mapping[str, EventClock] = field(default_factory=dict)
    names: FacetNames = field(default_factory=FacetNames)


def read_start(store: Store, lane: str, topic: str, partition: int, from_offset: int, window: int) -> PartitionStart:
    """Read where a partition continues.

    Args:
        store: The store.
        lane: Lane of the records.
        topic: Topic of the partition.
        partition: Number of the partition.
        from_offset: First offset of the next slice.
        window: Offsets of one thinning window.
    """
    where = (lane, topic, partition)
    position = store.position(*where)
    if position is None:
        return PartitionStart(from_offset // window)
    current = max(0, position.to_offset - 1) // window
    cursor = store.cursor()
    try:
        steps = selection_steps(cursor, *where)
        counts = counted_since(cursor, *where, current * window)
    finally:
        cursor.close()
    # An earlier version may have stored times of the far future: what is beyond the present moves no clock.
    clocks = event_clocks(store, *where, until=time.time())
    return PartitionStart(current, counts, steps[-1] if steps else None, clocks, facet_names(store, *where))
