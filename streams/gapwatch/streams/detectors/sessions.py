"""Sessions as the unit of evidence: a session is one observation, however many units it has.

Units of one session fail together. Counted one by one they raise false alarms in nearly every stream (measured: 98 to
100 %). One e-value for each session is valid under any dependence inside the session.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from gapwatch.streams.detectors.arrays import Floats, Ints
from gapwatch.streams.detectors.bets import BetTable

IDLE_BUCKETS = 20
"""A session ends 20 ticks (10 minutes) after its last unit, ..."""
MOST_UNITS = 50
"""... or at 50 units, so that an endless session counts as well."""
RESUMED_SHARE = 0.01
"""A session counts before it ends, once it has paused for longer than all but this share of the sessions ever did."""
# A unit may lie at the begin of its tick or at the end: a pause of two ticks is half a minute at least.
_SHORTEST_PAUSE = 2
# Ended sessions of a series from which its pauses are known, and from which half of them are forgotten.
_LEAST_ENDED, _MOST_ENDED = 500, 5_000
OPENING_BUCKETS = 6
"""Ticks (three minutes) after its first trace, of which sessions of one age are compared before they end."""
WINDOW_BUCKETS = 10
"""Ticks of a window of five minutes, in which older traces are summed."""
MOST_TIMES = 480
"""Most ticks, and most windows, whose traces are stored for the date of a change. Fewer reach back less far: a busy
series has four hours of ticks and 40 hours of windows. More make the saved state larger, by 40 bytes each."""
# Largest share of the evidence that one session may take away.
_LARGEST_LOSS = 0.9
_LEAST_VARIANCE = 1e-6


def shift_odds(mean: Floats, tilt: Floats | float) -> Floats:
    """Return the mean whose log odds are `tilt` higher."""
    grown = mean * np.exp(tilt)
    result: Floats = grown / (1.0 - mean + grown)
    return result


def session_log_factors(
    y: Floats, mean: Floats, variance: Floats, tilt: float | Floats, null_tilt: Floats | float
) -> Floats:
    """Return ln(1 + lam (y - m)) for sessions y against every mean up to m = `mean` tilted by `null_tilt`.

        lam = min(D / (v + D^2), 0.9 / m),  D = shift(m, tilt) - m

    Args:
        y: Mean of each session, in [0, 1].
        mean: Baseline mean for each session.
        variance: Running variance of y for each session.
        tilt: Size of the bet, log odds, > 0 for "more"; for "less" pass 1 - y, 1 - mean and a positive tilt.
        null_tilt: Log odds that do not count as a change.

    Source:
        Betting martingales with variance-adaptive bets (Waudby-Smith and Ramdas 2024, "Estimating means of bounded
        random variables by betting"), inside the e-detector of Shin, Ramdas, Rinaldo. Promise: the factor's mean is at
        most 1 when the mean of y given the past is at most m. The learned mean is plugged in. With fewer than four
        times as many learned sessions as sessions of the bet it does not hold, and the fold then only learns.
    """
    null = shift_odds(mean, null_tilt)
    step = shift_odds(null, tilt) - null
    lam = step / (np.maximum(variance, _LEAST_VARIANCE) + step * step)
    lam = np.minimum(lam, _LARGEST_LOSS / np.maximum(null, 1e-12))
    result: Floats = np.log1p(lam * (y - null))
    return result


def session_increments(
    table: BetTable, series: int, which: Ints, y: Floats, mean: Floats, variance: Floats, margin: Floats
) -> Floats:
    """Return the log factor of each bet of a rate table for the sessions of one bucket, shape (bets, series).

    Args:
        table: `rate_bets()`.
        series: Number of series in the call.
        which: Series of each session, 0 to series - 1.
        y: Mean of each session, in [0, 1].
        mean: Baseline mean of each series.
        variance: Running variance of y of each series.
        margin: Margin of each series upwards and downwards, in log odds, shape (2, series); 0 for none.

    Source, promise: see `session_log_factors`.
    """
    result = np.zeros((table.count, series))
    own_mean, own_variance, own_margin = mean[which], variance[which], margin[:, which]
    for bet, delta in enumerate(table.deltas.tolist()):
        seen, expected = (y, own_mean) if delta > 0 else (1.0 - y, 1.0 - own_mean)
        own = own_margin[0 if delta > 0 else 1]
        factors = session_log_factors(seen, expected, own_variance, abs(delta), own)
        result[bet] = np.bincount(which, factors, series)
    return result


@dataclass
class OpenSession:
    """Units of one open session.

    Attributes:
        last: Tick of its last unit.
        units: All units.
        bad: Bad units among them.
        by_tick: Tick to [units, bad units].
    """

    last: int
    units: int = 0
    bad: int = 0
    by_tick: dict[int, list[int]] = field(default_factory=dict)

    @property
    def pause(self) -> int:
        """Longest time between two of its ticks with units, in ticks."""
        ticks = sorted(self.by_tick)
        return max((later - tick for tick, later in itertools.pairwise(ticks)), default=0)

    def add(self, tick: int, units: int, bad: int) -> None:
        """Add the units of one tick."""
        self.last = max(self.last, tick)
        self.units += units
        self.bad += bad
        cell = self.by_tick.setdefault(tick, [0, 0])
        cell[0] += units
        cell[1] += bad

    def as_json(self) -> list[list[int]]:
        """Return the units by tick as JSON values."""
        return [[tick, units, bad] for tick, (units, bad) in sorted(self.by_tick.items())]

    @classmethod
    def from_json(cls, value: list[list[int]]) -> OpenSession:
        """Return the session from `as_json`."""
        session = cls(0)
        for tick, units, bad in value:
            session.add(tick, units, bad)
        return session


@dataclass
class Pauses:
    """Longest pauses of the sessions of one series that have ended: how long a session may pause and still go on.

    Attributes:
        counts: Number of sessions by their longest pause, in ticks from 0 to `IDLE_BUCKETS`.
    """

    counts: list[int] = field(default_factory=lambda: [0] * (IDLE_BUCKETS + 1))

    def add(self, pause: int) -> None:
        """Add an ended session. Where many are known, half of them are forgotten, so that habits may change."""
        self.counts[min(pause, IDLE_BUCKETS)] += 1
        if sum(self.counts) >= _MOST_ENDED:
            self.counts = [n // 2 for n in self.counts]

    @property
    def longest(self) -> int:
        """Shortest pause, in ticks, that at most `RESUMED_SHARE` of the sessions outlasted; `IDLE_BUCKETS` if unknown.

        Source: (k + 1) / (n + 1), the mean of the share's posterior under a uniform prior for k of n, a little above.
        """
        known = sum(self.counts)
        if known < _LEAST_ENDED:
            return IDLE_BUCKETS
        outlasted = np.cumsum(self.counts[::-1])[::-1] - self.counts
        short = np.flatnonzero((outlasted + 1) <= RESUMED_SHARE * (known + 1))
        return int(max(short[0], _SHORTEST_PAUSE)) if len(short) else IDLE_BUCKETS


class EndedSessions(NamedTuple):
    """Sessions that count from one tick on, sorted by series and session.

    The order of arrival and the workers that counted them do not matter.

    Attributes:
        series: Series of each session.
        means: Share of bad units of each session, in [0, 1].
        sessions: The sessions.
    """

    series: Ints
    means: Floats
    sessions: list[OpenSession]


@dataclass
class SessionBook:
    """Sessions by series, from `session_ticks`: open ones, and those that count already but may go on.

        units   x-x-x....|.......x..............|      | 1: it has paused for longer than nearly all sessions of its
                         1                      2        series ever did, and counts; 2: ten idle minutes, it has ended

    What a session does after it was counted is no evidence: when it counts is decided by its pause alone, never by its
    outcomes, and each session counts once. It still tells how long sessions pause.

    Attributes:
        open: (series, session) to its units, in the order of their first unit.
        counted: (series, session) to [tick of the last unit, longest pause so far, units] of counted ones.
        pauses: Series to the pauses of its ended sessions.
    """

    open: dict[tuple[int, str], OpenSession] = field(default_factory=dict)
    counted: dict[tuple[int, str], list[int]] = field(default_factory=dict)
    pauses: dict[int, Pauses] = field(default_factory=lambda: defaultdict(Pauses))

    def add(self, tick: int, series: int, session: str, units: int, bad: int) -> None:
        """Add the units of one session in one tick; ticks of a session may come in any order."""
        counted = self.counted.get((series, session))
        if counted is None:
            self.open.setdefault((series, session), OpenSession(tick)).add(tick, units, bad)
            return
        last, pause, before = counted
        self.counted[series, session] = [max(last, tick), max(pause, tick - last), before + units]

    def close(self, bucket: int) -> EndedSessions:
        """Return the sessions that count from this tick on; forget those that have ended."""
        for (series, session), (last, pause, so_far) in list(self.counted.items()):
            if bucket - last >= IDLE_BUCKETS or so_far >= MOST_UNITS:
                self.pauses[series].add(pause)
                del self.counted[series, session]
        longest = {series: self.pauses[series].longest for series in {series for series, _ in self.open}}
        ended = sorted(
            key for key, one in self.open.items() if bucket - one.last >= longest[key[0]] or one.units >= MOST_UNITS
        )
        sessions = [self.open.pop(key) for key in ended]
        for key, one in zip(ended, sessions, strict=True):
            if bucket - one.last >= IDLE_BUCKETS or one.units >= MOST_UNITS:
                self.pauses[key[0]].add(one.pause)
            else:
                self.counted[key] = [one.last, one.pause, one.units]
        units = np.array([one.units for one in sessions], np.float64)
        bad = np.array([one.bad for one in sessions], np.float64)
        return EndedSessions(np.array([key[0] for key in ended], np.int64), bad / np.maximum(units, 1.0), sessions)

    def as_json(self) -> dict[str, Any]:
        """Return the book as JSON values."""
        return {
            "open": [[*key, one.as_json()] for key, one in self.open.items()],
            "counted": [[*key, *one] for key, one in self.counted.items()],
            "pauses": [[series, one.counts] for series, one in sorted(self.pauses.items())],
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> SessionBook:
        """Return the book from `as_json`."""
        book = cls({(series, session): OpenSession.from_json(one) for series, session, one in value["open"]})
        book.counted = {(series, session): one for series, session, *one in value["counted"]}
        book.pauses.update({series: Pauses(counts) for series, counts in value["pauses"]})
        return book


@dataclass(frozen=True)
class TimedUnits:
    """Units of sessions by the time of their traces; the units of one session weigh one together.

    Attributes:
        first: First tick of each entry, ascending.
        last: Last tick of each entry.
        good: Weight of the good units.
        bad: Weight of the bad units.
    """

    first: Ints
    last: Ints
    good: Floats
    bad: Floats


@dataclass
class SessionTimes:
    """Traces of the recent sessions of one series by tick: a session is folded when it ends, but it began earlier.

        session  a  x---x--x..........| ends, is folded here         the change point is looked for among the x
                 b        x-x----x..........| ends

    The latest `MOST_TIMES` ticks are stored one by one, and as many windows of five minutes before them.

    Attributes:
        ticks: Tick to the weights [good, bad].
        windows: Number of the window to the weights [good, bad].
        closed: Sessions so far, and the sum of 1 / units over them.
    """

    ticks: dict[int, list[float]] = field(default_factory=dict)
    windows: dict[int, list[float]] = field(default_factory=dict)
    closed: list[float] = field(default_factory=lambda: [0.0, 0.0])

    def add(self, session: OpenSession) -> None:
        """Add an ended session."""
        self.closed[0] += 1.0
        self.closed[1] += 1.0 / session.units
        _add_session(self.ticks, session)
        while len(self.ticks) > MOST_TIMES:
            oldest = min(self.ticks)
            cell = self.windows.setdefault(oldest // WINDOW_BUCKETS, [0.0, 0.0])
            good, bad = self.ticks.pop(oldest)
            cell[0] += good
            cell[1] += bad
        while len(self.windows) > MOST_TIMES:
            del self.windows[min(self.windows)]

    def with_open(self, sessions: Iterable[OpenSession]) -> TimedUnits:
        """Return the units by time, with those of sessions that are still open."""
        ticks = {tick: list(cell) for tick, cell in self.ticks.items()}
        for session in sessions:
            _add_session(ticks, session)
        spans = {(n * WINDOW_BUCKETS, n * WINDOW_BUCKETS + WINDOW_BUCKETS - 1): one for n, one in self.windows.items()}
        spans |= {(tick, tick): cell for tick, cell in ticks.items()}
        entries = sorted((first, last, *cell) for (first, last), cell in spans.items())
        first, last, good, bad = np.array(entries, np.float64).reshape(-1, 4).T
        return TimedUnits(first.astype(np.int64), last.astype(np.int64), good, bad)

    def as_json(self) -> list[Any]:
        """Return the times as JSON values."""
        parts = [sorted([at, *cell] for at, cell in part.items()) for part in (self.ticks, self.windows)]
        return [*parts, self.closed]

    @classmethod
    def from_json(cls, value: list[Any]) -> SessionTimes:
        """Return the times from `as_json`."""
        ticks, windows, closed = value
        return cls({at: cell for at, *cell in ticks}, {at: cell for at, *cell in windows}, closed)


def _add_session(ticks: dict[int, list[float]], session: OpenSession) -> None:
    for tick, (units, bad) in sorted(session.by_tick.items()):
        cell = ticks.setdefault(tick, [0.0, 0.0])
        cell[0] += (units - bad) / session.units
        cell[1] += bad / session.units
