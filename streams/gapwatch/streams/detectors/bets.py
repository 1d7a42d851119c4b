"""Bets of a detector: tilts of the learned distribution over bins, of a few sizes for each kind of change.

A bet is (g, delta): under it the share of bin b is q_b exp(delta g(b)) / Z(delta). Bets with the same g are one shape;
a shape needs only the mass of each value of g, so a bet on one tail of 26 bins costs as much as one on a rate.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gapwatch.streams.detectors.arrays import Floats, Ints, add_up

UP, DOWN, SPREAD = 1, -1, 0

RATE_DELTAS = (0.3, 0.7, 1.5, 3.5)
COST_DELTAS = (0.2, 0.35, 0.6, 1.0, 1.6)
LOCATION_DELTAS = (0.2, 0.5, 1.2, 3.0)
SPREAD_DELTAS = (0.4, 1.0)
TAILS = ((0.95, (0.35, 0.8, 1.6, 3.0, -0.8)), (0.99, (0.8, 1.6, 3.0)), (0.998, (1.6, 3.0, 5.0)))
LEVELS = (0.002, 0.01, 0.025, *(round(0.05 * i, 2) for i in range(1, 20)), 0.975, 0.99, 0.998)
"""Levels of the order statistics at which numbers are cut: 25 cuts, 26 bins."""


@dataclass(frozen=True)
class Shape:
    """Bets that share one function g of the bin.

    Attributes:
        name: Quantity that moves, as an alert names it: "share above the old p95". Part of the fingerprint of a fleet.
        g: One value for each bin, in [-1, 1].
        deltas: Sizes of the bets, in log odds per unit of g; the sign is the direction.
        side: Direction of a positive delta: UP, DOWN, or SPREAD for neither.
    """

    name: str
    g: tuple[float, ...]
    deltas: tuple[float, ...]
    side: int

    @cached_property
    def values(self) -> tuple[float, ...]:
        """Distinct values of g, ascending."""
        return tuple(sorted(set(self.g)))

    @cached_property
    def members(self) -> tuple[tuple[int, ...], ...]:
        """Bins of each of `values`."""
        return tuple(tuple(b for b, g in enumerate(self.g) if g == value) for value in self.values)

    @cached_property
    def moved_bins(self) -> tuple[int, ...]:
        """Bins whose share is reported when a bet of this shape leads: g above the middle of its range."""
        middle = (self.values[0] + self.values[-1]) / 2
        return tuple(b for b, g in enumerate(self.g) if g > middle)


@dataclass(frozen=True)
class ShapeTilts:
    """Tilts of some shapes: first the null hypotheses of each side of a shape, then the bets.

    Attributes:
        shape_at: Shape of each tilt, as a position in the shapes.
        way: 1 for a tilt upwards, -1 for one downwards.
        side: 0 upwards, 1 downwards.
        steps: Size of each bet; 0 for a null hypothesis.
        null_of: Null hypothesis of each bet, as a position in the tilts.
    """

    shape_at: Ints
    way: Floats
    side: Ints
    steps: Floats
    null_of: Ints


@dataclass(frozen=True)
class AlikeShapes:
    """Shapes whose g has the same values, which are computed together: a call of numpy has a fixed price.

    Attributes:
        shapes: The shapes, as positions in the table.
        values: Distinct values of g, ascending.
        bets: Bets of these shapes, as positions in the table.
        shape_at: Shape of each of `bets`, as a position in `shapes`.
        deltas: Size of each of `bets`.
        members: Bins of each value, for each shape.
    """

    shapes: Ints
    values: Floats
    bets: Ints
    shape_at: Ints
    deltas: Floats
    members: tuple[tuple[tuple[int, ...], ...], ...]

    @cached_property
    def is_member(self) -> Floats:
        """1 where a bin has a value, else 0; shape (bins, values, shapes, 1)."""
        bins = 1 + max(b for bins in self.members[0] for b in bins)
        result = np.zeros((bins, len(self.values), len(self.members), 1))
        for at, of_values in enumerate(self.members):
            for value, some in enumerate(of_values):
                result[list(some), value, at] = 1.0
        return result

    @cached_property
    def tilts(self) -> ShapeTilts:
        """Null hypotheses and bets, as tilts."""
        ways = np.where(self.deltas > 0.0, 1.0, -1.0)
        sides, null_of = np.unique(np.stack([self.shape_at, ways]), axis=1, return_inverse=True)
        way = np.concatenate([sides[1], ways])
        return ShapeTilts(
            np.concatenate([sides[0].astype(np.int64), self.shape_at]),
            way,
            np.where(way > 0.0, 0, 1),
            np.concatenate([np.zeros(sides.shape[1]), self.deltas]),
            null_of.reshape(-1),
        )

    def masses(self, rows: Floats) -> Floats:
        """Return the sums of rows, shape (bins, series), over the bins of each value: (values, shapes, series)."""
        if len(self.members) > 1:
            return add_up(self.is_member * rows[:, None, None])
        (of_values,) = self.members
        if len(of_values) == len(rows):
            return rows[[bins[0] for bins in of_values]][:, None]
        sums = [rows[bins[0]] if len(bins) == 1 else add_up(rows[list(bins)]) for bins in of_values]
        return np.stack(sums)[:, None]


@dataclass(frozen=True)
class BetTable:
    """All bets of one kind of series.

    Attributes:
        kind: "rate", "category" or "number".
        bin_names: One name for each bin.
        shapes: Shapes; bets are numbered through them in this order.
    """

    kind: str
    bin_names: tuple[str, ...]
    shapes: tuple[Shape, ...]

    @property
    def bins(self) -> int:
        """Number of bins."""
        return len(self.bin_names)

    @cached_property
    def count(self) -> int:
        """Number of bets."""
        return sum(len(shape.deltas) for shape in self.shapes)

    @cached_property
    def deltas(self) -> Floats:
        """Size of each bet."""
        return np.array([d for shape in self.shapes for d in shape.deltas])

    @cached_property
    def sides(self) -> Ints:
        """Direction of each bet: UP, DOWN or SPREAD."""
        return np.array([shape.side * (1 if d > 0 else -1) for shape in self.shapes for d in shape.deltas], np.int64)

    @cached_property
    def bets_of(self) -> dict[int | None, list[int]]:
        """Bets of each side, and of all sides (None)."""
        everything: dict[int | None, list[int]] = {None: list(range(self.count))}
        return everything | {side: np.flatnonzero(self.sides == side).tolist() for side in (UP, DOWN, SPREAD)}

    @cached_property
    def shape_of(self) -> tuple[int, ...]:
        """Shape of each bet, as a position in `shapes`."""
        return tuple(i for i, shape in enumerate(self.shapes) for _ in shape.deltas)

    @cached_property
    def alike(self) -> tuple[AlikeShapes, ...]:
        """Shapes by the values of their g, in the order in which these come first."""
        by_values: dict[tuple[float, ...], list[int]] = {}
        for i, shape in enumerate(self.shapes):
            by_values.setdefault(shape.values, []).append(i)
        made = []
        for values, some in by_values.items():
            bets = [bet for bet, i in enumerate(self.shape_of) if i in some]
            shape_at = np.array([some.index(self.shape_of[bet]) for bet in bets], np.int64)
            members = tuple(self.shapes[i].members for i in some)
            made.append(
                AlikeShapes(
                    np.array(some, np.int64),
                    np.array(values),
                    np.array(bets, np.int64),
                    shape_at,
                    self.deltas[bets],
                    members,
                )
            )
        return tuple(made)

    @cached_property
    def g(self) -> Floats:
        """Value of each bin in each shape, shape (shapes, bins)."""
        return np.array([shape.g for shape in self.shapes])

    @cached_property
    def is_moved(self) -> Floats:
        """1 for the moved bins of each shape (`Shape.moved_bins`), else 0; shape (shapes, bins)."""
        return np.array([[float(b in shape.moved_bins) for b in range(self.bins)] for shape in self.shapes])

    @property
    def noise_statistic(self) -> Floats:
        """Statistic (one value for each bin) whose daily means give the daily noise: g of the first shape."""
        return np.array(self.shapes[0].g)

    def describe(self, bet: int) -> str:
        """Return the name of a bet for an alert: the quantity that moves, and up or down."""
        return f"{self.shapes[self.shape_of[bet]].name} {'up' if self.deltas[bet] > 0 else 'down'}"


def _both(deltas: Sequence[float]) -> tuple[float, ...]:
    return (*deltas, *(-d for d in deltas))


def rate_bets() -> BetTable:
    """Return bets on a 0/1 rate in both directions; bin 0 is "no", bin 1 "yes", UP is a higher rate.

    Source:
        Shin, Ramdas, Rinaldo, "E-detectors", NEJSDS 2024: a few exponential baselines, averaged. Four sizes are as
        good as thirteen (within the noise of 2,000 simulated streams); a rate whose odds move
        by less than exp(0.15) is detected late.
    """
    return BetTable("rate", ("no", "yes"), (Shape("rate", (0.0, 1.0), _both(RATE_DELTAS), UP),))


def frequent_labels(counts: Mapping[str, int], most: int = 8) -> tuple[str, ...]:
    """Return the most frequent labels of a burn-in; they get bins of their own.

    Args:
        counts: Units by label.
        most: Number of bins besides "new"; rarer and later labels share the bin "new".

    Returns:
        Labels, most frequent first; ties by name, so that the order of counting does not matter.
    """
    ordered = sorted((label for label, n in counts.items() if n > 0 and label != "new"), key=lambda x: (-counts[x], x))
    return tuple(ordered[:most])


def category_bets(names: Sequence[str], cost: Sequence[float] | None = None, bad: Sequence[str] = ()) -> BetTable:
    """Return bets on the shares of categories; the last bin, "new", holds all other categories.

    Args:
        names: The categories, best first where they are ordered (tiers); at least one, all different.
        cost: One number in [0, 1] for each category, higher is worse; without it no bet has a direction.
            The bin "new" costs 1.
        bad: Categories that get bets of their own in the bad direction; without `cost` every category gets them.

    Returns:
        With `cost`: location bets on 2 cost - 1, UP is worse, and indicator bets on each of `bad` and on "new".
        Without: indicators of every category, both ways, side SPREAD (no direction).

    Raises:
        ValueError: a name twice, a cost out of range, or `bad` names an unknown category.
    """
    bins = (*names, "new")
    if len(set(bins)) != len(bins):
        raise ValueError(f"categories {list(names)!r}: each name once, and none may be 'new'; rename the double one")
    if unknown := set(bad) - set(names):
        raise ValueError(f"bad categories {sorted(unknown)!r} are not among {list(names)!r}; list them as categories")

    def indicator(name: str, side: int) -> Shape:
        return Shape(f"share of {name}", tuple(float(b == name) for b in bins), _both(RATE_DELTAS), side)

    if cost is None:
        return BetTable("category", bins, tuple(indicator(name, SPREAD) for name in bins))
    if len(cost) != len(names) or not all(0.0 <= c <= 1.0 for c in cost):
        raise ValueError(f"cost {list(cost)!r}: one number in [0, 1] for each of {list(names)!r}")
    location = Shape("mean cost", tuple(2.0 * c - 1.0 for c in (*cost, 1.0)), _both(COST_DELTAS), UP)
    return BetTable("category", bins, (location, *(indicator(name, UP) for name in (*bad, "new"))))


def number_bets() -> BetTable:
    """Return the 34 bets on numbers cut at order statistics of a burn-in: location, spread and both tails.

    UP is towards larger numbers. Promise: see `increments` in `evidence`. The law of the bins is known only as far as
    the burn-in tells it, so levels with fewer than four of its values beyond them are dropped (`form_bins`).
    """
    cuts = (0.0, *LEVELS, 1.0)
    middles = [(low + high) / 2 for low, high in itertools.pairwise(cuts)]
    names = tuple(f"p{100 * low:g}-p{100 * high:g}" for low, high in itertools.pairwise(cuts))
    shapes = [Shape("location", tuple(2.0 * u - 1.0 for u in middles), _both(LOCATION_DELTAS), UP)]
    for level, deltas in TAILS:
        above = tuple(float(u > level) for u in middles)
        below = tuple(float(u < 1.0 - level) for u in middles)
        shapes.append(Shape(f"share above the old p{100 * level:g}", above, deltas, UP))
        shapes.append(Shape(f"share below the old p{100 - 100 * level:g}", below, deltas, DOWN))
    # Sixth power: a wider law gains in its tails, not evenly. It has 1.6 times the information of the plain distance.
    spread = tuple(2.0 * abs(2.0 * u - 1.0) ** 6 - 1.0 for u in middles)
    shapes.append(Shape("spread", spread, _both(SPREAD_DELTAS), SPREAD))
    return BetTable("number", names, tuple(shapes))
