"""Detectors of failure rates: of traces, sessions and undecided traces."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gapwatch.streams.alerting.evaluation.series_detectors import Learned
from gapwatch.streams.alerting.evaluation.series_rows import SeriesRows
from gapwatch.streams.alerting.rules.finding import Finding
from gapwatch.streams.alerting.series.open_rates import ClosedTick, OpenRates, OpenSessionUnits
from gapwatch.streams.alerting.series.slice_units import OpenTicks, SliceUnits
from gapwatch.streams.detectors.arrays import Ints
from gapwatch.streams.detectors.batches.quiet_buckets import Bucket, fold_buckets
from gapwatch.streams.detectors.bets import rate_bets
from gapwatch.streams.detectors.change_point import start_in_sessions
from gapwatch.streams.detectors.fleet import Fleet
from gapwatch.streams.detectors.fleet_config import FleetConfig
from gapwatch.streams.detectors.sessions import SessionBook, SessionTimes
from gapwatch.streams.detectors.snapshot import restore, snapshot
from gapwatch.streams.detectors.watch import advance_phases

_UNITS, _SESSIONS = FleetConfig(rate_bets()), FleetConfig(rate_bets(), sessions=True)


class RateDetectors:
    """Detectors of the rates of one lane; see `SeriesDetectors`.

    A tick is folded when it closes; a sparse tick waits for the end of its window.

    Args:
        rows: Rows of the lane.

    Attributes:
        pending: Units of the open ticks.
        late_units: Units that arrived after their tick was closed.
    """

    def __init__(self, rows: SeriesRows) -> None:
        self.pending = OpenRates()
        self.late_units = 0
        self._rows = rows
        self._units, self._sessions = Fleet(_UNITS), Fleet(_SESSIONS)
        # Whether no unit of the closed ticks needs a new row: then none of them is searched for one.
        self._has_all_rows = False
        self._book = SessionBook()
        self._times: dict[int, SessionTimes] = defaultdict(SessionTimes)
        rows.watched |= {name: [] for name in self.fleets}

    @property
    def fleets(self) -> dict[str, Fleet]:
        """Fleets of units (kinds `rate` and `unknown`) and of sessions."""
        return {"units": self._units, "sessions": self._sessions}

    def add(self, content: SliceUnits, there: OpenTicks) -> None:
        """Add the units of a slice to the open ticks; late units join the current tick with the hour of their event."""
        self.late_units += int(content.counts[:3, content.ticks < there.first].sum())
        known = {key: self._rows.number_of(key) for key in content.series}
        numbers = np.array(list(known.values()), np.int64)[content.which]
        hours = self._rows.hours(numbers, content.ticks)
        self.pending.add(there.fold_ticks(content.ticks), numbers, hours, content.counts)
        for one in content.sessions:
            number = known[one.series]
            target = there.fold_tick(one.tick)
            self.pending.add_session(OpenSessionUnits(number, one.session, target, one.units, one.bad))

    def most_entries(self) -> int:
        """Return the number of open entries, or a little more."""
        return self.pending.most_entries()

    def sizes(self) -> dict[int, int]:
        """Return the number of entries of each open tick."""
        return self.pending.sizes()

    def ready(self, closed: int) -> Iterable[int]:
        """Return the closed ticks, with sparse ticks merged by window."""
        ticks = self.pending.ready(closed)
        cells = [units.cells for units in self.pending.closed.values()]
        self._has_all_rows = not cells or not self._lacks_rows(np.concatenate(cells, axis=1))
        return ticks

    def is_plain(self, tick: int) -> bool:
        """Return whether a ready tick makes no new row."""
        units = self.pending.closed.get(tick)
        if units is None:
            return True
        has_rows = self._has_all_rows or not self._lacks_rows(units.cells)
        return has_rows and not (units.sessions and self._rows.without_row(_sessions_of(units)))

    def _lacks_rows(self, cells: Ints) -> bool:
        decided = cells[2] + cells[3] > 0
        unknown, rate = self._rows.rows(cells[0], "unknown"), self._rows.rows(cells[0, decided], "rate")
        return bool((unknown < 0).any() or (rate < 0).any())

    def fold(self, ticks: Sequence[int]) -> list[Finding]:
        """Fold some ticks: their units, and the sessions that count from them on."""
        taken = [(tick, units) for tick in ticks if (units := self.pending.take(tick)) is not None]
        found = self._fold_units([(tick, units.cells) for tick, units in taken if units.cells.shape[1]])
        for tick, units in taken:
            found += self._fold_sessions(tick, units)
        return found

    def _fold_units(self, ticks: list[tuple[int, Ints]]) -> list[Finding]:
        """Fold the units of some ticks; neighbours with units of one and the same hour are folded at once."""
        found: list[Finding] = []
        hours = [_hours_of(cells) for _, cells in ticks]
        for _, some in itertools.groupby(range(len(ticks)), lambda i: hours[i] if len(hours[i]) == 1 else [-i - 1]):
            mine = list(some)
            if len(ticks) == 1 and self._lacks_rows(ticks[0][1]):  # several are plain
                self._make_rows(ticks[0][1])
            buckets = [self._buckets(*ticks[i]) for i in mine]
            if len(mine) > 1:
                hour = hours[mine[0]][0]
                steps = fold_buckets(self._units, hour, [one for by_hour in buckets for _, one in by_hour])
            else:
                for hour, one in buckets[0]:
                    self._units.fold(one.number, one.counts, one.rows, hour)
                steps = [advance_phases(self._units, ticks[mine[0]][0])]
            for i, moved in zip(mine, steps, strict=True):
                found += self._rows.take_findings("units", ticks[i][0], ticks[i][0], moved)
        return found

    def _make_rows(self, cells: Ints) -> None:
        """Make the rows of a tick that are missing."""
        self._rows.make(self, "units", [key for mine in _by_hour(cells) for key in _keys_of(mine)])

    def _buckets(self, tick: int, cells: Ints) -> list[tuple[int, Bucket]]:
        """Return the units of a tick by hour of the week, ascending; all of them have rows."""
        made = []
        for number, hour, good, bad, unknown, in_sessions in _by_hour(cells):
            units = good + bad
            decided = units > 0
            rows = np.concatenate([self._rows.rows(number[decided], "rate"), self._rows.rows(number, "unknown")])
            n = len(rows) - len(number)
            counts = np.empty((2, len(rows)), np.int64)
            counts[0, :n], counts[0, n:] = good[decided], units + in_sessions
            counts[1, :n], counts[1, n:] = bad[decided], unknown
            made.append((int(hour[0]), Bucket(tick, counts, rows)))
        return made

    def _fold_sessions(self, tick: int, pending: ClosedTick) -> list[Finding]:
        for number, session, at, units, bad in sorted(pending.sessions):
            self._book.add(at, number, session, units, bad)
        if not self._book.open and not self._book.counted:
            return []
        # A series is monitored from its first trace on, not from the end of its first session.
        self._rows.make(self, "sessions", _sessions_of(pending))
        ended = self._book.close(tick)
        if not len(ended.series):
            return []
        by_hour: dict[int, list[tuple[int, float]]] = defaultdict(list)
        for number, mean, closed in zip(ended.series.tolist(), ended.means.tolist(), ended.sessions, strict=True):
            by_hour[self._rows.hour(number, tick)].append((self._rows.row(number, "sessions"), mean))
            self._times[number].add(closed)
        for hour, folded in sorted(by_hour.items()):
            which = np.array([row for row, _ in folded], np.int64)
            self._sessions.fold_sessions(tick, which, np.array([mean for _, mean in folded]), hour)
        findings = self._rows.take_findings("sessions", tick, tick, advance_phases(self._sessions, tick))
        return [self._dated(finding) for finding in findings]

    def _dated(self, finding: Finding) -> Finding:
        """Return a finding of sessions whose change is dated by their traces, not by the ends of the sessions."""
        transition = finding.transition
        if transition is None or transition.change is None:
            return finding
        number = self._rows.number_of(finding.watched.series)
        times = self._times[number]
        units = times.with_open(one for key, one in self._book.open.items() if key[0] == number)
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
        return self.pending.waiting()

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
            "pending": self.pending.as_json(),
            "book": self._book.as_json(),
            "times": [[number, times.as_json()] for number, times in sorted(self._times.items())],
            "late_units": self.late_units,
        }

    def take_json(self, value: Mapping[str, Any]) -> None:
        """Restore the state from `as_json`; the rows must be restored before."""
        self.pending.take_json(value["pending"])
        self._book = SessionBook.from_json(value["book"])
        for number, times in value["times"]:
            self._times[number] = SessionTimes.from_json(times)
        self.late_units = value["late_units"]

    def snapshots(self) -> dict[str, bytes]:
        """Return each fleet as bytes, by name."""
        return {name: snapshot(fleet) for name, fleet in self.fleets.items()}

    def restore(self, snapshots: Mapping[str, bytes]) -> None:
        """Restore the fleets from `snapshots`; SnapshotError where they cannot be read."""
        self._units, self._sessions = restore(_UNITS, snapshots["units"]), restore(_SESSIONS, snapshots["sessions"])


def _by_hour(cells: Ints) -> list[Ints]:
    """Return the cells of a tick by hour of the week, ascending."""
    hours = _hours_of(cells)
    return [cells] if len(hours) == 1 else [cells[:, cells[1] == hour] for hour in hours]


def _hours_of(cells: Ints) -> list[int]:
    """Return the hours of the week of the cells of a tick, ascending."""
    return sorted(set(cells[1].tolist()))


def _keys_of(cells: Ints) -> Iterator[tuple[int, str]]:
    """Yield the (number of the series, kind) of the cells of a tick, in the order in which their rows are made."""
    for number, good, bad in cells[[0, 2, 3]].T.tolist():
        if good + bad:
            yield number, "rate"
        yield number, "unknown"


def _sessions_of(units: ClosedTick) -> list[tuple[int, str]]:
    """Return the (number of the series, kind) of the sessions of a tick, in the order in which their rows are made."""
    return [(number, "sessions") for number, *_ in sorted(units.sessions)]
