"""Units of a window by value and weight, as one bound sees them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

#: Roles of a unit: of the bounded quantity or the numerator of a ratio, and of the denominator.
TOP, BOTTOM = 0, 1


class UnitGroup(NamedTuple):
    """Key of units that a bound cannot tell apart.

    Attributes:
        role: `TOP` or `BOTTOM`.
        code: Cell of the number on the grid of ticks; of a share 1 for units that count, 0 for others; None for an
            undecided unit.
        p: Probability with which the unit was evaluated; it stands for 1 / p units.
    """

    role: int
    code: int | None
    p: float


@dataclass
class WindowUnits:
    """Units of one tick, of a part of a window, or of a window.

    Attributes:
        counts: Units by group.
        sums: Weighted sum of the numbers of `TOP` and of `BOTTOM`, exact where the grid is not.
        in_sessions: Units with a session.
        squares: Sum of the squared sizes of their sessions.
    """

    counts: Counter[UnitGroup] = field(default_factory=Counter)
    sums: list[float] = field(default_factory=lambda: [0.0, 0.0])
    in_sessions: int = 0
    squares: int = 0

    def join(self, other: WindowUnits) -> None:
        """Add other units."""
        self.counts.update(other.counts)
        self.sums = [mine + more for mine, more in zip(self.sums, other.sums, strict=True)]
        self.in_sessions += other.in_sessions
        self.squares += other.squares

    def leave(self, other: WindowUnits, sums: Iterable[list[float]]) -> None:
        """Remove units that have left the window.

        Args:
            other: Units that joined before.
            sums: Sums of the parts that stay: added anew, because a difference of sums would lose digits.
        """
        self.counts.subtract(other.counts)
        for group in other.counts:
            if not self.counts[group]:
                del self.counts[group]
        kept = list(sums)
        self.sums = [sum(one[role] for one in kept) for role in (TOP, BOTTOM)]
        self.in_sessions -= other.in_sessions
        self.squares -= other.squares

    def units(self, role: int) -> int:
        """Return the decided units of a role."""
        return sum(n for group, n in self.counts.items() if group.role == role and group.code is not None)

    def unknown_share(self, role: int) -> float:
        """Return the weighted share of undecided units of a role; 0 without a unit."""
        whole = sum(n / group.p for group, n in self.counts.items() if group.role == role)
        unknown = sum(n / group.p for group, n in self.counts.items() if group.role == role and group.code is None)
        return unknown / whole if whole else 0.0

    @property
    def session_size(self) -> float:
        """Mean size of a unit's session, in units; a unit without a session is alone."""
        alone = self.units(TOP) - self.in_sessions
        return max((max(alone, 0) + self.squares) / max(self.units(TOP), 1), 1.0)

    def as_json(self) -> list[Any]:
        """Return the units as JSON values; equal units give equal values."""
        groups = sorted(self.counts.items(), key=lambda one: (one[0].role, one[0].code is None, one[0].code, one[0].p))
        return [[[*group, n] for group, n in groups], self.sums, self.in_sessions, self.squares]

    @classmethod
    def from_json(cls, value: list[Any]) -> WindowUnits:
        """Return the units from `as_json`."""
        groups, sums, in_sessions, squares = value
        return cls(Counter({UnitGroup(*group): n for *group, n in groups}), list(sums), in_sessions, squares)
