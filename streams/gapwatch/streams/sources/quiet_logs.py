"""Filters log lines of Kafka's client libraries, which write thousands in a minute without a broker."""

from __future__ import annotations

import logging
import time

from gapwatch.scorers.errors import GapwatchError
from gapwatch.streams.sources.broker_outage import OUTAGE

#: Seconds for which repetitions of a line are suppressed.
REPEAT_SECONDS = 30.0
#: Libraries whose lines are filtered.
NOISY = ("aiokafka", "faust", "mode")
#: Logger on which Faust reports the start of each internal service: it is named after the module of the subclass.
_FAUST_SERVICES = "gapwatch.streams.sources.faust_slices"
#: Logger on which mode reports that a timer of Faust ran late. Faust's timers only repeat what the store has committed.
_TIMERS = "mode.timers"
#: Error that aiokafka logs while a broker elects the coordinator of a new group, and then retries.
_ELECTION = "GroupCoordinatorNotAvailableError"
#: Seconds for which an election is expected to last; a longer one is logged.
ELECTION_SECONDS = 10.0


class RepeatFilter(logging.Filter):
    """Passes each message of each logger once in `REPEAT_SECONDS`, with the number of suppressed repetitions.

    Lines about an outage of the broker do not pass: `OUTAGE` logs its begin and its end.
    """

    def __init__(self) -> None:
        super().__init__()
        self._last: dict[tuple[str, str], tuple[float, int]] = {}
        self._election_began = self._election_seen = float("-inf")

    def filter(self, record: logging.LogRecord) -> bool:
        """Return True if the record is to be logged; records are compared before their arguments are filled in."""
        key = (record.name, str(record.msg)[:200])
        now = time.monotonic()
        if _is_refusal(record):
            return False
        if _ELECTION in record.getMessage() and self._is_expected_election(now):
            return False
        if record.levelno < logging.CRITICAL and OUTAGE.covers(record.getMessage()):
            return False
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

    def _is_expected_election(self, now: float) -> bool:
        if now - self._election_seen > REPEAT_SECONDS:
            self._election_began = now
        self._election_seen = now
        return now - self._election_began < ELECTION_SECONDS


def _is_refusal(record: logging.LogRecord) -> bool:
    """Return whether a library logs an error of Gapwatch as its own crash; the run prints that error at its end."""
    arguments = record.args if isinstance(record.args, tuple) else ()
    return any(isinstance(argument, GapwatchError) for argument in arguments)


def quieten_logs() -> None:
    """Add the filter to every handler of the root logger; it only affects the libraries in `NOISY`.

    Of Faust's services only warnings are logged, of its timers only errors.
    """
    repeat = RepeatFilter()
    logging.getLogger(_FAUST_SERVICES).setLevel(logging.WARNING)
    logging.getLogger(_TIMERS).setLevel(logging.ERROR)

    def keep(record: logging.LogRecord) -> bool:
        return record.name.partition(".")[0] not in NOISY or repeat.filter(record)

    for handler in logging.getLogger().handlers:
        handler.addFilter(keep)
