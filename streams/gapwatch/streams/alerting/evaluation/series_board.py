"""Status of all monitored series, computed once: the store, `/metrics`, the page and the commands show the same."""

from __future__ import annotations

import time
from collections.abc import Sequence

from gapwatch.streams.alerting.evaluation.lane_detectors import LaneDetectors
from gapwatch.streams.alerting.evaluation.series_status import SeriesState, series_states

#: Seconds of work after which the stored status is replaced even if no phase has changed: units and evidence grow.
WRITE_SECONDS = 60.0
# Largest share of the time that computing the status may take; it takes milliseconds for tens of series.
_SHARE = 0.02


class SeriesBoard:
    """Latest status of the monitored series of one lane.

    Attributes:
        states: Status of each row, in the order in which the rows were added.
    """

    def __init__(self) -> None:
        self.states: Sequence[SeriesState] = ()
        self._seen: tuple[int, ...] = ()
        self._next = 0.0
        self._written: Sequence[tuple[object, str]] | None = None
        self._written_at = 0.0

    def renew(self, detectors: Sequence[LaneDetectors], *, must: bool = False) -> None:
        """Compute the status again where a tick was folded or a series is new.

        Args:
            detectors: Detectors of each pipeline of the lane.
            must: Compute it now, also if the last computation was a short time ago.
        """
        seen = tuple(
            n for one in detectors for n in (one.folded, len(one.rows.series), *map(len, one.rows.watched.values()))
        )
        now = time.monotonic()
        if not must and (seen == self._seen or now < self._next):
            return
        self.states, self._seen = tuple(state for one in detectors for state in series_states(one)), seen
        self._next = now + (time.monotonic() - now) / _SHARE

    def is_due(self, second: float) -> bool:
        """Return whether the stored status is to be replaced: a series or a phase differs, or it is a minute old.

        Args:
            second: Time of the commit, seconds since the epoch.
        """
        return self._written != self._phases() or not 0 <= second - self._written_at < WRITE_SECONDS

    def note_written(self, second: float) -> None:
        """Note that the present status is written with the commit of this time."""
        self._written, self._written_at = self._phases(), second

    def _phases(self) -> list[tuple[object, str]]:
        return [(state.watched, state.phase) for state in self.states]
