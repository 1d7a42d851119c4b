"""Protocols of the pipeline's observers, and of the judges that take its requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.scorers.slices.slices import ScoredSlice
from gapwatch.sinks.metrics.source_state import SourceState


class PipelineObserver(Protocol):
    """Receives the events of a run; an exception of an observer ends the process."""

    def slice_stored(self, scored: ScoredSlice, seconds_by_stage: Mapping[str, float]) -> None:
        """Handle a committed piece; called on the writer thread. Stages: `score`, `keep` (writing)."""

    def source_state(self, state: SourceState) -> None:
        """Handle the state of the source; called about once a second, on the event loop."""

    def portfolios_changed(self, portfolios: Sequence[Portfolio]) -> None:
        """Handle new portfolios, in force from the next slice on; called on the writer thread."""


class ObserverGroup:
    """Passes each event to several observers.

    Args:
        observers: The observers, in the order in which they are called.
    """

    def __init__(self, *observers: PipelineObserver) -> None:
        self._observers = observers

    def slice_stored(self, scored: ScoredSlice, seconds_by_stage: Mapping[str, float]) -> None:
        """Pass on a committed piece."""
        for observer in self._observers:
            observer.slice_stored(scored, seconds_by_stage)

    def source_state(self, state: SourceState) -> None:
        """Pass on the state of the source."""
        for observer in self._observers:
            observer.source_state(state)

    def portfolios_changed(self, portfolios: Sequence[Portfolio]) -> None:
        """Pass on new portfolios."""
        for observer in self._observers:
            observer.portfolios_changed(portfolios)


class RequestTaker(Protocol):
    """Answers the judge requests that a pipeline stores; called on the writer thread."""

    def requests_stored(self) -> None:
        """Handle new requests in the store."""

    def portfolios_changed(self, portfolios: Sequence[Portfolio]) -> None:
        """Handle new portfolios, in force from the next slice on."""
