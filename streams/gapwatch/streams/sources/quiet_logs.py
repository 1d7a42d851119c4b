"""Filters repeated log lines of Kafka's client libraries, which write thousands in a minute without a broker."""

from __future__ import annotations

import logging
import time

#: Seconds for which repetitions of a line are suppressed.
REPEAT_SECONDS = 30.0
#: Libraries whose lines are filtered.
NOISY = ("aiokafka", "faust", "mode")


class RepeatFilter(logging.Filter):
    """Passes each message of each logger once in `REPEAT_SECONDS`, with the number of suppressed repetitions."""

    def __init__(self) -> None:
        super().__init__()
        self._last: dict[tuple[str, str], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return True if the record is to be logged; records are compared before their arguments are filled in."""
        key = (record.name, str(record.msg)[:200])
        now = time.monotonic()
        at, held_back = self._last.get(key, (float("-inf"), 0))
        if now - at < REPEAT_SECONDS:
            self._last[key] = (at, held_back + 1)
            return False
        if len(self._last) > 1000:  # messages that differ each time
            self._last.clear()
        self._last[key] = (now, 0)
        if held_back:
            record.msg = f"{record.msg} (repeated {held_back} times since the last line)"
        return True


def quieten_logs() -> None:
    """Add the filter to every handler of the root logger; it only affects the libraries in `NOISY`."""
    repeat = RepeatFilter()

    def keep(record: logging.LogRecord) -> bool:
        return record.name.partition(".")[0] not in NOISY or repeat.filter(record)

    for handler in logging.getLogger().handlers:
        handler.addFilter(keep)
