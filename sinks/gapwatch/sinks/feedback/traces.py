"""Finds the stored traces that feedback is about, by the hash of their ids."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from gapwatch.scorers.slices.columns import DEFAULT_ENVIRONMENT
from gapwatch.sinks.store.store_reader import StoreReader

_FIND = """SELECT t.trace_hash, t.pipeline, t.lane, o.source_topic, o.source_partition, t.source_offset,
        t.environment, t."release"
    FROM internal.trace_ids t LEFT JOIN offsets o ON o.seq = t.seq
    WHERE t.trace_hash IN (SELECT unnest(?::UBIGINT[])) AND t.seq > ?
        AND (t.lane = 'live' OR t.lane LIKE 'file:%')
    ORDER BY t.lane <> 'live', t.seq, t.source_offset"""


@dataclass(frozen=True)
class FoundTrace:
    """Place and names of a stored trace.

    Attributes:
        lane: `live` or `file:<name>`.
        topic, partition, offset: Place of its record; None where an older version stored it.
        pipeline, environment, release: Names that the trace gives; the environment has its default.
    """

    lane: str
    topic: str | None
    partition: int | None
    offset: int | None
    pipeline: str
    environment: str
    release: str | None


def find_traces(con: StoreReader, hashes: Collection[int], after: int = 0) -> dict[int, list[FoundTrace]]:
    """Return the traces with these hashes, by hash; live ones first, then the earliest.

    Args:
        con: Reader of the store.
        hashes: Hashes of trace ids.
        after: Only traces of commits after this one.
    """
    found: dict[int, list[FoundTrace]] = {}
    if not hashes:
        return found
    for hash_, pipeline, lane, topic, partition, offset, environment, release in con.execute(
        _FIND, [sorted(hashes), after]
    ).fetchall():
        one = FoundTrace(lane, topic, partition, offset, pipeline, environment or DEFAULT_ENVIRONMENT, release)
        found.setdefault(hash_, []).append(one)
    return found
