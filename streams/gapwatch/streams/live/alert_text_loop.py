"""Stores the texts behind the alerts of a run, beside the stream; it never blocks or ends the run."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Sequence

from gapwatch.publisher.back_off import BackOff
from gapwatch.sinks.reading.alert_query import AlertFilter, opened_alerts
from gapwatch.sinks.store.alert_samples import AlertText, RowPlace, insert_alert_texts
from gapwatch.streams.alerting.incidents.alert_texts import (
    RecordPlace,
    has_texts,
    missing_texts,
    redacted_texts,
)
from gapwatch.streams.alerting.incidents.stored_alerts import read_alerts
from gapwatch.streams.pipeline.pipeline import LIVE
from gapwatch.streams.pipeline.store_thread import StoreThread

log = logging.getLogger("gapwatch.run")

#: Seconds between two looks for new alerts.
LOOK_SECONDS = 2.0
#: Longest pause between two looks at one open alert, whose first traces may still come.
LONGEST_PAUSE_SECONDS = 300.0
#: Most records of one read of the topic, and most seconds of it. Records may have 10 MB each.
READ_RECORDS, READ_SECONDS = 40, 60.0
#: Seconds that a run with `until_caught_up` waits at its end for texts.
END_SECONDS = 20.0
#: Closed alerts of earlier runs that are looked at once after a start: a run may have ended before it had their texts.
_CLOSED = 50


ReadRecords = Callable[[Sequence[RecordPlace]], Awaitable[dict[RecordPlace, bytes | None]]]


class AlertTextLoop:
    """Reads the records behind new and open alerts again, and stores their texts.

    Args:
        thread: The store and its writer thread.
        read: Returns records by partition and offset; an offset without a record is left out, or None.
        topic: The topic of the run.
    """

    def __init__(self, thread: StoreThread, read: ReadRecords, topic: str) -> None:
        self._thread, self._read, self._topic = thread, read, topic
        #: Time at which each known alert is looked at next, and the pause before it, in seconds.
        self._due: dict[str, tuple[float, float]] = {}
        self._has_begun = False
        self._back_off = BackOff(LOOK_SECONDS, LONGEST_PAUSE_SECONDS)
        self._is_failure_logged = False
        self._lock = asyncio.Lock()

    async def run(self) -> None:
        """Store texts until cancelled."""
        while True:
            if await self._look():
                await asyncio.sleep(LOOK_SECONDS)
            else:
                await self._back_off.wait()

    async def finish(self) -> None:
        """Store the texts of all alerts so far, as far as the topic answers within `END_SECONDS`."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._look(is_last=True), END_SECONDS)

    async def _look(self, is_last: bool = False) -> bool:
        """Store what is missing; False if that failed and is to be tried again."""
        async with self._lock:
            before = dict(self._due)
            try:
                places = await asyncio.to_thread(self._missing, is_last)
                for begin in range(0, len(places), READ_RECORDS):
                    await self._store(places[begin : begin + READ_RECORDS])
            except Exception as error:  # the run is worth more than these texts
                self._due = before
                self._failed(error)
                return False
        self._back_off.reset()
        return True

    def _failed(self, error: Exception) -> None:
        # Outages of the broker have lines of their own.
        if not self._is_failure_logged and not isinstance(error, (OSError, TimeoutError)):
            self._is_failure_logged = True
            log.warning("texts of failing traces could not be read from the topic again: %s; trying again", error)

    async def _store(self, places: Sequence[RowPlace]) -> None:
        wanted = [(place.partition, place.offset) for place in places]
        records = await asyncio.wait_for(self._read(wanted), READ_SECONDS)
        texts = await asyncio.to_thread(self._redacted, places, records)
        await self._thread.run(insert_alert_texts, self._thread.store, LIVE, texts)

    def _redacted(self, places: Sequence[RowPlace], records: dict[RecordPlace, bytes | None]) -> list[AlertText]:
        with contextlib.closing(self._thread.store.cursor()) as con:
            return redacted_texts(con, places, records)

    def _missing(self, is_last: bool) -> list[RowPlace]:
        """Return rows without a text behind the alerts that are due, and set when these are due again."""
        now = time.monotonic()
        with contextlib.closing(self._thread.store.cursor()) as con:
            states = opened_alerts(con, LIVE)
            if not self._has_begun:
                self._has_begun = True
                closed = [alert_id for alert_id, is_open in states.items() if not is_open]
                self._due = dict.fromkeys(closed[:-_CLOSED], (float("inf"), 0.0))
            due = {name for name in states if is_last or self._due.get(name, (0.0, 0.0))[0] <= now}
            if not due:
                return []
            found: dict[RecordPlace, RowPlace] = {}
            for alert in read_alerts(con, AlertFilter(lane=LIVE)):
                name = alert.row.alert_id
                if name not in due:
                    continue
                missing = [p for p in missing_texts(con, alert) if p.topic == self._topic] if has_texts(alert) else []
                found.update({(place.partition, place.offset): place for place in missing})
                self._due[name] = self._next(name, now, states[name])
        return list(found.values())

    def _next(self, name: str, now: float, is_open: bool) -> tuple[float, float]:
        """Return when an alert is due again, and the pause until then. A closed alert is looked at once."""
        if not is_open:
            return float("inf"), 0.0
        pause = min(2 * self._due.get(name, (0.0, LOOK_SECONDS / 2))[1], LONGEST_PAUSE_SECONDS)
        return now + pause, pause
