"""Writes that survive a power cut."""

from __future__ import annotations

import os
from pathlib import Path


def write_all(handle: int, data: bytes) -> None:
    """Write bytes to an open file, in several calls where the system takes them in parts.

    Raises:
        OSError: The disk is full or broken; a part may be written.
    """
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]


def sync_folder(folder: Path) -> None:
    """Make the names of the files of a folder safe.

    Raises:
        OSError: The disk is broken.
    """
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
