"""Counts of spans and of units by series, 30-second bucket, facet and outcome: the ticks of one slice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from scorers.plan import Block, PlannedMetric
from scorers.slice_columns import Coded, FloatArray, IntArray, bucket_starts
from scorers.tables import TICKS

#: Cells of the value histogram are powers of this number; 1 % is finer than any shift worth an alert.
CELL_RATIO = 1.01
#: Smallest magnitude that is told from 0; its cell is 1.
SMALLEST = 1e-12
_CELL_OFFSET = 2778

SPAN_OUTCOMES = ("", "pass", "warn", "fail", "unknown", "skip", "error")
UNIT_OUTCOMES = ("", "good", "bad", "unknown")
GOOD, BAD, UNKNOWN_UNIT = 1, 2, 3


def histogram_cells(values: FloatArray) -> npt.NDArray[np.int32]:
    """Return the cell of each finite value: 0 near zero, else by sign and logarithm, positive from 1e-12 on."""
    magnitude = np.abs(values)
    near_zero = magnitude < SMALLEST
    logarithm = np.floor(np.log(np.where(near_zero, 1.0, magnitude)) / np.log(CELL_RATIO)) + _CELL_OFFSET
    return np.where(near_zero, 0, np.sign(values) * logarithm).astype(np.int32)


@dataclass(frozen=True)
class Groups:
    """What the records of a slice differ in for every series: environment, bucket, probability.

    Attributes:
        of_record: Group number of each record.
        environment: Text of each group.
        bucket: Bucket number of each group.
        p: The publisher's probability of each group.
    """

    of_record: IntArray
    environment: pa.Array
    bucket: IntArray
    p: FloatArray


def group_records(environment: Coded, bucket: IntArray, p: FloatArray) -> Groups:
    """Number the distinct combinations of environment, bucket and probability."""
    buckets, bucket_codes = np.unique(bucket, return_inverse=True)
    rates, rate_codes = np.unique(p, return_inverse=True)
    key = (environment.codes * len(buckets) + bucket_codes) * len(rates) + rate_codes
    distinct, of_record = np.unique(key, return_inverse=True)
    environments = pa.concat_arrays([pa.array(["production"]), environment.values.cast(pa.string())])
    return Groups(
        of_record.astype(np.int64),
        environments.take(pa.array(distinct // (len(buckets) * len(rates)))),
        buckets[distinct // len(rates) % len(buckets)],
        rates[distinct % len(rates)],
    )


@dataclass
class TickRows:
    """Tick rows under way, as parallel lists of column pieces."""

    groups: Groups
    lane: str
    _pieces: list[pa.Table] = field(default_factory=list)

    def add_counts(
        self,
        block: Block,
        metrics: Sequence[PlannedMetric],
        epochs: Sequence[str],
        level: str,
        facet: str,
        group: IntArray,
        values: pa.Array,
        counts: IntArray,
        p_factor: FloatArray | None = None,
        sums: tuple[FloatArray, FloatArray] | None = None,
        histograms: pa.Array | None = None,
    ) -> None:
        """Add a row for every count that is not 0.

        Args:
            block: Whose metrics were counted.
            metrics: m metrics.
            epochs: m epochs.
            level: span or unit.
            facet: Name of the facet.
            group: f group numbers, one a facet group.
            values: f texts of the facet's value.
            counts: f x m x outcomes.
            p_factor: f probabilities on top of the publisher's; None for 1.
            sums: f x m x outcomes sums of scores and of their squares, NaN where there are none; None without scores.
            histograms: One MAP a non-zero count, in the order of `np.nonzero(counts)`; None without scores.
        """
        names = SPAN_OUTCOMES if level == "span" else UNIT_OUTCOMES
        counts = counts[:, :, : len(names)].copy()
        counts[:, :, 0] = 0
        which, metric, outcome = np.nonzero(counts)
        n = len(which)
        if n == 0:
            return
        of_group = pa.array(group[which])
        p = self.groups.p[group[which]]
        if p_factor is not None:
            p = p * p_factor[which]
        starts = bucket_starts(self.groups.bucket[group[which]])
        columns = {
            "lane": _constant(self.lane, n),
            "pipeline": _constant(block.portfolio.pipeline, n),
            "environment": self.groups.environment.take(of_group),
            "component": _constant(block.component, n),
            "metric": _named([m.metric.name for m in metrics], metric),
            "metric_version": _named([m.metric.version for m in metrics], metric),
            "judge": pa.nulls(n, pa.string()),
            "epoch": _named(list(epochs), metric),
            "bucket": starts,
            "fold_bucket": starts,
            "level": _constant(level, n),
            "facet": _constant(facet, n),
            "value": values.take(pa.array(which)),
            "outcome": _named(list(names), outcome),
            "p": pa.array(p),
            "n": pa.array(counts[which, metric, outcome]),
            "score_sum": _numbers(None if sums is None else sums[0][which, metric, outcome], n),
            "score_sum_squares": _numbers(None if sums is None else sums[1][which, metric, outcome], n),
            "histogram": pa.nulls(n, TICKS.field("histogram").type) if histograms is None else histograms,
        }
        self._pieces.append(pa.table(columns, schema=TICKS))

    def table(self) -> pa.Table:
        """Return all rows."""
        return pa.concat_tables(self._pieces).combine_chunks() if self._pieces else TICKS.empty_table()


def _constant(text: str, n: int) -> pa.Array:
    return pa.repeat(pa.scalar(text, pa.string()), n)


def _named(names: list[str], codes: IntArray) -> pa.Array:
    return pa.array(names, pa.string()).take(pa.array(codes))


def _numbers(values: FloatArray | None, n: int) -> pa.Array:
    if values is None:
        return pa.nulls(n, pa.float64())
    return pa.array(values, mask=np.isnan(values))


@dataclass(frozen=True)
class FacetGroups:
    """Items (spans or units) grouped by record group and the value of one facet.

    Attributes:
        of_item: Facet group of each item; -1 where the facet has no value there.
        group: Record group of each facet group.
        values: Text of each facet group; null for facet `all`.
    """

    of_item: IntArray
    group: IntArray
    values: pa.Array


def facet_groups(group_of_item: IntArray, facet: Coded | None) -> FacetGroups:
    """Group items by record group and one facet; items without a value of the facet are left out.

    Args:
        group_of_item: Record group of each item.
        facet: The value of each item, or None for the facet `all`.
    """
    if facet is None:
        distinct, inverse = np.unique(group_of_item, return_inverse=True)
        return FacetGroups(inverse.astype(np.int64), distinct, pa.nulls(len(distinct), pa.string()))
    has_value = facet.codes > 0
    key = group_of_item * facet.size + facet.codes
    distinct, inverse = np.unique(key[has_value], return_inverse=True)
    of_item = np.full(len(key), -1, dtype=np.int64)
    of_item[has_value] = inverse
    values = facet.values.cast(pa.string()).take(pa.array(distinct % facet.size - 1))
    return FacetGroups(of_item, distinct // facet.size, values)


def count_outcomes(facet: FacetGroups, outcomes: npt.NDArray[np.uint8], width: int) -> IntArray:
    """Count items by facet group, metric and outcome.

    Args:
        facet: f groups over n items.
        outcomes: n x m outcome ids below `width`.
        width: Number of outcome ids.

    Returns:
        f x m x width counts.
    """
    metrics = outcomes.shape[1]
    size = len(facet.group)
    inside = facet.of_item >= 0
    item_group = facet.of_item if inside.all() else facet.of_item[inside]
    chosen = outcomes if inside.all() else outcomes[inside]
    key = (item_group[:, None] * metrics + np.arange(metrics)) * width + chosen
    return np.bincount(key.ravel(), minlength=size * metrics * width).reshape(size, metrics, width)


def sum_scores(
    facet: FacetGroups, outcome: npt.NDArray[np.uint8], scores: FloatArray, width: int
) -> tuple[FloatArray, FloatArray]:
    """Add up the scores of one metric and their squares by facet group and outcome; NaN where there is no score.

    Returns:
        Two f x width arrays.
    """
    inside = (facet.of_item >= 0) & np.isfinite(scores)
    key = facet.of_item[inside] * width + outcome[inside]
    size = len(facet.group) * width
    present = np.bincount(key, minlength=size) > 0
    values = scores[inside]
    total = np.where(present, np.bincount(key, weights=values, minlength=size), np.nan)
    with np.errstate(over="ignore"):
        squares = np.where(present, np.bincount(key, weights=values * values, minlength=size), np.nan)
    return total.reshape(-1, width), squares.reshape(-1, width)


def histogram_maps(
    facet: FacetGroups, outcome: npt.NDArray[np.uint8], scores: FloatArray, counts: IntArray
) -> pa.Array:
    """Return the value histogram of one metric as one MAP for each count that is not 0.

    Args:
        facet: f groups over n items.
        outcome: n outcome ids.
        scores: n scores, NaN where there is none.
        counts: f x 1 x width counts, of which the first outcome (not applicable) is left out.
    """
    width = counts.shape[2]
    which, _, outcomes = np.nonzero(counts)
    inside = (facet.of_item >= 0) & np.isfinite(scores)
    cells = histogram_cells(scores[inside]).astype(np.int64)
    row = facet.of_item[inside] * width + outcome[inside]
    span = 1 << 32
    distinct, n = np.unique(row * span + (cells + (span >> 1)), return_counts=True)
    row_of_cell = distinct // span
    wanted = which * width + outcomes
    bounds = np.searchsorted(row_of_cell, wanted), np.searchsorted(row_of_cell, wanted, side="right")
    # Rows are wanted in ascending order, so that their cells lie one after the other.
    offsets = np.append(bounds[0], bounds[1][-1:]).astype(np.int32) if len(wanted) else np.zeros(1, np.int32)
    empty = bounds[0] == bounds[1]
    keys = pa.array((distinct % span - (span >> 1)).astype(np.int32))
    starts = pa.array(offsets, mask=np.append(empty, False)) if empty.any() else pa.array(offsets)
    return pa.MapArray.from_arrays(starts, keys, pa.array(n.astype(np.int64)))
