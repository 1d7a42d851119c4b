"""Exports the store every hour or so, in a process of its own that reads over the API of the run."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import logging
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson

from gapwatch.scorers.errors import UsageError
from gapwatch.sinks.api.access import ApiOptions
from gapwatch.sinks.export.delta_place import DeltaPlace, without_keys

log = logging.getLogger("gapwatch.run")

#: Seconds from the start of a run to its first export, and from an export that failed to the next attempt, at most.
FIRST_SECONDS, _RETRY_SECONDS = 60.0, 300.0
#: Characters of an error that are shown.
_ERROR_LENGTH = 500


@dataclass(frozen=True)
class ExportOptions:
    """Options of the exports of a run.

    Attributes:
        place: Folder or bucket.
        every: Time between two exports.
    """

    place: DeltaPlace
    every: timedelta


def check_export(options: ExportOptions, api: ApiOptions | None, keep: timedelta | None) -> None:
    """Refuse exports that cannot work, or that would miss rows.

    Raises:
        UsageError: There is no API, the extra `export` is not installed, or rows expire too soon.
    """
    if api is None:
        raise UsageError("--export reads over the API of the run; give --listen an address")
    if keep is not None and keep < 2 * options.every:
        raise UsageError(
            f"--keep {keep} would delete rows that were not exported; keep them at least twice as long as the time "
            f"between two exports ({options.every}, --export-every)"
        )
    if importlib.util.find_spec("deltalake") is None:
        raise UsageError("--export needs delta-rs; run: pip install 'gapwatch[export]'")


class ExportLoop:
    """Exports of a run. An export that fails is logged, shown and repeated; it never ends the run.

    Args:
        store: File of the store, whose run serves its API.
        options: Where to and how often.
        show: Sets a metric on `/metrics`.
        tell: Sets what `/healthz` says of a part of the run.
        note: Sets a note on a problem in `/healthz`; an empty text clears it.
    """

    def __init__(
        self,
        store: Path,
        options: ExportOptions,
        show: Callable[[str, Mapping[tuple[str, ...], float]], None],
        tell: Callable[[str, Mapping[str, Any]], None],
        note: Callable[[str, str], None],
    ) -> None:
        self._store, self._options = store, options
        self._show, self._tell, self._note = show, tell, note
        self._rows, self._failures = 0, 0
        self._current_at = time.time()  # what was stored before it is exported, or was before this run
        self._succeeded_at: float | None = None

    async def run(self) -> None:
        """Export until cancelled; then an export that is under way is ended, and the next one repeats it."""
        every = self._options.every.total_seconds()
        await asyncio.sleep(min(FIRST_SECONDS, every))
        while True:
            began = time.time()
            failure = await self._export()
            if failure:
                self._failures += 1
                log.warning("the export to %s failed: %s; the next attempt follows", self._options.place, failure)
            else:
                self._current_at, self._succeeded_at = began, time.time()
            self._note("export", f"the last export failed: {failure}" if failure else "")
            self.look()
            await asyncio.sleep(min(_RETRY_SECONDS, every) if failure else every)

    def look(self) -> None:
        """Update `/metrics` and `/healthz`; called about once a second."""
        lag = time.time() - self._current_at
        self._show("gapwatch_export_lag_seconds", {(): lag})
        self._show("gapwatch_export_rows_total", {(): float(self._rows)})
        self._show("gapwatch_export_failures_total", {(): float(self._failures)})
        told = {"to": str(self._options.place), "lag_seconds": round(lag, 1), "rows": self._rows}
        if self._succeeded_at is not None:
            self._show("gapwatch_export_last_success_timestamp_seconds", {(): self._succeeded_at})
            told["last_success"] = f"{datetime.fromtimestamp(self._succeeded_at, UTC):%Y-%m-%dT%H:%M:%SZ}"
        self._tell("export", told)

    async def _export(self) -> str:
        """Run one export; return why it failed, or an empty text."""
        command = (
            sys.executable, "-m", "gapwatch.scorers.command_line", "export", "--json",
            "--store", str(self._store), "--to", str(self._options.place),
        )  # fmt: skip
        pipe = asyncio.subprocess.PIPE
        try:
            process = await asyncio.create_subprocess_exec(
                *command, stdin=asyncio.subprocess.DEVNULL, stdout=pipe, stderr=pipe
            )
        except OSError as error:
            return f"its process could not be started: {error.strerror or error}"
        try:
            out, err = await process.communicate()
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
        said = without_keys(err.decode(errors="replace").strip())
        if process.returncode:
            return (
                said.rpartition("\n")[2].removeprefix("gapwatch: ")[-_ERROR_LENGTH:] or f"status {process.returncode}"
            )
        done = orjson.loads(out)
        self._rows += sum(done["rows"].values())
        if done["lost_until"]:
            log.warning("%s", said[-_ERROR_LENGTH:])
        return ""
