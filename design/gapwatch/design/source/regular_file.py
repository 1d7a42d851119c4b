"""Reads files of a repository that anybody may have written: regular ones alone, and no more than asked for."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path


def read_regular(path: Path | str, most: int) -> bytes:
    """Return the first bytes of a regular file.

    Args:
        path: The file. A link is not followed, and a pipe, socket or device is not waited for.
        most: Most bytes that are read.

    Raises:
        OSError: It cannot be read, or is no regular file.
    """
    # O_NOFOLLOW: the entry may have become a link since it was listed.
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        return file.read(most)
