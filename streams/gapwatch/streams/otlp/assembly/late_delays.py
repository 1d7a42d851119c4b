"""`LateDelays`: how late the spans of closed traces come, and which quiet time would have caught them."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter

#: Upper bounds of the histogram, seconds.
BOUNDS = (0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1_800.0, 3_600.0)


class LateDelays:
    """Histograms of late spans.

    Attributes:
        count: Number of late spans.
        sum: Their delays after the closing of their trace, added up, seconds.
        by_service: Number by service.
    """

    def __init__(self) -> None:
        self.count, self.sum = 0, 0.0
        self.by_service: Counter[str] = Counter()
        self._after_close = [0] * (len(BOUNDS) + 1)
        self._gaps = [0] * (len(BOUNDS) + 1)

    def add(self, service: str, delay: float, gap: float) -> None:
        """Count a late span.

        Args:
            service: Its service.
            delay: Seconds since its trace was closed.
            gap: Seconds since the last span of the trace that came in time; a quiet time above it would have caught it.
        """
        self.count += 1
        self.sum += delay
        if service in self.by_service or len(self.by_service) < 1_000:
            self.by_service[service] += 1
        self._after_close[bisect_left(BOUNDS, delay)] += 1
        self._gaps[bisect_left(BOUNDS, gap)] += 1

    def buckets(self) -> list[tuple[float, int]]:
        """Return the upper bounds of the histogram of delays, in seconds, each with the number at or below it."""
        found, total = [], 0
        for bound, n in zip((*BOUNDS, float("inf")), self._after_close, strict=True):
            total += n
            found.append((bound, total))
        return found

    def quiet_for(self, share: float) -> float:
        """Return the quiet time, a bound of the histogram, that would have caught a share of the late spans.

        Args:
            share: Above 0, at most 1.

        Returns:
            Seconds; 0 without a late span, infinity if none of the bounds would have.
        """
        total = 0
        for bound, n in zip((*BOUNDS, float("inf")), self._gaps, strict=True):
            total += n
            if self.count and total >= share * self.count:
                return bound
        return 0.0
