"""A program run as a child process: what it cost, over all of its threads."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tests.paths import ROOT


@dataclass(frozen=True)
class Cost:
    """Cost of a child process.

    Attributes:
        cpu: Seconds of processor time, of user and system, over all threads.
        wall: Seconds from start to end.
        peak_mb: Largest resident memory in megabytes of 1,000,000 bytes.
    """

    cpu: float
    wall: float
    peak_mb: float


def run_module(module: str, *arguments: str | Path, feed: Callable[[IO[bytes], int], None] | None = None) -> Cost:
    """Run a module of this interpreter to its end.

    Args:
        module: As after `python -m`.
        arguments: Of the program.
        feed: Called with the program's standard input and its process id; it writes all that is to be read.

    Raises:
        RuntimeError: The program failed; with what it wrote on standard error.
    """
    command = [sys.executable, "-m", module, *map(str, arguments)]
    started = time.perf_counter()
    # The kernel counts the memory of whoever forks into the child's peak: this process has to be small.
    with subprocess.Popen(
        command,
        cwd=ROOT,
        stdin=subprocess.DEVNULL if feed is None else subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    ) as process:
        if feed is not None:
            _feed(process, feed)
        assert process.stderr is not None
        said = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    wall = time.perf_counter() - started
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}:\n{said.decode()}")
    return Cost(usage.ru_utime + usage.ru_stime, wall, usage.ru_maxrss * 1024 / 1e6)


def _feed(process: subprocess.Popen[bytes], feed: Callable[[IO[bytes], int], None]) -> None:
    assert process.stdin is not None
    try:
        with process.stdin as stream:
            feed(stream, process.pid)
    except BrokenPipeError:  # it ended early, and says why on standard error
        pass


def resident_mb(pid: int) -> float:
    """Return the resident memory of a process in megabytes."""
    pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def output_of(module: str, *arguments: str | Path) -> bytes:
    """Return what a module of this interpreter writes on standard output."""
    command: Sequence[str] = [sys.executable, "-m", module, *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout
