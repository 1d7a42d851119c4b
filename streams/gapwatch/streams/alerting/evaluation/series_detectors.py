"""The shape of a family of detectors: rates are one family, values (numbers and labels) the other.

slice ─▶ add ─▶ pending, by tick ─▶ ready ─▶ fold ─▶ findings
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from gapwatch.streams.alerting.rules.finding import Finding
from gapwatch.streams.alerting.series.slice_units import OpenTicks
from gapwatch.streams.detectors.arrays import Floats, Ints
from gapwatch.streams.detectors.fleet import Fleet

SliceT = TypeVar("SliceT", contravariant=True)


class OpenEntries(Protocol):
    """What waits in one open tick."""

    @property
    def size(self) -> int:
        """How many entries it has."""


@dataclass(frozen=True)
class Learned:
    """The baselines of one fleet, one entry a row.

    Attributes:
        units: Units of each baseline.
        rates: Failure rate of each baseline, all hours together; None for values, which have no single rate.
    """

    units: Floats
    rates: Floats | None


class SeriesDetectors(Protocol[SliceT]):
    """Detectors of one family and what waits for them; `RateDetectors` and `ValueDetectors` implement it.

    The state is a function of the calls, in order: the same slices give the same findings, bit for bit.
    """

    @property
    def fleets(self) -> Mapping[str, Fleet]:
        """The fleets by name, always in the same order."""

    @property
    def pending(self) -> Mapping[int, OpenEntries]:
        """Open tick to what waits in it."""

    def add(self, content: SliceT, there: OpenTicks) -> None:
        """Put what a slice holds into the open ticks; late entries join the current tick, with the hour of their own.

        Args:
            content: What the family watches of the slice.
            there: The ticks that are open.
        """

    def ready(self, closed: int) -> Iterable[int]:
        """Return the ticks to be folded, in any order.

        Args:
            closed: Last tick that nothing can join any more.
        """

    def fold(self, tick: int) -> list[Finding]:
        """Fold what waits in a tick, if anything does, and return what it brought; call it for ticks in order."""

    def grow(self, name: str, count: int) -> Ints:
        """Add series that have seen nothing to a fleet, and return their rows."""

    def learned(self, name: str) -> Learned:
        """Return the baselines of a fleet."""

    def as_json(self) -> dict[str, Any]:
        """Return all but the fleets as JSON values; the families of a lane use different keys."""

    def take_json(self, value: Mapping[str, Any]) -> None:
        """Go on from what `as_json` gave; other keys are ignored."""

    def snapshots(self) -> dict[str, bytes]:
        """Return each fleet as bytes, by name."""

    def restore(self, snapshots: Mapping[str, bytes]) -> None:
        """Go on from the fleets that `snapshots` gave.

        Raises:
            SnapshotError: They cannot be read, or belong to detectors of another make.
        """
