"""Sessions as the unit of evidence: a session is one observation, however many units it has.

Units of one session fail together. Counted one by one they raise false alarms in nearly every stream (measured: 98 to
100 %). One e-value for each session is valid under any dependence inside the session.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from gapwatch.streams.detectors.arrays import Floats, Ints
from gapwatch.streams.detectors.bets import BetTable

IDLE_BUCKETS = 20
"""A session ends 20 ticks (10 minutes) after its last unit ..."""
MOST_UNITS = 50
"""... or at 50 units, so that an endless session counts as well."""
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
        margin: Margin of each series in log odds; 0 for none.

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
    """Open sessions by series, from `session_ticks`.

    Attributes:
        open: (series, session) to [last bucket, units, bad units], in the order of their first unit.
    """

    open: dict[tuple[int, str], list[int]] = field(default_factory=dict)

    def add(self, bucket: int, series: int, session: str, units: int, bad: int) -> None:
        """Add the units of one session in one tick; ticks of a session may come in any order."""
        entry = self.open.setdefault((series, session), [bucket, 0, 0])
        entry[0] = max(entry[0], bucket)
        entry[1] += units
        entry[2] += bad

    def close(self, bucket: int) -> tuple[Ints, Floats, Ints]:
        """Remove the sessions that have ended by this tick, and return them.

        Returns:
            Series, mean in [0, 1], and units of each session, sorted by series and session, so that the order of
            arrival and the workers that counted them do not matter.
        """
        ended = sorted(
            key for key, (last, units, _) in self.open.items() if bucket - last >= IDLE_BUCKETS or units >= MOST_UNITS
        )
        sums = [self.open.pop(key) for key in ended]
        series = np.array([key[0] for key in ended], np.int64)
        units = np.array([entry[1] for entry in sums], np.int64)
        bad = np.array([entry[2] for entry in sums], np.float64)
        return series, bad / np.maximum(units, 1), units
