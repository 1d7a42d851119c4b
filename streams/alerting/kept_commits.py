"""What a store keeps of a lane, commit by commit, as the watch folds it again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC

import pyarrow as pa

from scorers.tables import SESSION_TICKS, TICKS
from sinks.keeping import Connection, Keeping, Step
from sinks.store import Store
from streams.alerting.slice_units import SliceTicks

# Of ticks those that `slice_units` and `slice_values` read.
_FOLDED = {"ticks": "AND (facet = 'label' OR (level = 'unit' AND facet = 'all'))", "session_ticks": ""}
_SCHEMAS = {"ticks": TICKS, "session_ticks": SESSION_TICKS}


@dataclass(frozen=True)
class KeptCommit:
    """One slice, as far as it matters to the watch.

    Attributes:
        place: Topic and partition that it came from.
        second: When it was kept, since the epoch.
        waits_for: Places whose unread records event time waited for.
        content: Its ticks of units and of labels, and all of its sessions.
    """

    place: str
    second: float
    waits_for: Sequence[str]
    content: SliceTicks


def place_of(topic: str, partition: int) -> str:
    """Return the name of a partition."""
    return f"{topic}/{partition}"


def recording_wait(lane: str, places: Sequence[str]) -> Step:
    """Return the step that records whom the event time of a lane waited for at a commit."""

    def record(keeping: Keeping) -> None:
        keeping.con.execute("INSERT INTO waited_for SELECT ?, ?, unnest(?)", [keeping.seq, lane, list(places)])

    return record


def kept_commits(store: Store, lane: str, after: int) -> Iterator[KeptCommit]:
    """Yield the slices of a lane that were kept after a commit, in order."""
    commits = store.query(
        """SELECT seq, source_topic, source_partition, kept_at,
            list_sort(list("partition") FILTER ("partition" IS NOT NULL))
        FROM offsets LEFT JOIN waited_for USING (lane, seq) WHERE lane = ? AND seq > ? GROUP BY ALL ORDER BY seq""",
        [lane, after],
    )
    cursor = store.cursor()
    try:
        for seq, topic, partition, kept_at, waits_for in commits:
            second = kept_at.replace(tzinfo=UTC).timestamp()
            content = SliceTicks(_kept(cursor, "ticks", seq), _kept(cursor, "session_ticks", seq))
            yield KeptCommit(place_of(topic, partition), second, waits_for or [], content)
    finally:
        cursor.close()


def _kept(cursor: Connection, name: str, seq: int) -> pa.Table:
    columns = ", ".join(f'"{column}"' for column in _SCHEMAS[name].names)
    sql = f"SELECT {columns} FROM {name} WHERE seq = ? {_FOLDED[name]}"
    return cursor.sql(sql, params=[seq]).to_arrow_table()
