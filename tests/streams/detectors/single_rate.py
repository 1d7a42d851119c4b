"""One rate, one unit at a time, in plain Python: the law in a dozen lines, as the reference of the folded form."""

from __future__ import annotations

import math

from gapwatch.streams.detectors.bets import RATE_DELTAS


class SingleRate:
    """The growing-baseline e-detector of one 0/1 series, one direction, margin 0.

    Attributes:
        no: Units without, with the prior of 1/2.
        yes: Units with.
        evidence: R of each bet.

    Source, promise: as `evidence.increments` with buckets of one unit. For a burn-in add its counts to `no` and `yes`.

    Example:
        >>> series = SingleRate(up=True)
        >>> any(series.update(False) >= 1e6 for _ in range(1000))
        False
    """

    def __init__(self, up: bool, deltas: tuple[float, ...] = RATE_DELTAS) -> None:
        sign = 1.0 if up else -1.0
        self.no = 0.5
        self.yes = 0.5
        self._bets = [math.exp(sign * delta) for delta in deltas]
        self._count = len(deltas)
        self.evidence = [0.0] * len(deltas)

    def update(self, is_yes: bool) -> float:
        """Fold one unit; return M, to be compared with A."""
        rate = self.yes / (self.no + self.yes)
        rest = 1.0 - rate
        evidence = self.evidence
        total = 0.0
        if is_yes:
            self.yes += 1.0
            for bet, odds in enumerate(self._bets):
                r = evidence[bet] = (evidence[bet] + 1.0) * odds / (rest + rate * odds)
                total += r
        else:
            self.no += 1.0
            for bet, odds in enumerate(self._bets):
                r = evidence[bet] = (evidence[bet] + 1.0) / (rest + rate * odds)
                total += r
        return total / self._count
