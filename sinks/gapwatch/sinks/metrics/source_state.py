"""State of the source of a run, for metrics, health and log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class SourceState:
    """State of the source.

    Attributes:
        state: `connecting`, `joining`, `running`, `stopping` or `stopped`.
        waiting_for: Error of the last attempt while connecting; otherwise empty.
        positions: By partition: next offset to be durable, next offset to be fetched, end of the readable records.
        lost: Number of offsets that the topic's retention deleted before they were read.
        broker_silence: Seconds since a broker last answered; None before the first answer.
        linger_seconds: Seconds that few records wait for others at present; None if not known.
        refused: Reason why a new version of a portfolio was refused; empty if none was.
    """

    state: str
    waiting_for: str = ""
    positions: Mapping[int, tuple[int, int, int]] = field(default_factory=dict)
    lost: int = 0
    refused: str = ""
    broker_silence: float | None = None
    linger_seconds: float | None = None

    @property
    def lag(self) -> int:
        """Consumer lag: number of readable records that are not durable yet."""
        return sum(max(0, end - done) for done, _, end in self.positions.values())
