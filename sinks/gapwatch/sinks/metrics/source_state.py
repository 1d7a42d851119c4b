"""How the source of a run stands, as metrics, health and log are told it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class SourceState:
    """How the source stands.

    Attributes:
        state: `connecting`, `joining`, `running`, `stopping` or `stopped`.
        waiting_for: While connecting, what was wrong with the last attempt; else empty.
        positions: By partition: next offset to be durable, next to be fetched, end of what may be read.
        lost: Offsets that retention took before they were read.
        refused: Why a new version of a portfolio was refused; empty where none was.
    """

    state: str
    waiting_for: str = ""
    positions: Mapping[int, tuple[int, int, int]] = field(default_factory=dict)
    lost: int = 0
    refused: str = ""

    @property
    def lag(self) -> int:
        """Records that could be read and are not durable yet."""
        return sum(max(0, end - done) for done, _, end in self.positions.values())
