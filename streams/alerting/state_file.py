"""The state of one lane's detectors as bytes and back."""

from __future__ import annotations

import json
from typing import Any

import zstandard

from streams.detectors.fleet import Fleet
from streams.detectors.fleet_config import FleetConfig
from streams.detectors.snapshot import SnapshotError, restore, snapshot

_MAGIC = b"gapwatch-watch-2\n"
# Rings of young series are nearly all zeros: the fastest level takes a tenth of the space.
_LEVEL = 1


def pack(head: dict[str, Any], fleets: dict[str, Fleet]) -> bytes:
    """Return a head of JSON values and fleets as bytes; the same state gives the same bytes."""
    blobs = {name: snapshot(fleet) for name, fleet in sorted(fleets.items())}
    line = json.dumps({"head": head, "sizes": {name: len(blob) for name, blob in blobs.items()}})
    whole = line.encode() + b"\n" + b"".join(blobs.values())
    return _MAGIC + zstandard.ZstdCompressor(level=_LEVEL).compress(whole)


def unpack(data: bytes, configs: dict[str, FleetConfig]) -> tuple[dict[str, Any], dict[str, Fleet]]:
    """Return what `pack` took.

    Raises:
        SnapshotError: It cannot be read, or belongs to detectors of another make; refold the ticks.
    """
    if not data.startswith(_MAGIC):
        raise SnapshotError("these bytes are no state of detectors; refold the ticks from the start")
    try:
        whole = zstandard.ZstdDecompressor().decompress(data[len(_MAGIC) :])
        end = whole.index(b"\n")
        line = json.loads(whole[:end])
        sizes = dict(line["sizes"])
    except (ValueError, KeyError, TypeError, zstandard.ZstdError) as error:
        raise SnapshotError("the state of the detectors cannot be read; refold the ticks from the start") from error
    if set(sizes) != set(configs):
        raise SnapshotError("the state is of other fleets; refold the ticks from the start")
    at, fleets = end + 1, {}
    for name, size in sizes.items():
        fleets[name] = restore(configs[name], whole[at : at + size])
        at += size
    return dict(line["head"]), fleets
