"""Progress bars on standard error for the stages of a design."""

from __future__ import annotations

import sys
import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

#: Shortest time between two refreshes; drawing more often slows the work.
_REFRESH_SECONDS = 0.1


class DesignProgress:
    """Shows one bar for each stage while it runs, on terminals only.

    Args:
        enabled: False shows nothing.
    """

    def __init__(self, enabled: bool) -> None:
        self._progress: Progress | None = None
        self._tasks: dict[str, TaskID] = {}
        self._last = 0.0
        if enabled and sys.stderr.isatty():
            console = Console(stderr=True)
            self._progress = Progress(
                TextColumn("{task.description:<10}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                console=console,
                transient=True,
                auto_refresh=False,
            )

    def __enter__(self) -> DesignProgress:
        if self._progress is not None:
            self._progress.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._progress is not None:
            self._progress.stop()

    def update(self, stage: str, done: int, total: int) -> None:
        """Set the progress of a stage.

        Args:
            stage: Name of the stage.
            done: Units done.
            total: All units.
        """
        if self._progress is None:
            return
        if stage not in self._tasks:
            self._tasks[stage] = self._progress.add_task(stage, total=total)
        now = time.monotonic()
        if done < total and now - self._last < _REFRESH_SECONDS:
            return
        self._last = now
        self._progress.update(self._tasks[stage], completed=done, total=total, refresh=True)
