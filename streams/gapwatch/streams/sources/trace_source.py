"""`TraceSource`: a run's source of traces, a topic of Kafka or a log on this machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class OffsetProgress(Protocol):
    """Offsets that a source has read and stored; any thread may read them."""

    def positions(self) -> dict[int, tuple[int, int, int]]:
        """Return by partition: next offset to be stored, next to be fetched, end of the readable records."""
        ...

    def known_ends(self) -> Mapping[tuple[str, int], tuple[int, int]]:
        """Return by topic and partition the first offset of this run, and one past the last record known to exist."""
        ...


class TraceSource(Protocol):
    """Source of traces; see `SliceSource`, whose documentation holds for all."""

    state: str
    waiting_for: str
    lost: int
    is_clean: bool

    @property
    def progress(self) -> OffsetProgress:
        """Offsets that were read and stored."""
        ...

    @property
    def linger_seconds(self) -> float | None:
        """Seconds that few records wait for others at present; None if they do not."""
        ...

    async def run(self) -> None:
        """Read until `stop` is called; raises what ended it."""
        ...

    def stop(self) -> None:
        """Begin to stop; call it on the event loop."""
        ...

    def fail(self, error: BaseException) -> None:
        """End `run` with this error."""
        ...

    def is_caught_up(self) -> bool:
        """Return True if every record is read and stored."""
        ...

    def is_connected(self) -> bool:
        """Return whether the source answers."""
        ...

    def broker_silence(self) -> float | None:
        """Return the seconds since the source last answered; None before the first answer."""
        ...
