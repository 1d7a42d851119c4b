"""The state of one lane's detectors as bytes and back."""

from __future__ import annotations

import json
from typing import Any, TypedDict

import zstandard

from streams.alerting.value_bank import LABELS, NUMBERS
from streams.detectors.categories import CategoryFleet
from streams.detectors.fleet import Fleet
from streams.detectors.fleet_config import FleetConfig
from streams.detectors.numbers import NumberFleet
from streams.detectors.snapshot import SnapshotError, restore, restore_headed, snapshot, snapshot_headed

_MAGIC = b"gapwatch-watch-4\n"
# Rings of young series are nearly all zeros: the fastest level takes a tenth of the space.
_LEVEL = 1


class Fleets(TypedDict):
    """What detectors there are."""

    units: Fleet
    sessions: Fleet
    numbers: NumberFleet
    labels: CategoryFleet


def pack(head: dict[str, Any], fleets: Fleets) -> bytes:
    """Return a head of JSON values and fleets as bytes; the same state gives the same bytes."""
    blobs = {
        "units": snapshot(fleets["units"]),
        "sessions": snapshot(fleets["sessions"]),
        "numbers": snapshot_headed(fleets["numbers"]),
        "labels": snapshot_headed(fleets["labels"]),
    }
    line = json.dumps({"head": head, "sizes": {name: len(blob) for name, blob in blobs.items()}})
    whole = line.encode() + b"\n" + b"".join(blobs.values())
    return _MAGIC + zstandard.ZstdCompressor(level=_LEVEL).compress(whole)


def unpack(data: bytes, units: FleetConfig, sessions: FleetConfig) -> tuple[dict[str, Any], Fleets]:
    """Return what `pack` took, with the config of its first two fleets.

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
    if set(sizes) != set(Fleets.__annotations__):
        raise SnapshotError("the state is of other fleets; refold the ticks from the start")
    at, blobs = end + 1, {}
    for name, size in sizes.items():
        blobs[name] = whole[at : at + size]
        at += size
    fleets: Fleets = {
        "units": restore(units, blobs["units"]),
        "sessions": restore(sessions, blobs["sessions"]),
        "numbers": restore_headed(NumberFleet(NUMBERS), blobs["numbers"]),
        "labels": restore_headed(CategoryFleet(LABELS), blobs["labels"]),
    }
    return dict(line["head"]), fleets
