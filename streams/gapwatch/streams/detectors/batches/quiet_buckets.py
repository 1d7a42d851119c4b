"""Folds several buckets of one hour at once, for the series that stay calm in all of them.

A call of numpy costs about a microsecond, for one series as for hundreds, and a fold makes some hundreds of calls. A
replay, and a run that catches up, closes many buckets at a time. What a calm series has learned before each of them is
a running sum of its counts, so the log factors of all buckets are computed in one call. Only the sums over buckets are
made one bucket after the other.

Series with equal states and equal units, such as those of metrics that never fail, are folded once.

    buckets x series ─▶ baseline before each ─▶ log factors of all ─▶ evidence, bucket by bucket ─▶ calm throughout?
                                                                                             yes: written to the fleet
                                                                         no: folded as ever, one bucket after the other
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gapwatch.streams.detectors.arrays import Array, Bools, Floats, Ints, Rows, add_up
from gapwatch.streams.detectors.baseline import alpha_of, tells_weekdays, units_of_context
from gapwatch.streams.detectors.budgets.volume import observe_units
from gapwatch.streams.detectors.contexts import TICKS_A_DAY, TICKS_TO_A_WEEK_BASELINE, day_group
from gapwatch.streams.detectors.fleet import Fleet, add_evidence
from gapwatch.streams.detectors.fleet_config import FleetConfig
from gapwatch.streams.detectors.lifecycle import SUSPECT_DIVISOR, Phase, is_carried
from gapwatch.streams.detectors.log_factors import BucketFactors, FoldedBucket, bucket_factors
from gapwatch.streams.detectors.margins.daily_noise import close_days, day_terms
from gapwatch.streams.detectors.margins.min_change import column_tilts
from gapwatch.streams.detectors.watch import Transition, advance_phases, evidence_by_side, risen_units

# With fewer buckets the copies of the state cost more than the calls that are saved.
_LEAST_BUCKETS = 3
# Series-buckets whose log factors are computed in one call: their arrays stay in the second-level cache. And those of
# one batch: their number bounds the memory.
_AT_ONCE, _MOST_COLUMNS = 2_048, 8_192
# Largest count of a baseline that is folded here: beyond, hours are halved before they overflow.
_LARGEST = 2.0**31
# Arrays of the state that a batch neither reads nor writes as a whole.
_LEFT_OUT = ("ring_", "hour_")


class Bucket(NamedTuple):
    """Units of one bucket, all of one hour of the week.

    Attributes:
        number: Number of the bucket.
        counts: Units, shape (bins, rows).
        rows: Distinct series.
    """

    number: int
    counts: Array
    rows: Ints


class _Columns(NamedTuple):
    """Units of calm series, one column for each series and bucket, ordered by series, then by bucket.

    Attributes:
        rows: Distinct series, ascending.
        which: Series of each column, as a position in `rows`.
        step: Bucket of each column, as a position in the batch.
        first: First column of each series.
        counts: Units of each column, shape (bins, columns).
        earlier: Units of the series in earlier buckets of the batch, same shape.
    """

    rows: Ints
    which: Ints
    step: Ints
    first: Ints
    counts: Floats
    earlier: Floats


def fold_buckets(fleet: Fleet, hour: int, buckets: Sequence[Bucket]) -> list[list[Transition]]:
    """Fold some buckets and advance the phases after each: the same, bit for bit, as `fold` and `advance_phases`.

    Args:
        fleet: The fleet; its units are whole.
        hour: Hour of the week of all units.
        buckets: Buckets in order, all within one hour since the epoch.

    Returns:
        Transitions after each bucket.
    """
    at, found = 0, []
    while at < len(buckets):
        columns, stop = len(buckets[at].rows), at + 1
        while stop < len(buckets) and columns + len(buckets[stop].rows) <= _MOST_COLUMNS:
            columns, stop = columns + len(buckets[stop].rows), stop + 1
        found += _fold_some(fleet, hour, buckets[at:stop])
        at = stop
    return found


def _fold_some(fleet: Fleet, hour: int, buckets: Sequence[Bucket]) -> list[list[Transition]]:
    done = np.zeros(fleet.series, np.bool_)
    config = fleet.config
    if len(buckets) >= _LEAST_BUCKETS and config.strata == 1 and not config.sessions:
        calm = _is_clean(fleet) & ~_moves(fleet)
        columns = _columns(fleet, buckets, calm)
        if columns is not None:
            done[_fold_calm(fleet, hour, buckets, columns)] = True
        if calm.all() and all(done[bucket.rows].all() for bucket in buckets):
            return [[] for _ in buckets]
    found = []
    for bucket in buckets:
        rest = ~done[bucket.rows]
        if rest.any():
            fleet.fold(bucket.number, bucket.counts[:, rest], bucket.rows[rest], hour)
        found.append(advance_phases(fleet, bucket.number))
    return found


def _is_clean(fleet: Fleet) -> Bools:
    """Return True for each calm series without anything that runs on: no alert, no units held back, no notice."""
    s = fleet.state
    result: Bools = (s["phase"] == Phase.CALM) & (s["fired_bucket"] == 0) & (s["held_since"] == 0) & (s["noticed"] == 0)
    return result


def _moves(fleet: Fleet) -> Bools:
    """Return True for each calm series that `advance_phases` would move, or call improved."""
    s = fleet.state
    sides, risen = evidence_by_side(fleet), risen_units(fleet, 1)
    page_threshold = np.where((s["bad_side"] != 0) & fleet.config.margins, s["page_threshold"], np.inf)
    suspect = is_carried(sides.seen, risen) & (sides.seen >= s["ticket_threshold"] / SUSPECT_DIVISOR)
    page = is_carried(sides.bad, risen) & (sides.bad >= page_threshold)
    ticket = is_carried(sides.bad, risen) & (sides.bad >= s["ticket_threshold"])
    improved = is_carried(sides.good, risen_units(fleet, -1)) & (sides.good >= s["ticket_threshold"])
    return suspect | ticket | page | improved


def _columns(fleet: Fleet, buckets: Sequence[Bucket], calm: Bools) -> _Columns | None:
    """Return the units of series that were calm before the batch and are not new; None without one."""
    s = fleet.state
    counts = np.concatenate([bucket.counts for bucket in buckets], axis=1).astype(np.float64)
    rows = np.concatenate([bucket.rows for bucket in buckets])
    step = np.repeat(np.arange(len(buckets)), [len(bucket.rows) for bucket in buckets])
    eligible = calm & (s["first_bucket"] > 0) & (s["last_bucket"] <= buckets[0].number)
    if len(rows):
        eligible &= add_up(add_up(s["pooled"])) + np.bincount(rows, add_up(counts), fleet.series) < _LARGEST
    chosen = np.flatnonzero(eligible[rows] & (add_up(counts) > 0.0))
    if not len(chosen):
        return None
    chosen = chosen[np.argsort(rows[chosen], kind="stable")]
    counts, step = counts[:, chosen], step[chosen]
    distinct, first, which = np.unique(rows[chosen], return_index=True, return_inverse=True)
    before = np.cumsum(counts, axis=1) - counts
    return _Columns(distinct, which, step, first, counts, before - before[:, first[which]])


def _fold_calm(fleet: Fleet, hour: int, buckets: Sequence[Bucket], columns: _Columns) -> Ints:
    """Fold the series that stay calm in all buckets, and return them; the others are as before."""
    part = _part_of(fleet, columns.rows)
    first, twin = _twins(part, columns)
    if len(first) == part.series:
        calm = _fold_distinct(part, hour, buckets, columns)
    else:
        part = _part_of(part, first)
        calm = _fold_distinct(part, hour, buckets, _chosen(columns, first))[twin]
    _write_back(fleet, part, columns.rows[calm], twin[calm], hour)
    there = np.flatnonzero(calm[columns.which])
    numbers = np.array([bucket.number for bucket in buckets], np.int64)[columns.step[there]]
    fleet.ring.write_all(columns.rows[columns.which[there]], numbers, hour, columns.counts[:, there])
    return columns.rows[calm]


def _twins(part: Fleet, columns: _Columns) -> tuple[Ints, Ints]:
    """Return one series of each group with equal states and units, and the group of each series.

    Metrics that never fail, and shares of undecided traces, are equal for all metrics of a component.
    """
    everything = np.arange(part.series)
    # Distinct series are seen by their evidence.
    if len(set(_bytes_of(part.state["evidence"]))) == part.series:
        return everything, everything
    # Arrays of one type are one array: few calls for some sixty arrays.
    by_type: dict[str, list[Array]] = {}
    for array in part.state.values():
        by_type.setdefault(array.dtype.str, []).append(array.reshape(-1, part.series))
    states = zip(*(_bytes_of(np.concatenate(arrays)) for arrays in by_type.values()), strict=True)
    units = np.ascontiguousarray(np.stack([columns.step, *columns.counts]).T).tobytes()
    width = len(units) // len(columns.which)
    stops = [*columns.first[1:].tolist(), len(columns.which)]
    groups: dict[tuple[tuple[bytes, ...], bytes], int] = {}
    first, twin = list[int](), list[int]()
    for row, (state, start, stop) in enumerate(zip(states, columns.first.tolist(), stops, strict=True)):
        twin.append(groups.setdefault((state, units[start * width : stop * width]), len(groups)))
        if len(groups) > len(first):
            first.append(row)
    return np.array(first, np.int64), np.array(twin, np.int64)


def _bytes_of(array: Array) -> list[bytes]:
    """Return the values of each series as bytes; the last axis of the array is the series."""
    values = np.ascontiguousarray(array.T)
    texts: list[bytes] = values.view(f"V{values.itemsize * values.shape[1]}")[:, 0].tolist()
    return texts


def _chosen(columns: _Columns, series: Ints) -> _Columns:
    """Return the columns of some of the series, ascending positions."""
    position = np.full(len(columns.rows), -1, np.int64)
    position[series] = np.arange(len(series))
    some = np.flatnonzero(position[columns.which] >= 0)
    which = position[columns.which[some]]
    first = np.searchsorted(which, np.arange(len(series)))
    return _Columns(
        columns.rows[series], which, columns.step[some], first, columns.counts[:, some], columns.earlier[:, some]
    )


def _by_step(columns: _Columns, steps: int) -> tuple[Ints, list[int]]:
    """Return the columns ordered by bucket, then by series, and where those of each bucket begin and end."""
    order = np.argsort(columns.step, kind="stable")
    return order, np.searchsorted(columns.step[order], np.arange(steps + 1)).tolist()


def _fold_distinct(part: Fleet, hour: int, buckets: Sequence[Bucket], columns: _Columns) -> Bools:
    """Fold all buckets of some series, and return which of them stay calm; the state of the others is of no use."""
    config, s, everyone = part.config, part.state, slice(0, part.series)
    numbers = np.array([bucket.number for bucket in buckets], np.int64)
    close_days(config, s, everyone, int(numbers[0]) // TICKS_A_DAY, np.ones(part.series, np.bool_))
    part.begin_hours(everyone, int(numbers[0]), hour, np.ones(part.series, np.bool_))
    factors, alpha = _factors(part, hour, numbers, columns)
    gap, information = day_terms(config.table.noise_statistic, alpha, columns.counts)
    # From here on the columns are ordered by bucket, so those of one bucket are neighbours.
    order, ends = _by_step(columns, len(buckets))
    factors, which = _some(factors, order), columns.which[order]
    units, gap, information = add_up(columns.counts)[order], gap[order], information[order]
    # Values of the state after each column, for the phases.
    after = {name: np.empty((*s[name].shape[:-1], len(which)), s[name].dtype) for name in _of_phases(config)}
    for bucket, (start, stop) in zip(buckets, itertools.pairwise(ends), strict=True):
        mine = slice(start, stop)
        index = everyone if stop - start == part.series else which[mine]
        observe_units(s, index, units[mine])
        add_evidence(config, s, index, bucket.number, np.ones(stop - start, np.bool_), _some(factors, mine))
        if config.margins:
            s["day_gap"][index] += gap[mine]
            s["day_information"][index] += information[mine]
        for name, values in after.items():
            values[..., mine] = s[name][..., index]
    view = Fleet.of(config, {**after, "bad_side": s["bad_side"][which], "phase": s["phase"][which]})
    calm: Bools = ~np.bincount(which, _moves(view), part.series).astype(np.bool_)
    _learn(part, hour, columns, numbers)
    return calm


def _of_phases(config: FleetConfig) -> tuple[str, ...]:
    """Return the names of the state on which the phases of a calm series depend."""
    beyond = ("margin_evidence",) if config.margins else ()
    return ("evidence", *beyond, "rise", "rise_units", "ticket_threshold", "page_threshold")


def _part_of(fleet: Fleet, rows: Ints) -> Fleet:
    """Return a fleet of some series, without their rings."""
    state = {name: array[..., rows] for name, array in fleet.state.items() if not name.startswith(_LEFT_OUT)}
    return Fleet.of(fleet.config, state)


def _factors(part: Fleet, hour: int, numbers: Ints, columns: _Columns) -> tuple[BucketFactors, Floats]:
    """Return the log factors of each column, and the baseline of its context."""
    config, s, which = part.config, part.state, columns.which
    prior, pooled = s["prior"][:, which], s["pooled"][0][:, which] + columns.earlier
    age = numbers[columns.step] - s["first_bucket"][which].astype(np.int64)
    old = age >= TICKS_TO_A_WEEK_BASELINE
    learned = add_up(pooled) + add_up(prior) if config.table.kind == "number" else add_up(pooled)
    ready = learned >= config.burn_in_units
    known, has_weekday, own = ready, None, np.zeros((0, *pooled.shape))
    if config.seasonal:
        hours = s["hours"][0]
        group = (
            sum((hours[member] for member in day_group(hour)), np.zeros_like(s["prior"]))[:, which] + columns.earlier
        )
        of_week = hours[hour].astype(np.float64)[:, which] + columns.earlier
        alpha = alpha_of(prior, pooled, group, of_week, old)
        known = ready & config.knows_hour(hour, units_of_context(group, of_week, old), age)
        has_weekday = tells_weekdays(of_week, old)
        own = (s["own"][0][:, which] + columns.earlier)[None]
    else:
        alpha = alpha_of(prior, pooled, None, None, None)
    per_column: dict[str, Array] = {
        name: s[name][..., which]
        for name in ("held_since", "season", "hours_seen", "weekday_margins", "margin", "min_factor")
    }
    per_column |= {"prior": prior, "pooled": pooled[None], "own": own}
    if config.margins:
        tilts, s["least_tilts"] = column_tilts(config.table, s, prior, pooled, columns.first, which)
        per_column["least_tilts"] = tilts
    found = []
    for start in range(0, len(which), _AT_ONCE):
        some = slice(start, start + _AT_ONCE)
        state = {name: array[..., some] for name, array in per_column.items()}
        counts, all_of = columns.counts[:, some], slice(0, len(which[some]))
        weekday = None if has_weekday is None else has_weekday[some]
        now = FoldedBucket(all_of, int(numbers[0]), hour, 0, counts, add_up(counts), None, alpha[:, some], weekday)
        found.append(bucket_factors(config, state, now, ready[some], known[some]))
    if len(found) == 1:
        return found[0], alpha
    parts = zip(*((one.plain, one.beyond, one.starts, one.certain) for one in found), strict=True)
    return BucketFactors(*(np.concatenate(arrays, axis=-1) for arrays in parts)), alpha


def _some(factors: BucketFactors, columns: Rows) -> BucketFactors:
    return BucketFactors(
        factors.plain[:, columns], factors.beyond[:, columns], factors.starts[columns], factors.certain[columns]
    )


def _learn(part: Fleet, hour: int, columns: _Columns, numbers: Ints) -> None:
    """Add the units of all buckets to the baselines; a calm series learns all of them."""
    s = part.state
    last = np.append(columns.first[1:], len(columns.which)) - 1
    s["last_bucket"][:] = numbers[columns.step[last]]
    whole = columns.earlier[:, last] + columns.counts[:, last]
    s["pooled"][0] += whole
    if part.config.seasonal:
        s["hours"][0, hour] += whole.astype(s["hours"].dtype)
        s["own"][0] += whole


def _write_back(fleet: Fleet, part: Fleet, rows: Ints, source: Ints, hour: int) -> None:
    """Write some series of the part, by their positions, to the fleet."""
    for name, array in part.state.items():
        if name != "hours":
            fleet.state[name][..., rows] = array[..., source]
    if fleet.config.seasonal:
        fleet.state["hours"][0, hour][:, rows] = part.state["hours"][0, hour][:, source]
