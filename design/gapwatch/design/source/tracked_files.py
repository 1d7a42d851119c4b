"""Reads which files git tracks; a rule of `.gitignore` does not hold for them.

Source: https://git-scm.com/docs/index-format, versions 2 to 4. git itself is not run: the settings of a
repository may name commands.
"""

from __future__ import annotations

import itertools
import struct
from pathlib import Path

from gapwatch.design.source.regular_file import read_regular

_MOST_BYTES = 200_000_000
#: Times, device, inode, mode, owner and size, then the SHA-1 of the content; flags follow.
_FLAGS_AT = 60
_EXTENDED = 0x4000


def tracked_files(root: Path) -> frozenset[str]:
    """Return the paths below a folder, relative to it, that git tracks; none where no index can be read.

    Args:
        root: The repository, or a folder in it.
    """
    for folder in (root, *root.parents):
        try:
            index = read_regular(folder / ".git" / "index", _MOST_BYTES)
        except OSError:
            continue
        inside = root.relative_to(folder).as_posix().removeprefix(".")
        start = f"{inside}/" if inside else ""
        paths = (path.decode("utf-8", "surrogateescape") for path in _paths(index))
        return frozenset(path.removeprefix(start) for path in paths if path.startswith(start))
    return frozenset()


def with_folders(paths: frozenset[str]) -> frozenset[str]:
    """Return paths and all folders that hold one of them."""
    parts = (path.split("/") for path in paths)
    return frozenset(itertools.chain.from_iterable(itertools.accumulate(p, "{}/{}".format) for p in parts))


def _paths(index: bytes) -> list[bytes]:
    """Return the paths of an index; of one in another form, such as with SHA-256, none."""
    out: list[bytes] = []
    try:
        sign, version, count = struct.unpack_from(">4sII", index)
        if sign != b"DIRC" or version not in (2, 3, 4):
            return []
        at, path = 12, b""
        for _ in range(count):
            (flags,) = struct.unpack_from(">H", index, at + _FLAGS_AT)
            begin = at + _FLAGS_AT + (4 if flags & _EXTENDED else 2)
            kept = b""
            if version == 4:
                dropped, begin = _varint(index, begin)
                kept = path[: len(path) - dropped]
            end = index.index(b"\0", begin)
            path = kept + index[begin:end]
            out.append(path)
            # Entries of versions 2 and 3 are filled up with 1 to 8 zeros to a multiple of 8 bytes.
            at = end + 1 if version == 4 else at + (end - at) // 8 * 8 + 8
    except (struct.error, ValueError, IndexError):
        return []
    return out


def _varint(index: bytes, at: int) -> tuple[int, int]:
    """Return a number in git's offset encoding, and where the next byte begins."""
    value = index[at] & 0x7F
    while index[at] & 0x80:
        at += 1
        value = (value + 1) << 7 | (index[at] & 0x7F)
    return value, at + 1
