"""Reduction of the judges' sampling rates, set by the run and read by the pipeline for each slice."""

from __future__ import annotations

import logging
from collections.abc import Mapping

log = logging.getLogger("gapwatch.run")


class JudgeThrottle:
    """Limits the requests to judges; any thread may write and read it.

    Attributes:
        rates: Factors of the judges' sampling rates by (pipeline, metric), powers of 1/2; 1 for a metric that is
            missing.
        is_shedding: True while judging is skipped, because records wait too long to be stored.
    """

    def __init__(self) -> None:
        self.rates: Mapping[tuple[str, str], float] = {}
        self.is_shedding = False

    def set_rates(self, rates: Mapping[tuple[str, str], float]) -> None:
        """Set the factors of the judges' sampling rates; they fall as spending approaches the weekly caps."""
        if rates != self.rates:
            log.info("judge sampling rates: %s", _in_words(rates))
            self.rates = rates

    def set_shedding(self, is_shedding: bool) -> bool:
        """Skip judging, or resume it; return True if that is a change."""
        is_change = is_shedding is not self.is_shedding
        self.is_shedding = is_shedding
        return is_change


def _in_words(rates: Mapping[tuple[str, str], float]) -> str:
    lowered = [f"{pipeline} {metric} x {factor:g}" for (pipeline, metric), factor in sorted(rates.items())]
    return f"lowered near the weekly cap: {', '.join(lowered)}" if lowered else "as in the portfolio again"
