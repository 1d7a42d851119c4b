"""Runs the command line on a terminal of a given width, and reads what a person would see there."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from pathlib import Path

from tests.paths import ROOT


def on_terminal(columns: int, *arguments: object, folder: Path = ROOT) -> tuple[int, str]:
    """Run `gapwatch` with its output on a terminal.

    Args:
        columns: How wide the terminal is.
        arguments: Of the command line.
        folder: Where it runs.

    Returns:
        The exit status, and all that came to the terminal, escapes included.
    """
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
    process = subprocess.Popen(
        [sys.executable, "-m", "gapwatch.scorers.command_line", *map(str, arguments)],
        stdin=subprocess.DEVNULL, stdout=theirs, stderr=subprocess.DEVNULL, cwd=folder,
        env={**environment, "TERM": "xterm-256color", "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    os.close(theirs)
    seen = bytearray()
    with contextlib.suppress(OSError):  # the other end is closed: Linux says so by an error
        while block := os.read(ours, 65536):
            seen += block
    os.close(ours)
    return process.wait(), seen.decode("utf-8", "replace")
