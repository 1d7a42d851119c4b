"""Estimates of a change: change point with its 95 % set, size with its interval, direction, excess by part."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gapwatch.streams.detectors.arrays import Floats, add_up
from gapwatch.streams.detectors.baseline import Baseline
from gapwatch.streams.detectors.change_point import Past, entry_log_factors, likely_split, likely_starts, look_back
from gapwatch.streams.detectors.contexts import HOURS, TICKS_TO_A_WEEK_BASELINE, day_group
from gapwatch.streams.detectors.fleet import Fleet
from gapwatch.streams.detectors.ring import Entry

# Units before a change that a comparison needs: the prior alone is no baseline.
_LEAST_LEARNED = 30
# Information in nats that a change needs: a difference of 2.4 standard errors.
_LEAST_INFORMATION = 3.0
_ODDS = math.log(20.0)
_STEPS = 60


@dataclass(frozen=True)
class Interval:
    """Estimate with lower and upper bound.

    Attributes:
        value: The estimate.
        lower: Lower bound.
        upper: Upper bound.
    """

    value: float
    lower: float
    upper: float


@dataclass(frozen=True)
class Change:
    """Change of one series.

    Attributes:
        change_bucket: First bucket after the change, by the companion CUSUM of the winning bet.
        from_bucket: Earliest bucket of the 95 % set.
        to_bucket: Latest bucket of the 95 % set.
        is_truncated: The ring does not reach back to the change, which began at `from_bucket` or earlier.
        bet: The bet with the largest share of M.
        moved: Name of the bet, for an alert.
        side: 1 up, -1 down, 0 neither.
        bins: The bins whose share is reported.
        learned: Units of the baseline before the change.
        units: Units since the change.
        before: Share of those bins before the change: observed in all units of the baseline, or expected in the
            hours of the units since; see `is_of_hours`.
        after: Share since the change; biased away from `before` at the time of detection.
        ratio: after / before.
        growth_lower: Lower bound of the ratio for the side that grew: these bins, or all others where they shrank. A
            success rate that falls from 99 % to 97 % is a failure rate that grew threefold.
        bad_per_hour: Units an hour of the side that grew, above the expected number.
        is_of_hours: `before` is the share expected at the same hours of the day, which differs from all hours.
        previous_bucket: Last bucket with units before `change_bucket`; 0 where the ring holds none.
    """

    change_bucket: int
    from_bucket: int
    to_bucket: int
    is_truncated: bool
    bet: int
    moved: str
    side: int
    bins: tuple[int, ...]
    learned: float
    units: float
    before: Interval
    after: Interval
    ratio: Interval
    growth_lower: float
    bad_per_hour: float
    is_of_hours: bool = False
    previous_bucket: int = 0

    @property
    def is_significant(self) -> bool:
        """True where the baseline has enough units, and the share since the change differs from it significantly.

        The criterion is the likelihood ratio of two rates against one. The alarm itself is the test; this only removes
        alarms without a visible change. The interval of the ratio is wider and may hold 1 for a small change of a rare
        event.
        """
        before, after, units = self.before.value, self.after.value, self.units
        pooled = (self.learned * before + units * after) / max(self.learned + units, 1e-12)
        information = self.learned * divergence(before, pooled) + units * divergence(after, pooled)
        return self.learned >= _LEAST_LEARNED and information >= _LEAST_INFORMATION


def rate_interval(k: float, n: float) -> Interval:
    """Return the KT interval of a rate: {p : KT(k, n) / (p^k (1-p)^(n-k)) <= 20}.

    Args:
        k: Units in question, whole or a sum of means in [0, 1].
        n: All units.

    Source:
        Krichevsky and Trofimov (1981); Ville's inequality makes it valid at all times at once (Robbins 1970).
        Promise: for a fixed start it covers the rate with at least 95 % at every time. From an estimated start it is
        approximate (measured in docs/figures/detectors.md). Naive intervals at an alarm cover only 64 to 84 %.
    """
    if n <= 0:
        return Interval(math.nan, 0.0, 1.0)
    # ln B(k + 1/2, n - k + 1/2) - ln B(1/2, 1/2)
    mixture = math.lgamma(k + 0.5) + math.lgamma(n - k + 0.5) - math.lgamma(n + 1.0) - math.log(math.pi)

    def is_inside(p: float) -> bool:
        likelihood = (k * math.log(p) if k > 0 else 0.0) + ((n - k) * math.log1p(-p) if n > k else 0.0)
        return mixture - likelihood <= _ODDS

    point = k / n
    return Interval(point, _bound(point, 0.0, is_inside), _bound(point, 1.0, is_inside))


def _bound(inside: float, outside: float, is_inside: Callable[[float], bool]) -> float:
    if inside == outside:
        return outside
    for _ in range(_STEPS):
        middle = (inside + outside) / 2
        if 0.0 < middle < 1.0 and is_inside(middle):
            inside = middle
        else:
            outside = middle
    return outside


def ratio_interval(after: Interval, before: Interval) -> Interval:
    """Return after / before with bounds, from the intervals of both.

    Source: method of variance estimates recovery on the log scale (Donner and Zou 2012); as good as the intervals that
    go in. A baseline of 0 gives an infinite upper bound, a rate of 0 after the change a lower bound of 0.
    """
    if before.value <= 0.0:
        return Interval(math.inf, after.lower / before.upper if before.upper > 0.0 else 1.0, math.inf)
    if after.value <= 0.0:
        return Interval(0.0, 0.0, after.upper / max(before.lower, 1e-300))
    value = math.log(after.value / before.value)
    down = math.hypot(_gap(after.value, after.lower), _gap(before.upper, before.value))
    up = math.hypot(_gap(after.upper, after.value), _gap(before.value, before.lower))
    return Interval(math.exp(value), math.exp(value - down), math.exp(min(value + up, 700.0)))


def complement(share: Interval) -> Interval:
    """Return the interval of the share of all other bins together."""
    return Interval(1.0 - share.value, 1.0 - share.upper, 1.0 - share.lower)


def _gap(high: float, low: float) -> float:
    return math.log(high / low) if low > 0.0 else math.inf


def divergence(p: float, q: float) -> float:
    """Return the Kullback-Leibler divergence of a rate p from a rate q, in nats; q in (0, 1) unless it equals p."""
    yes = p * math.log(p / q) if p > 0.0 else 0.0
    no = (1.0 - p) * math.log((1.0 - p) / (1.0 - q)) if p < 1.0 else 0.0
    return max(yes + no, 0.0)


def excess_shares(units: Floats, moved: Floats, expected_share: Floats) -> Floats:
    """Return the share of the excess since the change in each part (tier, release, model, stratum).

    Args:
        units: Units of each part since the change.
        moved: Units of each part in the moved bins.
        expected_share: Baseline share of the moved bins in each part.

    Returns:
        Shares that sum to 1; parts that moved the other way are negative. All 0 where there is no excess.
    """
    excess = moved - units * expected_share
    total = float(excess.sum())
    return excess / total if total else np.zeros_like(excess)


def leading_evidence(fleet: Fleet) -> Floats:
    """Return the larger evidence of each bet, with or without the margin: it ranks bets, and is no M."""
    s = fleet.state
    if not fleet.config.margins:
        return s["evidence"]
    return np.maximum(s["evidence"], s["margin_evidence"])


def find_change(fleet: Fleet, row: int, side: int | None) -> Change:
    """Return the change of a series; call it before the baseline is rolled back.

    Args:
        fleet: The fleet, with a ring.
        row: Row of the series.
        side: 1 or -1 to use bets of that side only, None for all bets.

    Source:
        Point: last zero of the CUSUM of the leading bet (Page 1954; Hinkley 1970), or the likeliest start where that
        lies outside the interval. Interval: posterior over starts, p(tau) ~ mean_c exp(S_c(T) - S_c(tau)), uniform
        prior over units. Size: `rate_interval`. After a stop no
        theorem promises coverage (Saha and Ramdas 2025); it is measured in docs/figures/detectors.md. It does not hold
        for slow ramps, for two changes in a row, or for a change older than the ring (`is_truncated`).
    """
    table = fleet.config.table
    bets = list(range(table.count)) if side is None else np.flatnonzero(table.sides == side).tolist()
    strength = leading_evidence(fleet)[:, row]
    bet = max(bets, key=lambda c: (strength[c], -c))
    last_zero = int(fleet.state["rise_bucket"][bet, row])
    past = look_back(fleet, row)
    bins = table.shapes[table.shape_of[bet]].moved_bins
    # An hour with units from both sides of the change does not count for its size.
    began = next((i for i, e in enumerate(past.entries) if e.first > last_zero), len(past.entries) - 1)
    mixed = began > 0 and past.entries[began - 1].last > last_zero
    low, _, high = likely_starts(entry_log_factors(fleet, row, past), bets, add_up(past.counts))
    since_bucket = last_zero + 1 if mixed else past.entries[began].first
    earlier = began - mixed - 1
    if not low <= earlier + 1 <= high or (earlier >= 0 and not past.known[earlier]):
        # In hours without a baseline the CUSUM stood still, and the baseline has learned the change.
        low, likeliest, high = likely_split(fleet, row, past, list(bins), grew=bool(table.deltas[bet] > 0))
        slot = past.entries[likeliest]
        mixed, since_bucket = slot.last > slot.first and likeliest + 1 < len(past.entries), slot.first
        began = likeliest + mixed
    since = past.counts[:, began:]
    units = float(since.sum())
    moved = float(since[list(bins)].sum())
    before, learned, is_of_hours = _baseline_share(fleet, row, past, began, mixed, list(bins))
    after = rate_interval(moved, units)
    hours = max(past.entries[-1].last - past.entries[began].first + 1, 1) / 120.0
    grew = bool(table.deltas[bet] > 0)
    return Change(
        change_bucket=since_bucket,
        from_bucket=past.entries[low].first,
        to_bucket=past.entries[high].last,
        is_truncated=low == 0 and past.entries[0].first > int(fleet.state["first_bucket"][row]),
        bet=bet,
        moved=table.describe(bet),
        side=int(table.sides[bet]),
        bins=bins,
        learned=learned,
        units=units,
        before=before,
        after=after,
        ratio=ratio_interval(after, before),
        growth_lower=(
            ratio_interval(after, before) if grew else ratio_interval(complement(after), complement(before))
        ).lower,
        bad_per_hour=(moved - before.value * units) / hours * (1.0 if grew else -1.0),
        is_of_hours=is_of_hours,
        previous_bucket=max((e.last for e in past.entries if e.last < since_bucket), default=0),
    )


def _baseline_share(
    fleet: Fleet, row: int, past: Past, began: int, mixed: bool, bins: list[int]
) -> tuple[Interval, float, bool]:
    """Return the share before the change with its interval, the baseline's units, and whether hours differ.

    The share is the observed one of all units of the baseline. Where every hour since the change has a baseline of its
    own, and their observed share differs (the intervals do not overlap), it is the share expected in these hours.
    """
    rolled = fleet.baseline.one(row)
    for entry in past.entries[began - mixed :]:
        rolled.take(0, *divmod(entry.context, HOURS), entry.counts)
    whole = rolled.pooled[:, :, 0].sum(axis=0)
    if fleet.config.table.kind == "number":
        # The prior of numbers is their burn-in; that of rates and labels are no units.
        whole = whole + rolled.prior[:, 0]
    learned = float(whole.sum())
    if learned <= 0.0:
        prior = rolled.prior[:, 0]
        return Interval(float(prior[bins].sum() / prior.sum()), 0.0, 1.0), 0.0, False
    observed = rate_interval(float(whole[bins].sum()), learned)
    if not (fleet.baseline.seasonal or fleet.config.strata > 1) or not past.known[began:].all():
        return observed, learned, False
    own = _share_of_hours(rolled, past.entries[began:], bins)
    if own.lower <= observed.upper and observed.lower <= own.upper:
        return observed, learned, False
    value = _expected(fleet, row, rolled, past.entries[began:], bins)
    scale = value / observed.value if observed.value > 0.0 else 1.0
    return Interval(value, min(observed.lower * scale, 1.0), min(observed.upper * scale, 1.0)), learned, True


def _share_of_hours(rolled: Baseline, since: list[Entry], bins: list[int]) -> Interval:
    """Return the share that the baseline observed in the hours of the day of the units since."""
    members = {
        (stratum, hour)
        for stratum, own in {divmod(entry.context, HOURS) for entry in since}
        for hour in (day_group(own) if rolled.seasonal else ())
    }
    counts = [rolled.hours[stratum, hour, :, 0].astype(np.float64) for stratum, hour in sorted(members)]
    whole = np.sum(counts, axis=0) if counts else rolled.pooled[:, :, 0].sum(axis=0)
    return rate_interval(float(whole[bins].sum()), float(whole.sum()))


def _expected(fleet: Fleet, row: int, rolled: Baseline, since: list[Entry], bins: list[int]) -> float:
    """Return the share that the baseline expects in the contexts of the units since."""
    first = int(fleet.state["first_bucket"][row])
    shares: dict[tuple[int, bool], float] = {}
    share, units = 0.0, 0.0
    for entry in since:
        is_old = entry.last - first >= TICKS_TO_A_WEEK_BASELINE
        if (entry.context, is_old) not in shares:
            alpha = rolled.alpha(slice(0, 1), *divmod(entry.context, HOURS), np.array([is_old]))[0][:, 0]
            shares[entry.context, is_old] = float(alpha[bins].sum() / alpha.sum())
        n = float(entry.counts.sum())
        share += n * shares[entry.context, is_old]
        units += n
    return share / max(units, 1e-12)
