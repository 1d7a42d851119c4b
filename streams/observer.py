"""What a pipeline tells its observers: slices that are stored, the state of the source, portfolios in force."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from scorers.portfolio import Portfolio
from scorers.slices import ScoredSlice


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


class PipelineObserver(Protocol):
    """Who is told what goes on; what it raises ends the process, so it had better not."""

    def slice_kept(self, scored: ScoredSlice, seconds_by_stage: Mapping[str, float]) -> None:
        """A piece is committed; on the keeper's thread. Stages: `score`, `keep`."""

    def source_state(self, state: SourceState) -> None:
        """Told about once a second, on the event loop."""

    def portfolios_changed(self, portfolios: Sequence[Portfolio]) -> None:
        """These are in force from the next slice on; on the keeper's thread."""


class ObserverGroup:
    """Several observers as one; each is told in turn.

    Args:
        observers: In the order in which they are told.
    """

    def __init__(self, *observers: PipelineObserver) -> None:
        self._observers = observers

    def slice_kept(self, scored: ScoredSlice, seconds_by_stage: Mapping[str, float]) -> None:
        """Tell all of a committed piece."""
        for observer in self._observers:
            observer.slice_kept(scored, seconds_by_stage)

    def source_state(self, state: SourceState) -> None:
        """Tell all how the source stands."""
        for observer in self._observers:
            observer.source_state(state)

    def portfolios_changed(self, portfolios: Sequence[Portfolio]) -> None:
        """Tell all which portfolios are in force."""
        for observer in self._observers:
            observer.portfolios_changed(portfolios)


class RequestTaker(Protocol):
    """Judges the requests that a pipeline stores; on the store's thread."""

    def requests_stored(self) -> None:
        """There may be something to judge."""

    def portfolios_changed(self, portfolios: Sequence[Portfolio]) -> None:
        """These are in force from the next slice on."""
