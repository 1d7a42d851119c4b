"""Smallest change worth telling: the tilt of each bet up to which a change is no evidence.

up, of a share p     p' = max(factor p, p + share),  or of its rest r = 1 - p   r' = min(r / factor, r - share)
                     the smaller of both tilts in log odds: a change is told where one side of it is large
"""

from __future__ import annotations

import numpy as np

from gapwatch.streams.detectors.arrays import Array, Bools, Floats, Ints, Rows, add_up, positions
from gapwatch.streams.detectors.bets import BetTable, Shape

FACTOR = 1.25
"""Default of the smallest factor of a share that is told ..."""
SHARE = 0.01
"""... and of the smallest difference: one percentage point. Both must be exceeded."""
# Log odds of a change that is never told: no share can grow so much.
_NEVER = 30.0
# Units from which the baseline is taken as it was when the hour began. Before, it is taken at every fold.
_SETTLED = 1_000.0


def least_tilts(table: BetTable, alpha: Floats, factor: Floats, share: Floats) -> Floats:
    """Return the smallest tilt worth telling of each shape, upwards and downwards.

    Args:
        table: The bets.
        alpha: Baseline over all hours, units by bin with their prior, shape (bins, series).
        factor: Smallest factor of a share, >= 1, shape (series,).
        share: Smallest difference of a share, in [0, 1), shape (series,).

    Returns:
        Log odds per unit of g, shape (shapes, 2, series); 30 where no change is large enough.

    Source:
        A tilt of g moves the log odds of the bins with large g (`Shape.moved_bins`) by the tilt times the mean
        difference of g between these bins and all others. This is exact for shapes of two values, such as rates, labels
        and tails; for the location of numbers it is exact for the share above the old median of a continuous law.
    """
    total = add_up(alpha)
    moved = add_up(table.is_moved.T[:, :, None] * alpha[:, None])
    p = moved / total
    gap = np.stack(
        [np.broadcast_to(_gap(shape, alpha, moved[i], total), p[i].shape) for i, shape in enumerate(table.shapes)]
    )
    result = np.empty((len(table.shapes), 2, len(total)))
    result[:, 0] = np.minimum(_growth(p, factor, share), _shrinkage(1.0 - p, factor, share)) / gap
    result[:, 1] = np.minimum(_growth(1.0 - p, factor, share), _shrinkage(p, factor, share)) / gap
    return np.minimum(result, _NEVER, out=result)


def narrowing(table: BetTable, alpha: Floats, tilts: Floats, factor: Floats) -> Floats:
    """Return by how much the smallest tilts narrow what is not known of a share, as a factor of its variance.

    Args:
        table: The bets.
        alpha: Baseline, units by bin with their prior, shape (bins, series).
        tilts: Smallest tilts, from `least_tilts`, shape (shapes, 2, series).
        factor: Smallest factor of a share, >= 1, shape (series,).

    Returns:
        Factors in (0, 1] of a variance in squared log odds, shape (shapes, 2, series).

    Source:
        What is not known of p' is that of a baseline of as many units with the share p'; for a factor, of as many units
        divided by it. So the variance in log odds is multiplied by factor v / v', with v and v' the variances of g
        before and after. Its tail is as heavy as that of p' itself: the mean of a factor stays below 1 where p follows
        its posterior (a test computes it); with the square of v / v' it was 357. A share of 0 in 140 that may grow by
        one point ends at about 1 point. As a tilt of log odds it would end anywhere below 8.
    """
    shares = (alpha / add_up(alpha))[:, None, None]
    g = table.g.T[:, :, None, None]
    tilted = shares * np.exp(np.array([1.0, -1.0])[:, None] * g * tilts)
    after = np.maximum(_spread(g, tilted / add_up(tilted)), 1e-300)
    result: Floats = np.minimum(factor * _spread(g, shares) / after, 1.0)
    return result


def _spread(g: Floats, shares: Floats) -> Floats:
    mean = add_up(g * shares)
    result: Floats = np.maximum(add_up(g * g * shares) - mean * mean, 1e-12)
    return result


