"""Asks the operating system whether a process is alive; imports nothing heavy, for commands ask it first."""

from __future__ import annotations

import os


def is_running(pid: int) -> bool:
    """Return whether there is such a process."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True
