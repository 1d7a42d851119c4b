"""Sessions as the unit of evidence: what happens inside one session is one observation, however long it is.

Units of one session fail together. Counted one by one they raise false alarms in nearly every stream (measured: 98 to
100 %); one e-value for each session is valid under any dependence inside it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from gapwatch.streams.detectors.arrays import Floats, Ints
from gapwatch.streams.detectors.bets import BetTable

IDLE_BUCKETS = 20
"""A session is closed 20 ticks (10 minutes) after its last unit ..."""
MOST_UNITS = 50
"""... or at 50 units, so that an endless one is still seen."""
# Bets are kept below the point where one session could take all evidence away.
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
        null_tilt: Log odds that are no news.

    Source:
        Betting martingales with variance-adaptive bets (Waudby-Smith and Ramdas 2024, "Estimating means of bounded
        random variables by betting"), inside the e-detector of Shin, Ramdas, Rinaldo. Promise: the factor's mean is at
        most 1 when the mean of y given the past is at most m. The learned mean is plugged in; with fewer than four
        times as many sessions learned as bet on it does not hold, and the fold then only learns.
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
        which: For each session the series it belongs to, 0 to series - 1.
        y: For each session its mean, in [0, 1].
        mean: For each series the baseline mean.
        variance: For each series the running variance of y.
        margin: For each series the margin in log odds; 0 for none.

    Source, promise: see `session_log_factors`.
    """
    result = np.zeros((table.count, series))
    own_mean, own_variance, own_margin = mean[which], variance[which], margin[which]
    for bet, delta in enumerate(table.deltas.tolist()):
        seen, expected = (y, own_mean) if delta > 0 else (1.0 - y, 1.0 - own_mean)
        factors = session_log_factors(seen, expected, own_variance, abs(delta), own_margin)
        result[bet] = np.bincount(which, factors, series)
    return result


@dataclass
class SessionBook:
    """Sessions that are still open, by series; pure bookkeeping over `session_ticks`.

    Attributes:
        open: (series, session) to [last bucket, units, bad]; in the order of their first unit.
    """

    open: dict[tuple[int, str], list[int]] = field(default_factory=dict)

    def add(self, bucket: int, series: int, session: str, units: int, bad: int) -> None:
        """Add the units of one session in one tick; ticks of a session may come in any order."""
        entry = self.open.setdefault((series, session), [bucket, 0, 0])
        entry[0] = max(entry[0], bucket)
        entry[1] += units
        entry[2] += bad

    def close(self, bucket: int) -> tuple[Ints, Floats, Ints]:
        """Take out the sessions that have ended by this tick.

        Returns:
            Series, mean in [0, 1], and units of each, sorted by series and session: the order of their coming, or of
            the workers that counted them, changes nothing.
        """
        ended = sorted(
            key for key, (last, units, _) in self.open.items() if bucket - last >= IDLE_BUCKETS or units >= MOST_UNITS
        )
        sums = [self.open.pop(key) for key in ended]
        series = np.array([key[0] for key in ended], np.int64)
        units = np.array([entry[1] for entry in sums], np.int64)
        bad = np.array([entry[2] for entry in sums], np.float64)
        return series, bad / np.maximum(units, 1), units
