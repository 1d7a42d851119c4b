"""Logs the begin and the end of an outage, one line each: the log belongs to the pipeline."""

from __future__ import annotations

import logging
import time

log = logging.getLogger("gapwatch.publisher")

#: Seconds between two lines of one cause, and between the begins of two outages.
QUIET_SECONDS = 60.0


class OutageLog:
    """Log lines of one sender; any thread may call it."""

    def __init__(self) -> None:
        self._since: float | None = None
        self._is_told = False
        self._told_at: dict[str, float] = {}

    @property
    def is_told(self) -> bool:
        """True from the line that reports an outage until the line that reports its end."""
        return self._is_told

    def failed(self, text: str, since: float) -> None:
        """Report an attempt that failed; the first one of an outage is logged, with the text.

        An attempt at a broker that hangs fails up to 40 s after the outage began. If the outage before began less than
        `QUIET_SECONDS` ago, a later attempt is logged, so that a connection that comes and goes does not fill the log.

        Args:
            text: What failed, and what happens next.
            since: Time of `time.monotonic` since when nothing worked.
        """
        now = time.monotonic()
        if self._since is None:
            self._since = since
        if not self._is_told and self._is_due("outage", now):
            self._is_told = True
            log.warning("%s", text)

    def worked(self, text: str) -> None:
        """Report a success; logged after a logged outage, with the text and the length of the outage."""
        if self._since is None:
            return
        since, self._since = self._since, None
        if self._is_told:
            self._is_told = False
            log.warning("%s, after %.0f s", text, time.monotonic() - since)

    def say(self, cause: str, text: str) -> None:
        """Log the text, at most once in `QUIET_SECONDS` for each cause."""
        if self._is_due(cause, time.monotonic()):
            log.warning("%s", text)

    def _is_due(self, cause: str, now: float) -> bool:
        if now - self._told_at.get(cause, float("-inf")) < QUIET_SECONDS:
            return False
        self._told_at[cause] = now
        return True
