"""What `/healthz` and `/readyz` say: the state of a run as its parts reported it, never a guess.

alive   the process does its work, or waits for a broker that is away and says so     else restart it
ready   slices are read, scored and kept                                              else do not rely on it yet
"""

from __future__ import annotations

import threading
import time
from typing import Any

#: Seconds after which a loop that has told it lives is taken for stuck. Shorter than the watchdog's patience would
#: have both speak at once.
SILENCE_SECONDS = 15.0


class RunHealth:
    """The state of a run; for any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._source, self._waiting_for = "connecting", ""
        self._store_failure = ""
        self._notes: dict[str, str] = {}
        self._beat_at: float | None = None

    def source(self, state: str, waiting_for: str = "") -> None:
        """Note the state of the source: connecting, joining, running, stopping, stopped; and what it waits for."""
        with self._lock:
            self._source, self._waiting_for = state, waiting_for
            self._beat_at = time.monotonic()

    def store_failed(self, why: str) -> None:
        """Note that the store takes no more: the disk is full, or the file broke."""
        with self._lock:
            self._store_failure = why

    def note(self, name: str, text: str) -> None:
        """Show a trouble that does not stop the run, such as a portfolio that was refused; an empty text clears it."""
        with self._lock:
            self._notes = {key: value for key, value in {**self._notes, name: text}.items() if value}

    def alive(self) -> tuple[bool, dict[str, Any]]:
        """Return whether the process does its work, and the state in words."""
        with self._lock:
            told = self._told()
            troubles = [f"store: {self._store_failure}"] if self._store_failure else []
            if self._beat_at is not None and (silent := time.monotonic() - self._beat_at) > SILENCE_SECONDS:
                troubles.append(f"stream: its loop has answered nothing for {silent:.0f} s")
        return not troubles, {"status": "failing" if troubles else "ok", **_if_any("because", troubles), **told}

    def ready(self) -> tuple[bool, dict[str, Any]]:
        """Return whether slices are read, scored and kept, and the state in words."""
        alive, answer = self.alive()
        with self._lock:
            because = list(answer.get("because", ()))
            if self._source != "running":
                because.append(f"source: {self._source}" + (f": {self._waiting_for}" if self._waiting_for else ""))
            told = self._told()
        return alive and not because, {
            "status": "not ready" if because else "ready",
            **_if_any("because", because),
            **told,
        }

    def _told(self) -> dict[str, Any]:
        return {
            "source": self._source,
            **_if_any("waiting_for", self._waiting_for),
            **_if_any("notes", self._notes),
        }


def _if_any(name: str, value: Any) -> dict[str, Any]:
    return {name: value} if value else {}
