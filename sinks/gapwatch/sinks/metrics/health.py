"""Answers of `/healthz` and `/readyz`, from the states that the parts of a run report.

alive   the process works, or waits for an unreachable broker and says so     otherwise restart it
ready   slices are read, scored and stored                                    otherwise do not rely on it yet
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

#: Seconds without a report after which the stream's loop counts as stuck. Shorter than the watchdog's limit: both would
#: report at once.
SILENCE_SECONDS = 15.0
#: Seconds without an answer of a broker after which the run is not ready. An idle consumer is answered every 3 s, by
#: heartbeats, and while its group rebalances every 10 s, by metadata. Shorter: a slow broker makes a run unready.
BROKER_SILENCE_SECONDS = 15.0


class RunHealth:
    """The state of a run; for any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._source, self._waiting_for = "connecting", ""
        self._store_failure = ""
        self._notes: dict[str, str] = {}
        self._parts: dict[str, Mapping[str, Any]] = {}
        self._beat_at: float | None = None
        self._answered_at: float | None = None
        self._starting: Callable[[], str] = str

    def source(self, state: str, waiting_for: str = "", broker_silence: float | None = None) -> None:
        """Set the state of the source.

        Args:
            state: connecting, joining, running, stopping or stopped.
            waiting_for: Why it waits; empty if it does not.
            broker_silence: Seconds since a broker last answered; None before the first answer.
        """
        with self._lock:
            self._source, self._waiting_for = state, waiting_for
            self._beat_at = time.monotonic()
            self._answered_at = None if broker_silence is None else self._beat_at - broker_silence

    def finish(self) -> None:
        """Set that nothing is read: the process shows a store that no process writes."""
        with self._lock:
            self._source = "finished"

    def watch_start(self, text: Callable[[], str]) -> None:
        """Set the function that says what a start still does before records are read; empty if nothing."""
        with self._lock:
            self._starting = text

    def store_failed(self, why: str) -> None:
        """Set that the store cannot be written any more, because the disk is full or the file is damaged."""
        with self._lock:
            self._store_failure = why

    def note(self, name: str, text: str) -> None:
        """Set a note on a problem that does not stop the run, such as a refused portfolio. An empty text clears it."""
        with self._lock:
            self._notes = {key: value for key, value in {**self._notes, name: text}.items() if value}

    def part(self, name: str, state: Mapping[str, Any]) -> None:
        """Set the state of a part of the run, such as its exports, as JSON values; it decides nothing."""
        with self._lock:
            self._parts = {**self._parts, name: state}

    def alive(self) -> tuple[bool, dict[str, Any]]:
        """Return whether the process works, and its state as JSON values."""
        with self._lock:
            state = self._state()
            troubles = [f"store: {self._store_failure}"] if self._store_failure else []
            if self._beat_at is not None and (silent := time.monotonic() - self._beat_at) > SILENCE_SECONDS:
                troubles.append(f"stream: its event loop has not reported for {silent:.0f} s")
        return not troubles, {"status": "failing" if troubles else "ok", **_if_any("because", troubles), **state}

    def ready(self) -> tuple[bool, dict[str, Any]]:
        """Return whether slices are read, scored and stored, and the state as JSON values."""
        alive, answer = self.alive()
        with self._lock:
            because = list(answer.get("because", ()))
            if starting := self._starting():
                because.append(starting)
            elif self._source not in ("running", "finished"):
                because.append(f"source: {self._source}" + (f": {self._waiting_for}" if self._waiting_for else ""))
            elif (silence := self._broker_silence()) is not None and silence > BROKER_SILENCE_SECONDS:
                because.append(f"source: no answer from Kafka for {silence:.0f} s")
            state = self._state()
        return alive and not because, {
            "status": "not ready" if because else "ready",
            **_if_any("because", because),
            **state,
        }

    def _broker_silence(self) -> float | None:
        return None if self._answered_at is None else time.monotonic() - self._answered_at

    def _state(self) -> dict[str, Any]:
        silence = self._broker_silence()
        return {
            "source": self._source,
            **({} if silence is None else {"broker_answered_seconds_ago": round(silence, 1)}),
            **_if_any("waiting_for", self._waiting_for),
            **_if_any("starting", self._starting()),
            **_if_any("notes", self._notes),
            **self._parts,
        }


def _if_any(name: str, value: Any) -> dict[str, Any]:
    return {name: value} if value else {}
