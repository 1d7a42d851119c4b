"""How much less judges are asked than the portfolios say: one value that the run writes and the pipeline reads."""

from __future__ import annotations

import logging
from collections.abc import Mapping

log = logging.getLogger("gapwatch.run")


class JudgeThrottle:
    """Limits the requests to judges; written and read on any thread, each slice is scored under what it finds.

    Attributes:
        rates: Factors of judges' rates by (pipeline, metric), powers of 1/2; what is not there is asked as written.
        is_shedding: Whether no judge is asked, because records wait too long.
    """

    def __init__(self) -> None:
        self.rates: Mapping[tuple[str, str], float] = {}
        self.is_shedding = False

    def set_rates(self, rates: Mapping[tuple[str, str], float]) -> None:
        """Ask judges at these factors of their rates: their caps are near, or are no more."""
        if rates != self.rates:
            log.info("judges see less or more: %s", rates or "as written")
            self.rates = rates

    def set_shedding(self, is_shedding: bool) -> bool:
        """Ask no judge, or ask again; return whether that is a change."""
        is_change = is_shedding is not self.is_shedding
        self.is_shedding = is_shedding
        return is_change
