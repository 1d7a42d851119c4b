"""What a pipeline tells its observers: slices that are stored, the state of the source, portfolios in force."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.scorers.slices.slices import ScoredSlice
from gapwatch.sinks.metrics.source_state import SourceState


class PipelineObserver(Protocol):
    """Who is told what goes on; what it raises ends the process, so it had better not."""

    def slice_stored(self, scored: ScoredSlice, seconds_by_stage: Mapping[str, float]) -> None:
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

    def slice_stored(self, scored: ScoredSlice, seconds_by_stage: Mapping[str, float]) -> None:
        """Tell all of a committed piece."""
        for observer in self._observers:
            observer.slice_stored(scored, seconds_by_stage)

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
