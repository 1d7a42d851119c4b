"""Progress bar of an evaluation, on standard error."""

from __future__ import annotations

import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

#: Seconds between two drawings.
_EVERY_SECONDS = 0.2


class ExampleProgress:
    """Shows how many examples are done. It draws without a thread: processes are forked meanwhile.

    Args:
        total: Number of examples.
        enabled: False shows nothing.
    """

    def __init__(self, total: int, enabled: bool = True) -> None:
        console = Console(stderr=True)
        self._progress = Progress(
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(),
            console=console, auto_refresh=False, disable=not enabled or not console.is_terminal,
            redirect_stdout=False, redirect_stderr=False,
        )  # fmt: skip
        self._total = total
        self._task = self._progress.add_task("examples", total=total)
        self._drawn = 0.0
        self._is_shown = False

    def __enter__(self) -> ExampleProgress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._is_shown:
            self._progress.stop()

    def update(self, done: int) -> None:
        """Show the number of examples that are done."""
        if not self._is_shown:
            self._is_shown = True
            self._progress.start()
        now = time.monotonic()
        if done == self._total or now - self._drawn >= _EVERY_SECONDS:
            self._drawn = now
            self._progress.update(
                self._task, completed=done, description="examples" if done < self._total else "scoring"
            )
            self._progress.refresh()
