"""Detectors of failure rates: of traces, sessions and undecided traces."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from gapwatch.streams.alerting.evaluation.series_detectors import Learned
from gapwatch.streams.alerting.evaluation.series_rows import SeriesRows
from gapwatch.streams.alerting.rules.finding import Finding
from gapwatch.streams.alerting.series.open_tick import OpenTick, gather
from gapwatch.streams.alerting.series.slice_units import OpenTicks, SliceUnits
from gapwatch.streams.detectors.arrays import Ints
from gapwatch.streams.detectors.bets import rate_bets
from gapwatch.streams.detectors.change_point import start_in_sessions
from gapwatch.streams.detectors.fleet import Fleet
from gapwatch.streams.detectors.fleet_config import FleetConfig
from gapwatch.streams.detectors.sessions import OpenSession, SessionBook, SessionTimes
from gapwatch.streams.detectors.snapshot import restore, snapshot

_UNITS, _SESSIONS = FleetConfig(rate_bets()), FleetConfig(rate_bets(), sessions=True)


class RateDetectors:
    """Detectors of the rates of one lane; see `SeriesDetectors`.

    A tick is folded when it closes; a sparse tick waits for the end of its window.

    Args:
        rows: Rows of the lane.

    Attributes:
        pending: Open tick to its units.
        late_units: Units that arrived after their tick was closed.
    """

    def __init__(self, rows: SeriesRows) -> None:
        self.pending: dict[int, OpenTick] = defaultdict(OpenTick)
        self.late_units = 0
        self._rows = rows
        self._units, self._sessions = Fleet(_UNITS), Fleet(_SESSIONS)
        self._open_sessions = SessionBook()
        self._times: dict[int, SessionTimes] = defaultdict(SessionTimes)
        rows.watched |= {name: [] for name in self.fleets}

    @property
    def fleets(self) -> dict[str, Fleet]:
        """Fleets of units (kinds `rate` and `unknown`) and of sessions."""
        return {"units": self._units, "sessions": self._sessions}

    def add(self, content: SliceUnits, there: OpenTicks) -> None:
        """Add the units of a slice to the open ticks; late units join the current tick with the hour of their event."""
        numbers = np.array([self._rows.number_of(key) for key in content.series], np.int64)
        self.late_units += int(content.counts[:3, content.ticks < there.first].sum())
        folded = there.fold_ticks(content.ticks).tolist()
        columns = zip(
            numbers[content.which].tolist(), content.ticks.tolist(), folded, *content.counts.tolist(), strict=True
        )
        for number, tick, target, good, bad, unknown, in_sessions in columns:
            cell = self.pending[target].counts[number, self._rows.hour(number, tick)]
            cell[0] += good
            cell[1] += bad
            cell[2] += unknown
            cell[3] += in_sessions
        for session in content.sessions:
            target = there.fold_tick(session.tick)
            number = self._rows.number_of(session.series)
            self.pending[target].sessions.append((number, session.session, target, session.units, session.bad))

    def ready(self, closed: int) -> Iterable[int]:
        """Return the closed ticks, with sparse ticks merged by window."""
        gather(self.pending, closed)
        return [tick for tick in self.pending if tick <= closed]

    def fold(self, tick: int) -> list[Finding]:
        """Fold a tick: its units, and the sessions that have ended."""
        pending = self.pending.pop(tick, None)
        if pending is None:
            return []
        return [*self._fold_units(tick, pending), *self._fold_sessions(tick, pending)]

    def _fold_units(self, tick: int, pending: OpenTick) -> list[Finding]:
        by_hour: dict[int, dict[tuple[int, str], tuple[int, int]]] = defaultdict(dict)
        for (number, hour), (good, bad, unknown, in_sessions) in sorted(pending.counts.items()):
            if good + bad:
                by_hour[hour][number, "rate"] = (good, bad)
            by_hour[hour][number, "unknown"] = (good + bad + in_sessions, unknown)
        if not by_hour:
            return []
        self._rows.make(self, "units", [key for _, cells in sorted(by_hour.items()) for key in cells])
        for hour, cells in sorted(by_hour.items()):
            rows = np.array([self._rows.row(*key) for key in cells], np.int64)
            self._units.fold(tick, np.array(list(cells.values()), np.float64).T, rows, hour)
        return self._rows.take_findings(self, "units", tick, tick)

    def _fold_sessions(self, tick: int, pending: OpenTick) -> list[Finding]:
        for number, session, at, units, bad in sorted(pending.sessions):
            self._open_sessions.add(at, number, session, units, bad)
        if not self._open_sessions.open:
            return []
        # A series is monitored from its first trace on, not from the end of its first session.
        self._rows.make(self, "sessions", [(number, "sessions") for number, *_ in sorted(pending.sessions)])
        ended = self._open_sessions.close(tick)
        if not len(ended.series):
            return []
        by_hour: dict[int, list[tuple[int, float]]] = defaultdict(list)
        for number, mean, closed in zip(ended.series.tolist(), ended.means.tolist(), ended.sessions, strict=True):
            by_hour[self._rows.hour(number, tick)].append((self._rows.row(number, "sessions"), mean))
            self._times[number].add(closed)
        for hour, folded in sorted(by_hour.items()):
            which = np.array([row for row, _ in folded], np.int64)
            self._sessions.fold_sessions(tick, which, np.array([mean for _, mean in folded]), hour)
        return [self._dated(finding) for finding in self._rows.take_findings(self, "sessions", tick, tick)]

    def _dated(self, finding: Finding) -> Finding:
        """Return a finding of sessions whose change is dated by their traces, not by the ends of the sessions."""
        transition = finding.transition
        if transition is None or transition.change is None:
            return finding
        number = self._rows.number_of(finding.watched.series)
        times = self._times[number]
        units = times.with_open(one for key, one in self._open_sessions.open.items() if key[0] == number)
        hours = np.array([self._rows.hour(number, tick) for tick in units.first.tolist()], np.int64)
        change = transition.change
        grew = change.after.value >= change.before.value
        start = start_in_sessions(self._sessions, transition.row, times, units, hours, grew=grew)
        dated = replace(
            change,
            change_bucket=start.median,
            from_bucket=start.earliest,
            to_bucket=start.latest,
            is_truncated=start.is_truncated,
        )
        return replace(finding, transition=replace(transition, change=dated))

    def waiting(self) -> Iterator[tuple[int, str]]:
        """Yield the (number of the series, kind) of open units, and of sessions with open units."""
        for open_tick in self.pending.values():
            for (number, _), (good, bad, *_) in open_tick.counts.items():
                yield number, "unknown"
                if good + bad:
                    yield number, "rate"
            yield from ((number, "sessions") for number, *_ in open_tick.sessions)

    def grow(self, name: str, count: int) -> Ints:
        """Add empty series to a fleet, and return their rows."""
        return self.fleets[name].add_series(count)

    def learned(self, name: str) -> Learned:
        """Return the baselines of a fleet."""
        counts = self.fleets[name].state["pooled"].sum(axis=0)
        units = counts.sum(axis=0)
        return Learned(units, (counts[1] + 0.5) / (units + 1.0))

    # ---- the state ----

    def as_json(self) -> dict[str, Any]:
        """Return everything but the fleets as JSON values."""
        return {
            "pending": [[tick, open_tick.as_json()] for tick, open_tick in sorted(self.pending.items())],
            "book": [[*key, entry.as_json()] for key, entry in self._open_sessions.open.items()],
            "times": [[number, times.as_json()] for number, times in sorted(self._times.items())],
            "late_units": self.late_units,
        }

    def take_json(self, value: Mapping[str, Any]) -> None:
        """Restore the state from `as_json`; the rows must be restored before."""
        self.pending.update((tick, OpenTick.from_json(one)) for tick, one in value["pending"])
        for number, session, entry in value["book"]:
            self._open_sessions.open[number, session] = OpenSession.from_json(entry)
        for number, times in value["times"]:
            self._times[number] = SessionTimes.from_json(times)
        self.late_units = value["late_units"]

    def snapshots(self) -> dict[str, bytes]:
        """Return each fleet as bytes, by name."""
        return {name: snapshot(fleet) for name, fleet in self.fleets.items()}

    def restore(self, snapshots: Mapping[str, bytes]) -> None:
        """Restore the fleets from `snapshots`; SnapshotError where they cannot be read."""
        self._units, self._sessions = restore(_UNITS, snapshots["units"]), restore(_SESSIONS, snapshots["sessions"])
