"""Keeps the logs of Kafka's clients readable: in an outage of a minute they repeat themselves thousands of times."""

from __future__ import annotations

import logging
import time

#: Seconds for which a line that was just logged is not logged again.
REPEAT_SECONDS = 30.0
#: The libraries that repeat themselves.
NOISY = ("aiokafka", "faust", "mode")


class RepeatFilter(logging.Filter):
    """Lets each message of each logger through once in `REPEAT_SECONDS`, with a count of what was held back."""

    def __init__(self) -> None:
        super().__init__()
        self._last: dict[tuple[str, str], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Decide on one record, by its text before the arguments are put in."""
        key = (record.name, str(record.msg)[:200])
        now = time.monotonic()
        at, held_back = self._last.get(key, (float("-inf"), 0))
        if now - at < REPEAT_SECONDS:
            self._last[key] = (at, held_back + 1)
            return False
        if len(self._last) > 1000:  # messages that are never the same twice
            self._last.clear()
        self._last[key] = (now, 0)
        if held_back:
            record.msg = f"{record.msg} (and {held_back} times before this, held back)"
        return True


def quieten_logs() -> None:
    """Put one filter on every handler of the root logger, for the noisy libraries' lines alone."""
    repeat = RepeatFilter()

    def keep(record: logging.LogRecord) -> bool:
        return record.name.partition(".")[0] not in NOISY or repeat.filter(record)

    for handler in logging.getLogger().handlers:
        handler.addFilter(keep)
