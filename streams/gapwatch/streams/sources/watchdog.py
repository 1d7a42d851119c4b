"""Ends a process that makes no progress, from a thread: what is stuck cannot be asked to end itself."""

from __future__ import annotations

import faulthandler
import os
import sys
import threading
import time
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass

#: Seconds between two looks.
LOOK_SECONDS = 1.0


@dataclass(frozen=True)
class WorkProgress:
    """One thing that must move while it is busy.

    Attributes:
        name: What it is, for the last words.
        value: Changes whenever there is progress.
        is_busy: Whether it should move at all now.
        limit_seconds: How long it may stand still while busy.
    """

    name: str
    value: Hashable
    is_busy: bool
    limit_seconds: float


class StallJudge:
    """Tells from looks at progress whether something is stuck; keeps no clock of its own."""

    def __init__(self) -> None:
        self._still: dict[str, tuple[Hashable, float]] = {}

    def judge(self, looks: Iterable[WorkProgress], passed_seconds: float) -> str | None:
        """Take one look at everything.

        Args:
            looks: What is watched, as it is now; what is missing since the last look is forgotten.
            passed_seconds: Since the last look. More than twice the pace of looking does not count: then this
                process itself stood still (a suspended laptop, SIGSTOP), and nothing could move.

        Returns:
            What is stuck and for how long, or None.
        """
        passed = min(passed_seconds, 2 * LOOK_SECONDS)
        now: dict[str, tuple[Hashable, float]] = {}
        stuck = None
        for look in looks:
            before = self._still.get(look.name)
            is_still = look.is_busy and before is not None and before[0] == look.value
            still = before[1] + passed if is_still and before is not None else 0.0
            now[look.name] = (look.value, still)
            if still > look.limit_seconds and stuck is None:
                stuck = f"{look.name}: no progress for {still:.0f} s at {look.value!r}"
        self._still = now
        return stuck


def end_process(why: str) -> None:
    """Say why, show where every thread stands, and end at once with status 1; what is committed stays."""
    sys.stderr.write(f"gapwatch: the watchdog ends this process: {why}\n")
    sys.stderr.flush()
    faulthandler.dump_traceback(all_threads=True)
    os._exit(1)


class Watchdog(threading.Thread):
    """Looks at progress once a second until it is told to stop.

    Args:
        look: Returns what is watched; called on this thread. A look that itself hangs or raises for long would hide
            a stall, so an exception counts as one look without news.
        on_stall: Called with what is stuck.
    """

    def __init__(
        self, look: Callable[[], Iterable[WorkProgress]], on_stall: Callable[[str], None] = end_process
    ) -> None:
        super().__init__(name="gapwatch-watchdog", daemon=True)
        self._look, self._on_stall = look, on_stall
        self._is_over = threading.Event()

    def run(self) -> None:
        """Watch."""
        judge = StallJudge()
        failures = 0
        last = time.monotonic()
        while not self._is_over.wait(LOOK_SECONDS):
            now = time.monotonic()
            try:
                looks = list(self._look())
                failures = 0
            except Exception as error:  # partitions come and go while they are looked at
                failures += 1
                looks = [WorkProgress(f"the watchdog's look ({error!r})", 0, failures > 1, 30.0)]
            stuck = judge.judge(looks, now - last)
            last = now
            if stuck is not None:
                self._on_stall(stuck)
                return

    def stop(self) -> None:
        """Stop watching; returns at once."""
        self._is_over.set()
