"""Ends a process that makes no progress, from a thread of its own, because a blocked process cannot end itself."""

from __future__ import annotations

import faulthandler
import os
import sys
import threading
import time
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass

#: Seconds between two checks.
LOOK_SECONDS = 1.0


@dataclass(frozen=True)
class WorkProgress:
    """Progress of one activity.

    Attributes:
        name: Name of the activity, for the message.
        value: Any value that changes with each step.
        is_busy: True if progress is expected now.
        limit_seconds: Most seconds without a change while busy.
    """

    name: str
    value: Hashable
    is_busy: bool
    limit_seconds: float


class StallJudge:
    """Detects activities without progress; has no clock of its own."""

    def __init__(self) -> None:
        self._still: dict[str, tuple[Hashable, float]] = {}

    def judge(self, looks: Iterable[WorkProgress], passed_seconds: float) -> str | None:
        """Check all activities once.

        Args:
            looks: Their progress now; an activity that is missing has ended.
            passed_seconds: Seconds since the last check. More than twice `LOOK_SECONDS` is not counted: then the
                process itself was suspended (a laptop, SIGSTOP), and nothing could progress.

        Returns:
            The activity without progress and for how long, or None.
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
    """Print the reason and the stack of every thread, and end at once with status 1; committed results are safe."""
    sys.stderr.write(f"gapwatch: the watchdog ends this process: {why}; committed results are safe, start it again\n")
    sys.stderr.flush()
    faulthandler.dump_traceback(all_threads=True)
    os._exit(1)


class Watchdog(threading.Thread):
    """Checks progress once a second until it is stopped.

    Args:
        look: Returns the progress of all activities; called on this thread. Repeated exceptions count as missing
            progress, because they would hide a stall.
        on_stall: Called with the description of a stall.
    """

    def __init__(
        self, look: Callable[[], Iterable[WorkProgress]], on_stall: Callable[[str], None] = end_process
    ) -> None:
        super().__init__(name="gapwatch-watchdog", daemon=True)
        self._look, self._on_stall = look, on_stall
        self._is_over = threading.Event()

    def run(self) -> None:
        """Check until stopped."""
        judge = StallJudge()
        failures = 0
        last = time.monotonic()
        while not self._is_over.wait(LOOK_SECONDS):
            now = time.monotonic()
            try:
                looks = list(self._look())
                failures = 0
            except Exception as error:  # a rebalance can change partitions during the check
                failures += 1
                looks = [WorkProgress(f"the watchdog's own check ({error!r})", 0, failures > 1, 30.0)]
            stuck = judge.judge(looks, now - last)
            last = now
            if stuck is not None:
                self._on_stall(stuck)
                return

    def stop(self) -> None:
        """Stop checking; returns at once."""
        self._is_over.set()
