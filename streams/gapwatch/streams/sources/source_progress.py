"""Offsets read and stored of a topic's partitions; written by the source, read by the pipeline and the run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class SourceProgress:
    """Offsets of the partitions that one source reads; any thread may read them.

    It is made before its source, so that readers do not need the source.

    Args:
        topic: Topic of the source.
    """

    def __init__(self, topic: str = "") -> None:
        self._topic = topic
        self._app: Any = None
        self._assigned: Mapping[int, tuple[int, int]] = {}

    # --- for the source

    def follow(self, app: Any) -> None:
        """Take offsets from this Faust application from now on; None: there is none."""
        self._app = app

    def assign(self, assigned: Mapping[int, tuple[int, int]]) -> None:
        """Set by partition the first offset to read, and the end of the partition now."""
        self._assigned = assigned

    def partition_states(self) -> list[tuple[Any, Any]]:
        """Return the assigned partitions with their states, as aiokafka has them."""
        consumer = self._app and self._app.consumer
        kafka = consumer and consumer._thread and consumer._thread._consumer
        subscription = kafka and kafka._subscription.subscription
        assignment = subscription and subscription.assignment
        return [(tp, assignment.state_value(tp)) for tp in assignment.tps] if assignment else []

    # --- for all

    def positions(self) -> dict[int, tuple[int, int, int]]:
        """Return by assigned partition: next offset to be stored, next to be fetched, end of the readable records.

        Empty until partitions are assigned and the broker has answered.
        """
        answer = {}
        for tp, state in self.partition_states():
            end = _readable_end(state)
            done = self._app.consumer.done.get(tp)
            if done is not None and state._position is not None and end is not None:
                answer[tp.partition] = (done, state._position, end)
        return answer

    def known_ends(self) -> dict[tuple[str, int], tuple[int, int]]:
        """Return by topic and partition the first offset of this run, and one past the last record known to exist.

        Available from the assignment on, before the first fetch. For a partition that ends in transaction markers, the
        end is one past the last fetched record.
        """
        ends = dict(self._assigned)
        for tp, state in self.partition_states():
            start, end = ends.get(tp.partition, (0, 0))
            end = max(end, _readable_end(state) or 0)
            thread = self._app.consumer._thread
            if state._position is not None and state._position >= end and not thread.is_taking:
                end = thread.taken.get(tp, start)
            ends[tp.partition] = (start, end)
        return {(self._topic, partition): known for partition, known in ends.items()}


def _readable_end(state: Any) -> int | None:
    """Return the end of a partition for a reader of committed records; None before the broker has answered."""
    lso: int | None = state.lso
    highwater: int | None = state.highwater
    return lso if lso is not None and lso >= 0 else highwater
