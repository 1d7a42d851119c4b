"""Snapshots: a fleet as bytes and back, with its burn-ins where it has them; equal states give equal bytes."""

from __future__ import annotations

import json
from typing import Any, Protocol, TypeVar

import numpy as np

from gapwatch.streams.detectors.fleet import Fleet
from gapwatch.streams.detectors.fleet_config import FleetConfig

_MAGIC = b"gapwatch-fleet-1\n"


class SnapshotError(ValueError):
    """A snapshot cannot be read, or was made by another version of a fleet; refold the ticks from the start."""


def snapshot(fleet: Fleet) -> bytes:
    """Return the state of a fleet as bytes: a line of JSON, then the memory of each array.

    Promise: `restore` returns the same arrays bit for bit, and later folds give the same results.
    """
    head = {
        "config": fleet.config.fingerprint(),
        "series": fleet.series,
        "arrays": [[name, array.dtype.str, list(array.shape)] for name, array in fleet.state.items()],
    }
    line = json.dumps(head, separators=(",", ":")).encode() + b"\n"
    return _MAGIC + line + b"".join(np.ascontiguousarray(array).tobytes() for array in fleet.state.values())


def restore(config: FleetConfig, data: bytes) -> Fleet:
    """Return the fleet that `snapshot` wrote.

    Raises:
        SnapshotError: not a snapshot, cut short, or of a fleet with another config.
    """
    if not data.startswith(_MAGIC):
        raise SnapshotError("these bytes are no snapshot of detectors; refold the ticks from the start")
    end = data.find(b"\n", len(_MAGIC))
    try:
        head = json.loads(data[len(_MAGIC) : end])
        series = int(head["series"])
        same = head["config"] == config.fingerprint()
    except (ValueError, KeyError, TypeError) as error:
        raise SnapshotError("the head of this snapshot cannot be read; refold the ticks from the start") from error
    if not same:
        raise SnapshotError("this snapshot is of detectors with another config; refold the ticks from the start")
    fleet = Fleet(config)
    at = end + 1
    for name, (shape, kind) in config.layout().items():
        whole = (*shape, series)
        size = int(np.prod(whole)) * np.dtype(kind).itemsize
        if at + size > len(data):
            raise SnapshotError("this snapshot is cut short; refold the ticks from the start")
        fleet.state[name] = np.frombuffer(data[at : at + size], kind).reshape(whole).copy()
        at += size
    if at != len(data):
        raise SnapshotError("this snapshot has bytes left over; refold the ticks from the start")
    return fleet


class Headed(Protocol):
    """Fleet with state outside its arrays, such as burn-ins."""

    fleet: Fleet

    def head(self) -> dict[str, Any]:
        """Return the state outside the fleet as JSON values."""

    def take_head(self, head: dict[str, Any]) -> None:
        """Restore the state from `head`, after the fleet; may raise KeyError, TypeError, ValueError."""


AnyHeaded = TypeVar("AnyHeaded", bound=Headed)


def snapshot_headed(one: Headed) -> bytes:
    """Return a fleet and the state outside it as bytes; see `snapshot`."""
    return json.dumps(one.head(), separators=(",", ":")).encode() + b"\n" + snapshot(one.fleet)


def restore_headed(empty: AnyHeaded, data: bytes) -> AnyHeaded:
    """Restore an empty one from `snapshot_headed`, and return it.

    Raises:
        SnapshotError: As for `restore`; do not use `empty` after it.
    """
    line, newline, rest = data.partition(b"\n")
    if not newline:
        raise SnapshotError("these bytes are no snapshot of detectors; refold the ticks from the start")
    empty.fleet = restore(empty.fleet.config, rest)
    try:
        empty.take_head(json.loads(line))
    except (ValueError, KeyError, TypeError) as error:
        raise SnapshotError("the head of this snapshot cannot be read; refold the ticks from the start") from error
    return empty