def gap_of(shape: Shape, learned: Floats) -> float:
    """Return the log odds by which a tilt of 1 moves the share of the moved bins of a shape; see `least_tilts`.

    Args:
        shape: The shape.
        learned: Baseline of one series, units by bin with their prior, shape (bins,).
    """
    alpha = learned[:, None]
    return float(np.max(_gap(shape, alpha, add_up(alpha[list(shape.moved_bins)]), add_up(alpha))))


def _gap(shape: Shape, alpha: Floats, moved: Floats, total: Floats) -> Floats | float:
    """Return the mean g of the moved bins less that of the others."""
    if len(shape.values) == 2:
        return shape.values[1] - shape.values[0]
    g = np.array(shape.g)[:, None]
    inside = list(shape.moved_bins)
    above = add_up(alpha[inside] * g[inside])
    rest = np.maximum(total - moved, 1e-9)
    return np.maximum(above / np.maximum(moved, 1e-9) - (add_up(alpha * g) - above) / rest, 1e-3)


def _growth(p: Floats, factor: Floats, share: Floats) -> Floats:
    """Return the log odds by which a share grows when it grows by the factor and by the difference."""
    grown = np.maximum(p * factor, p + share)
    return _tilt(p, grown)


def _shrinkage(p: Floats, factor: Floats, share: Floats) -> Floats:
    """Return the log odds by which a share shrinks when it shrinks by the factor and by the difference."""
    shrunk = np.minimum(p / factor, p - share)
    return _tilt(shrunk, p)


def _tilt(low: Floats, high: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        odds = np.log(high * (1.0 - low) / (low * (1.0 - high)))
    result: Floats = np.where((low > 0.0) & (high < 1.0), odds, np.inf)
    return result


def refresh_tilts(table: BetTable, s: dict[str, Array], rows: Rows, seen: Bools, begun: Ints) -> None:
    """Compute the smallest tilts again: where an hour begins, and while a baseline is young.

    Args:
        table: The bets.
        s: State arrays of the fleet, by name.
        rows: Series of the fold.
        seen: True for the series with a unit in the fold.
        begun: Rows of the series whose hour begins with this fold.
    """
    young = seen & (add_up(s["prior"][:, rows]) + add_up(add_up(s["pooled"][:, :, rows])) < _SETTLED)
    index = np.union1d(begun, positions(rows)[young]) if young.any() else begun
    if not len(index):
        return
    alpha = s["prior"][:, index] + add_up(s["pooled"][:, :, index])
    factor, share = s["min_factor"][index].astype(np.float64), s["min_share"][index].astype(np.float64)
    s["least_tilts"][:, :, index] = least_tilts(table, alpha, factor, share)


def column_tilts(
    table: BetTable, s: dict[str, Array], prior: Floats, pooled: Floats, first: Ints, which: Ints
) -> tuple[Floats, Floats]:
    """Return the smallest tilts at each of several buckets of some series, as `refresh_tilts` sets them one by one.

    Args:
        table: The bets.
        s: State arrays of the series, by name; `refresh_tilts` has set the tilts of their first bucket.
        prior: Prior of the series of each column, shape (bins, columns); the columns are ordered by series.
        pooled: Units of all hours before each bucket, same shape.
        first: First column of each series.
        which: Series of each column.

    Returns:
        Tilts of each column, and those of the last column of each series.
    """
    result: Floats = s["least_tilts"][:, :, which]
    young = add_up(prior) + add_up(pooled) < _SETTLED
    young[first] = False
    columns = np.flatnonzero(young)
    if len(columns):
        mine = which[columns]
        factor, share = s["min_factor"][mine].astype(np.float64), s["min_share"][mine].astype(np.float64)
        result[:, :, columns] = least_tilts(table, prior[:, columns] + pooled[:, columns], factor, share)
        # A baseline that is settled keeps what it had at its last young bucket.
        source = np.where(young, np.arange(len(which)), 0)
        source[first] = first
        source = np.maximum.accumulate(source)
        result = result[:, :, source]
    last = np.append(first[1:], len(which)) - 1
    return result, result[:, :, last]
