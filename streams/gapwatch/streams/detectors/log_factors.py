"""Log factors of all bets for one bucket: without and beyond the margins, in hours that are known and that are not."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gapwatch.streams.detectors.arrays import Array, Bools, Floats, Ints, Rows, add_up, positions
from gapwatch.streams.detectors.evidence import PLUG_IN_RATIO, increments, margin_increments
from gapwatch.streams.detectors.fleet_config import FleetConfig
from gapwatch.streams.detectors.local_level import level_increments, level_of
from gapwatch.streams.detectors.margins.min_change import narrowing
from gapwatch.streams.detectors.sessions import session_increments


@dataclass(frozen=True)
class FoldedBucket:
    """Units of one fold, and the baseline of their context.

    Attributes:
        rows: Series.
        number: Number of the bucket.
        hour: Hour of the week.
        stratum: Weight class.
        counts: Units by bin, shape (bins, series).
        units: Units of each series; sessions count as one each.
        sessions: Series of each session, as a position in `rows`, and its mean; None for units.
        alpha: Dirichlet parameters of the context, shape (bins, series).
        has_weekday: True for series whose `alpha` is that of the hour of the week; None where it is that of no series.
    """

    rows: Rows
    number: int
    hour: int
    stratum: int
    counts: Floats
    units: Floats
    sessions: tuple[Ints, Floats] | None
    alpha: Floats
    has_weekday: Bools | None = None

    @property
    def steady(self) -> Bools:
        """True for series whose baseline may be plugged in; see `PLUG_IN_RATIO`."""
        result: Bools = add_up(self.alpha) >= PLUG_IN_RATIO * self.units
        return result


@dataclass(frozen=True)
class BucketFactors:
    """Log factors of one fold, and the units that count for the evidence.

    Attributes:
        plain: Log factors of any change, shape (bets, series); 0 where no bet is made.
        beyond: Log factors beyond the margins, same shape.
        starts: Units that may be the first after a change, shape (series,).
        certain: The same of a change beyond the margins.
    """

    plain: Floats
    beyond: Floats
    starts: Floats
    certain: Floats


def bucket_factors(
    config: FleetConfig, s: dict[str, Array], now: FoldedBucket, ready: Bools, known: Bools
) -> BucketFactors:
    """Return the log factors of one bucket, in hours that are known and that are not.

    Args:
        config: Configuration of the fleet.
        s: State arrays of the fleet, by name.
        now: The bucket.
        ready: True for series with units that have finished their burn-in.
        known: True for those of them that have a baseline for the hour.
    """
    log_factors, beyond, sure = known_factors(config, s, now, known)
    plain = known if now.sessions is None else sure
    starts, certain = np.where(plain, now.units, 0.0), np.where(sure, now.units, 0.0)
    unknown = ready & ~known
    if unknown.any():
        log_factors, beyond, other = unknown_factors(config, s, now, unknown, (log_factors, beyond))
        starts, certain = np.where(other, now.units, starts), np.where(other, now.units, certain)
    return BucketFactors(log_factors, beyond, starts, certain)


def learned_moments(s: dict[str, Array], rows: Rows) -> tuple[Floats, Floats]:
    """Return the mean and the variance of all learned sessions of some series, shape (series,) each."""
    everyone = add_up(add_up(s["pooled"][:, :, rows])) + 1.0
    mean = (add_up(s["pooled"][:, 1, rows]) + 0.5) / everyone
    return mean, np.maximum((s["squares"][rows] + 0.25) / everyone - mean * mean, 0.0)


def margins_of(s: dict[str, Array], rows: Rows, has_weekday: Bools | None = None) -> Floats:
    """Return the margins of some series: the smallest change worth telling, or the daily noise where that is larger.

    Args:
        s: State arrays of the fleet, by name.
        rows: Series.
        has_weekday: True for series whose baseline is that of the hour of the week; None where it is that of no series.

    Returns:
        Log odds per unit of g, for each shape upwards and downwards; shape (shapes, 2, series).

    Source:
        A change must be both: worth telling, and more than a usual day differs. So the null hypothesis is that one of
        the two explains it; each alone is a margin of `margin_increments`, and the larger one covers both. The effect
        of the weekday moves the expected level; see `margins.daily_noise`.
    """
    weekday = s["weekday_margins"][:, rows]
    if has_weekday is not None:
        weekday = np.where(has_weekday, 0.0, weekday)
    result: Floats = np.maximum(s["least_tilts"][:, :, rows], s["margin"][rows]) + weekday
    return result


def known_factors(
    config: FleetConfig, s: dict[str, Array], now: FoldedBucket, known: Bools
) -> tuple[Floats, Floats, Bools]:
    """Return log factors without and beyond the margins, and where the latter count: in hours with a baseline.

    Args:
        config: Configuration of the fleet.
        s: State arrays of the fleet, by name.
        now: The bucket.
        known: True for series that have a baseline for its hour.

    Returns:
        Twice shape (bets, series), 0 where they do not count; and shape (series,).
    """
    table = config.table
    if not known.any():
        nothing = np.zeros((table.count, len(known)))
        return nothing, nothing.copy(), known
    sure = known & now.steady
    if now.sessions is None:
        plain = beyond = increments(table, now.alpha, now.counts)
        if config.margins:
            beyond = margin_increments(table, now.alpha, now.counts, margins_of(s, now.rows, now.has_weekday))
        return np.where(known, plain, 0.0), np.where(sure, beyond, 0.0), sure
    plain = beyond = _session_factors(config, s, now, now.sessions, np.zeros((2, len(known))))
    if config.margins:
        beyond = _session_factors(config, s, now, now.sessions, margins_of(s, now.rows, now.has_weekday)[0])
    return np.where(sure, plain, 0.0), np.where(sure, beyond, 0.0), sure


def unknown_factors(
    config: FleetConfig, s: dict[str, Array], now: FoldedBucket, unknown: Bools, factors: tuple[Floats, Floats]
) -> tuple[Floats, Floats, Bools]:
    """Fill in the log factors of series in an hour without a baseline, and return where they count.

    The hour is compared with all others, and its own level may differ from them as in a day's season. Its own
    units are kept out of the comparison: a young baseline would learn the change before it is detected. In the
    first hour of a series there are no others: its units are compared with the earlier ones of the same hour.

    Args:
        config: Configuration of the fleet.
        s: State arrays of the fleet, by name.
        now: The bucket.
        unknown: True for series that have finished their burn-in and have no baseline for this hour.
        factors: Log factors of all series without and beyond the margins, from `known_factors`.

    Returns:
        As `known_factors`.
    """
    table, (plain, beyond) = config.table, factors
    whole = s["prior"][:, now.rows] + s["pooled"][now.stratum][:, now.rows]
    own = s["own"][now.stratum][:, now.rows]
    # Units that are held back are not in the baseline.
    learned = np.where(s["held_since"][now.rows] > 0, 0.0, np.minimum(own, whole - s["prior"][:, now.rows]))
    has_others = unknown & (add_up(whole - learned) >= config.context_units)
    first = FoldedBucket(now.rows, now.number, now.hour, now.stratum, now.counts, now.units, now.sessions, whole)
    alone, alone_beyond, counted = known_factors(config, s, first, unknown & ~has_others)
    plain = np.where(counted, alone, plain)
    beyond = np.where(counted, alone_beyond, beyond)
    chosen = np.flatnonzero(has_others)
    if not len(chosen):
        return plain, beyond, counted
    index = positions(now.rows)[chosen]
    rest, own, counts = (whole - learned)[:, chosen], own[:, chosen], now.counts[:, chosen]
    widths, shared = level_of(table.noise_statistic, rest, s["season"][index], s["hours_seen"][index])
    each = (1, len(table.shapes), 2, len(index))
    margins, width = np.broadcast_to(shared, each), np.broadcast_to(widths[0], each)
    if config.margins:
        # Either a season explains the level, or a change that is not worth telling: the evidence must exclude each.
        margins = np.concatenate([margins, margins_of(s, index)[None]])
        least, factor = s["least_tilts"][:, :, index], s["min_factor"][index].astype(np.float64)
        narrow = np.where(least >= s["margin"][index], narrowing(table, rest, least, factor), 1.0)
        width = np.concatenate([width, widths[1] * narrow[None]])
    found = level_increments(table, rest, own, counts, width, margins)
    plain[:, chosen] = found[0]
    if config.margins:
        beyond[:, chosen] = found[1]
    return plain, beyond, counted | has_others


def _session_factors(
    config: FleetConfig, s: dict[str, Array], now: FoldedBucket, sessions: tuple[Ints, Floats], margin: Floats
) -> Floats:
    which, y = sessions
    mean = now.alpha[1] / add_up(now.alpha)
    _, variance = learned_moments(s, now.rows)
    return session_increments(config.table, len(mean), which, y, mean, variance, margin)
