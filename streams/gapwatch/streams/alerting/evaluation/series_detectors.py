"""Protocol of a family of detectors: failure rates are one family, values (numbers and labels) the other.

slice ─▶ add ─▶ pending, by tick ─▶ ready ─▶ fold ─▶ findings
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from gapwatch.streams.alerting.rules.finding import Finding
from gapwatch.streams.alerting.series.slice_units import OpenTicks
from gapwatch.streams.detectors.arrays import Floats, Ints
from gapwatch.streams.detectors.fleet import Fleet

SliceT = TypeVar("SliceT", contravariant=True)


@dataclass(frozen=True)
class Learned:
    """Baselines of one fleet, one entry a row.

    Attributes:
        units: Units of each baseline.
        rates: Failure rate of each baseline, all hours together; None for values, which have no single rate.
    """

    units: Floats
    rates: Floats | None


class SeriesDetectors(Protocol[SliceT]):
    """Detectors of one family and their open ticks; `RateDetectors` and `ValueDetectors` implement it.

    The state is a function of the calls, in order: the same slices give the same findings, bit for bit.
    """

    @property
    def fleets(self) -> Mapping[str, Fleet]:
        """Fleets by name, always in the same order."""

    def add(self, content: SliceT, there: OpenTicks) -> None:
        """Add the entries of a slice to the open ticks; late ones join the current tick with the hour of their event.

        Args:
            content: Part of the slice that the family monitors.
            there: Ticks that are open.
        """

    def most_entries(self) -> int:
        """Return the number of entries of all open ticks, or a little more, without a sum over them."""

    def sizes(self) -> Mapping[int, int]:
        """Return the number of entries of each open tick."""

    def ready(self, closed: int) -> Iterable[int]:
        """Return the ticks that are ready to fold, in any order.

        Args:
            closed: Watermark: the last tick that no entry can join any more.
        """

    def is_plain(self, tick: int) -> bool:
        """Return whether a ready tick makes no new row, so that it can be folded together with its neighbours."""

    def fold(self, ticks: Sequence[int]) -> list[Finding]:
        """Fold the entries of some ticks, and return the findings; each is that of a fold of one tick after the other.

        Args:
            ticks: One tick, or plain ticks of one hour since the epoch, ascending; some may have no entries.
        """

    def waiting(self) -> Iterable[tuple[int, str]]:
        """Yield the (number of the series, kind) that the open entries will have a row for, once they are folded."""

    def grow(self, name: str, count: int) -> Ints:
        """Add empty series to a fleet, and return their rows."""

    def learned(self, name: str) -> Learned:
        """Return the baselines of a fleet."""

    def as_json(self) -> dict[str, Any]:
        """Return everything but the fleets as JSON values; the families of a lane use different keys."""

    def take_json(self, value: Mapping[str, Any]) -> None:
        """Restore the state from `as_json`; other keys are ignored."""

    def snapshots(self) -> dict[str, bytes]:
        """Return each fleet as bytes, by name."""

    def restore(self, snapshots: Mapping[str, bytes]) -> None:
        """Restore the fleets from `snapshots`.

        Raises:
            SnapshotError: The fleets cannot be read, or belong to detectors of another version.
        """
