"""Logs an outage of the broker in two lines, one at its begin and one at its end, whoever notices it first."""

from __future__ import annotations

import logging
import threading
import time

from gapwatch.sinks.metrics.health import BROKER_SILENCE_SECONDS

log = logging.getLogger("gapwatch.kafka")

#: Seconds without a sign of the outage after which it counts as over where nobody asks the source.
FORGET_SECONDS = 60.0
#: Seconds after an outage in which what the libraries log still belongs to it: sessions expire, coordinators move.
AFTERMATH_SECONDS = 30.0
# Seconds that a connection has to last without a further error.
_STEADY_SECONDS = 2.0
#: Parts of messages of aiokafka, Faust and mode that are signs of an outage.
_SIGNS = (
    "KafkaConnectionError", "NodeNotReady", "Unable connect", "Unable to update metadata", "Unable to request metadata",
    "Unable to bootstrap", "Connect call failed", "RequestTimedOut", "Heartbeat session expired",
    "Marking the coordinator dead", "marking coordinator dead", "not started or not valid", "Connection lost",
)  # fmt: skip


class BrokerOutage:
    """State of the connection to the broker, for the log of one process; any thread may call it."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._began: float | None = None
        self._answered: float | None = None
        self._silence = 0.0
        self._seen = self._ended = float("-inf")

    def note(self, why: str) -> None:
        """Note a failed attempt to reach the broker; the first of an outage is logged.

        The outage counts from the last answer where that is known: the first attempt fails up to 40 s after it.

        Args:
            why: Sentence that says what failed.
        """
        with self._lock:
            now = time.monotonic()
            is_new = self._began is None or now - self._seen > FORGET_SECONDS
            if is_new and now - self._ended < _STEADY_SECONDS:
                is_new = False  # the tail of an outage whose end is logged
            elif is_new:
                self._began = now if self._answered is None else self._answered
            self._seen = now
        if is_new:
            log.warning("%s; trying until Kafka answers, stored results are safe", why)

    def look(self, *, is_connected: bool, silence: float | None = None) -> None:
        """Log the begin of a silence, and the end of an outage once the connection is steady.

        Call it about once a second. One look at a long silence proves nothing: this process may have stood still.

        Args:
            is_connected: A connection is open. That of a broker that hangs stays open.
            silence: Seconds since the broker last answered; None if that is not known. Without an answer since the
                last sign of the outage, it has not ended.
        """
        with self._lock:
            now = time.monotonic()
            if silence is not None:
                before, self._silence, self._answered = self._silence, silence, now - silence
                if min(before, silence) > BROKER_SILENCE_SECONDS:
                    self.note(f"no answer from Kafka for {silence:.0f} s")
            if self._began is None or not is_connected or now - self._seen < _STEADY_SECONDS:
                return
            if silence is not None and silence >= now - self._seen:
                return
            took, self._began, self._ended = now - self._began, None, now
        log.info("Kafka answers again, after %.0f s", took)

    def covers(self, message: str) -> bool:
        """Return whether a line of a client library is a sign or a consequence of an outage; signs begin one."""
        if any(sign in message for sign in _SIGNS):
            self.note(f"no answer from Kafka: {message.partition('Error: ')[2] or message}")
            return True
        with self._lock:
            now = time.monotonic()
            is_out = self._began is not None and now - self._seen < FORGET_SECONDS
            return is_out or now - self._ended < AFTERMATH_SECONDS


#: Outage of this process: its clients reach one cluster, and its log is one.
OUTAGE = BrokerOutage()
