"""How far a topic is read: one value that its source writes, and that the pipeline and the run read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class SourceProgress:
    """Offsets of the partitions that one source reads; to be read on any thread.

    It is made before its source, so that whoever reads it needs no source.

    Args:
        topic: That is read.
    """

    def __init__(self, topic: str = "") -> None:
        self._topic = topic
        self._app: Any = None
        self._assigned: Mapping[int, tuple[int, int]] = {}

    # --- for the source

    def follow(self, app: Any) -> None:
        """Read from now on what this Faust application has fetched; None: nothing is fetched."""
        self._app = app

    def assign(self, assigned: Mapping[int, tuple[int, int]]) -> None:
        """Note by partition the offset at which reading begins, and where the partition ends now."""
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
        """Return per assigned partition: next offset to be durable, next to be fetched, end of what may be read.

        Empty until the group has given partitions and the broker has answered.
        """
        answer = {}
        for tp, state in self.partition_states():
            end = _readable_end(state)
            done = self._app.consumer.done.get(tp)
            if done is not None and state._position is not None and end is not None:
                answer[tp.partition] = (done, state._position, end)
        return answer

    def known_ends(self) -> dict[tuple[str, int], tuple[int, int]]:
        """Return by topic and partition where reading began, and one past the last record that is known to be there.

        Known from the assignment on, before anything was fetched. What ends in transaction markers ends with the last
        record that was fetched.
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
    """Return where a partition ends for who reads what is committed; None before the broker has said it."""
    lso: int | None = state.lso
    highwater: int | None = state.highwater
    return lso if lso is not None and lso >= 0 else highwater
