"""Progress bar of a replay, on standard error."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn, TimeRemainingColumn

from gapwatch.streams.pipeline.run_summary import RunSummary
from gapwatch.streams.sources.file_source import FileSource


class ReplayProgress:
    """Shows for each file how much is read, the number of traces, and traces per second.

    Args:
        enabled: False shows nothing.
    """

    def __init__(self, enabled: bool = True) -> None:
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("{task.fields[traces]} traces scored"),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            disable=not enabled,
        )
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> ReplayProgress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._tasks:
            self._progress.stop()

    def update(self, source: FileSource, result: RunSummary) -> None:
        """Show one more stored slice."""
        # Started with the first slice: an error before it is printed without a bar.
        self._progress.start()
        at = source.progress()
        task = self._tasks.get(source.path)
        if task is None:
            total = at.total or None
            task = self._progress.add_task(source.name, total=total, traces="0", rate="")
            self._tasks[source.path] = task
        elapsed = self._progress.tasks[task].elapsed or 0.0
        rate = f"{result.read / elapsed:,.0f}/s" if elapsed > 0.5 else ""
        self._progress.update(task, completed=at.done, traces=f"{result.read:,}", rate=rate)
