"""State of one lane's detectors as bytes, and back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import zstandard

from gapwatch.streams.detectors.snapshot import SnapshotError

_MAGIC = b"gapwatch-watch-10\n"
# Rings of young series are nearly all zeros: the fastest level takes a tenth of the space.
_LEVEL = 1


def pack_state(head: Mapping[str, Any], fleets: Mapping[str, bytes]) -> bytes:
    """Return JSON values and fleets as bytes; equal states give equal bytes.

    Args:
        head: State besides the fleets, as JSON values.
        fleets: Name of each fleet to its snapshot.
    """
    line = json.dumps({"head": head, "sizes": {name: len(blob) for name, blob in fleets.items()}})
    whole = line.encode() + b"\n" + b"".join(fleets.values())
    return _MAGIC + zstandard.ZstdCompressor(level=_LEVEL).compress(whole)


def unpack_state(data: bytes) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Return the JSON values and the fleets from `pack_state`.

    Raises:
        SnapshotError: The bytes cannot be read, or belong to detectors of another version; refold the ticks.
    """
    if not data.startswith(_MAGIC):
        raise SnapshotError("these bytes are no saved state of detectors; refold the ticks from the start")
    try:
        whole = zstandard.ZstdDecompressor().decompress(data[len(_MAGIC) :])
        end = whole.index(b"\n")
        line = json.loads(whole[:end])
        head, sizes = dict(line["head"]), dict(line["sizes"])
    except (ValueError, KeyError, TypeError, zstandard.ZstdError) as error:
        raise SnapshotError(
            "the saved state of the detectors cannot be read; refold the ticks from the start"
        ) from error
    at, fleets = end + 1, {}
    for name, size in sizes.items():
        fleets[name] = whole[at : at + size]
        at += size
    return head, fleets
