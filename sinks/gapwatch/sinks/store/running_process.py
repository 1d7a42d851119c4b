"""Checks whether a process still runs. It loads nothing heavy, so that commands can read the API note quickly."""

from __future__ import annotations

import os


def is_running(pid: int) -> bool:
    """Return whether a process with this id exists."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True
