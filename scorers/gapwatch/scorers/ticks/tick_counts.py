"""Tick rows: counts of spans and units by series, 30-second bucket, facet and outcome."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gapwatch.scorers.plan.block import Block
from gapwatch.scorers.slices.columns import DEFAULT_ENVIRONMENT, Coded, FloatArray, IntArray, bucket_starts
from gapwatch.scorers.slices.slice_group import with_slices
from gapwatch.scorers.slices.tables import EMPTY_TABLES, TICKS

SPAN_OUTCOMES = ("", "pass", "warn", "fail", "unknown", "skip", "error")
UNIT_OUTCOMES = ("", "good", "bad", "unknown", "error")
GOOD, BAD, UNKNOWN_UNIT, ERROR_UNIT = 1, 2, 3, 4


@dataclass(frozen=True)
class Groups:
    """Records grouped by slice, environment, bucket and the publisher's probability.

    Attributes:
        of_record: Group number of each record.
        slice: Number of the slice of each group.
        environment: Environment of each group.
        bucket: Bucket number of each group.
        p: The publisher's probability of each group.
    """

    of_record: IntArray
    slice: IntArray
    environment: pa.Array
    bucket: IntArray
    p: FloatArray


def group_records(slices: IntArray, environment: Coded, bucket: IntArray, p: FloatArray) -> Groups:
    """Number the distinct combinations of slice, environment, bucket and probability."""
    buckets, bucket_codes = np.unique(bucket, return_inverse=True)
    rates, rate_codes = np.unique(p, return_inverse=True)
    environment_key = slices * environment.size + environment.codes
    key = (environment_key * len(buckets) + bucket_codes) * len(rates) + rate_codes
    distinct, of_record = np.unique(key, return_inverse=True)
    environments = pa.concat_arrays([pa.array([DEFAULT_ENVIRONMENT]), environment.values.cast(pa.string())])
    environment_key = distinct // (len(buckets) * len(rates))
    return Groups(
        of_record.astype(np.int64),
        environment_key // environment.size,
        environments.take(pa.array(environment_key % environment.size)),
        buckets[distinct // len(rates) % len(buckets)],
        rates[distinct % len(rates)],
    )


class TickRows:
    """Collects tick rows as small numpy pieces and joins them to one table.

    Args:
        groups: Groups of the slice's records.
        lane: Lane of the slice.
    """

    def __init__(self, groups: Groups, lane: str) -> None:
        self._groups = groups
        self._lane = lane
        self._series: list[tuple[Block, int, str]] = []  # block, number of the metric in it, epoch
        self._heads: list[tuple[str, str]] = []  # level and facet of each piece
        self._numbers: dict[str, list[npt.NDArray[Any]]] = {
            name: [] for name in ("series", "group", "outcome", "p", "n", "score_sum", "score_sum_squares")
        }
        self._values: list[pa.Array] = []
        self._histograms: list[pa.Array] = []

    def add_counts(
        self,
        block: Block,
        metrics: Sequence[int],
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
            block: Block of the metrics.
            metrics: Numbers of m metrics in the block.
            epochs: m epochs.
            level: span or unit.
            facet: Name of the facet.
            group: Record group of each of f facet groups.
            values: f values of the facet.
            counts: f x m x outcomes; the first outcome (not applicable) is not counted.
            p_factor: f probabilities, multiplied with the publisher's; None for 1.
            sums: Sums of scores and of their squares, f x m x outcomes each, NaN for no scores; None without scores.
            histograms: One MAP per non-zero count, in the order of `np.nonzero(counts)`; None without scores.
        """
        which, metric, outcome = np.nonzero(counts[:, :, 1:])
        n = len(which)
        if n == 0:
            return
        outcome += 1
        of_group = group[which]
        p = self._groups.p[of_group]
        nothing = np.full(n, np.nan) if sums is None else None
        row = (which, metric, outcome)
        pieces = {
            "series": metric + len(self._series),
            "group": of_group,
            "outcome": outcome + _OUTCOME_OFFSET[level],
            "p": p if p_factor is None else p * p_factor[which],
            "n": counts[row],
            "score_sum": nothing if sums is None else sums[0][row],
            "score_sum_squares": nothing if sums is None else sums[1][row],
        }
        for name, piece in pieces.items():
            assert piece is not None
            self._numbers[name].append(piece)
        self._series += [(block, m, epoch) for m, epoch in zip(metrics, epochs, strict=True)]
        self._heads.append((level, facet))
        kind = TICKS.field("histogram").type
        self._values.append(pa.nulls(n, pa.string()) if facet == "all" else values.take(pa.array(which)))
        self._histograms.append(pa.nulls(n, kind) if histograms is None else histograms.cast(kind))

    def table(self) -> pa.Table:
        """Return all rows, with the number of the slice of each."""
        if not self._heads:
            return EMPTY_TABLES["ticks"]
        lengths = [len(piece) for piece in self._numbers["n"]]
        whole = {name: np.concatenate(pieces) for name, pieces in self._numbers.items()}
        series, of_group, slices = whole["series"], pa.array(whole["group"]), self._groups.slice[whole["group"]]
        piece = np.repeat(np.arange(len(lengths)), lengths)
        starts = bucket_starts(self._groups.bucket).take(of_group)
        columns = {
            "lane": pa.repeat(pa.scalar(self._lane, pa.string()), len(piece)),
            "pipeline": _named([block.portfolio.pipeline for block, _, _ in self._series], series),
            "environment": self._groups.environment.take(of_group),
            "component": _named([block.component for block, _, _ in self._series], series),
            "metric": _named([block.names[m] for block, m, _ in self._series], series),
            "metric_version": _named([block.versions[m] for block, m, _ in self._series], series),
            "judge": pa.nulls(len(piece), pa.string()),
            "epoch": _named([epoch for _, _, epoch in self._series], series),
            "bucket": starts,
            "fold_bucket": starts,
            "level": _named([level for level, _ in self._heads], piece),
            "facet": _named([facet for _, facet in self._heads], piece),
            "value": pa.concat_arrays(self._values),
            "outcome": _named([*SPAN_OUTCOMES, *UNIT_OUTCOMES], whole["outcome"]),
            "p": pa.array(whole["p"]),
            "n": pa.array(whole["n"]),
            "score_sum": _numbers(whole["score_sum"]),
            "score_sum_squares": _numbers(whole["score_sum_squares"]),
            "histogram": pa.concat_arrays(self._histograms),
        }
        return with_slices(pa.table(columns, schema=TICKS), slices)


#: Where the outcomes of each level start in one list of both.
_OUTCOME_OFFSET = {"span": 0, "unit": len(SPAN_OUTCOMES)}


def _named(names: list[str], codes: IntArray) -> pa.Array:
    return pa.array(names, pa.string()).take(pa.array(codes))


def _numbers(values: FloatArray) -> pa.Array:
    return pa.array(values, mask=np.isnan(values))


@dataclass(frozen=True)
class FacetGroups:
    """Items grouped by record group and the value of one facet.

    Attributes:
        of_item: Facet group of each item; -1 where the facet has no value there.
        group: Record group of each facet group.
        values: Text of each facet group; null for facet `all`.
    """

    of_item: IntArray
    group: IntArray
    values: pa.Array

    def add_up(self, counts: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Sum the counts of items by facet group.

        Args:
            counts: One entry per item along the first axis.

        Returns:
            One entry per facet group along the first axis.
        """
        order, starts = self._runs
        if len(order) == 0:
            return np.zeros((0, *counts.shape[1:]), counts.dtype)
        return np.add.reduceat(counts[order], starts, axis=0)

    @cached_property
    def _runs(self) -> tuple[IntArray, IntArray]:
        """Items sorted by facet group, and the position of the first item of each group."""
        order = np.argsort(self.of_item, kind="stable")
        order = order[np.searchsorted(self.of_item[order], 0) :]
        of_item = self.of_item[order]
        return order, np.flatnonzero(np.concatenate(([True], of_item[1:] != of_item[:-1]))[: len(order)])


@dataclass(frozen=True)
class JointGroups:
    """Items (spans or units) grouped by record group and the values of all facets at once.

    There are few of these groups, so summing their counts to the groups of each facet costs almost nothing.

    Attributes:
        of_item: Joint group of each item.
        size: Number of joint groups.
        facets: Groups of each facet by its name; their items are the joint groups.
    """

    of_item: IntArray
    size: int
    facets: dict[str, FacetGroups]


def joint_groups(group_of_item: IntArray, facets: dict[str, Coded | None]) -> JointGroups:
    """Group items by record group and all facets.

    Args:
        group_of_item: Record group of each item.
        facets: Value of each item by the name of the facet; None for the facet `all`.
    """
    key, largest = group_of_item, int(group_of_item.max(initial=0))
    for facet in facets.values():
        if facet is None:
            continue
        if largest >= (1 << 62) // facet.size:
            key = np.unique(key, return_inverse=True)[1].astype(np.int64)
            largest = len(key)
        key = key * facet.size + facet.codes
        largest = (largest + 1) * facet.size
    distinct, of_item = numbered(key)
    first = np.empty(len(distinct), np.int64)
    first[of_item[::-1]] = np.arange(len(key) - 1, -1, -1)
    groups = {
        name: facet_groups(group_of_item[first], None if facet is None else Coded(facet.codes[first], facet.values))
        for name, facet in facets.items()
    }
    return JointGroups(of_item, len(first), groups)


def numbered(keys: IntArray) -> tuple[IntArray, IntArray]:
    """Return the distinct keys, ascending, and the position of each key among them, as `np.unique` does.

    Keys that are small in comparison with their number are counted, which costs a third of sorting them.

    Args:
        keys: n keys, none below 0.
    """
    if len(keys) == 0 or (largest := int(keys.max())) > _COUNTED + 4 * len(keys):
        distinct, position = np.unique(keys, return_inverse=True)
        return distinct, position.astype(np.int64, copy=False)
    is_there = np.zeros(largest + 1, bool)
    is_there[keys] = True
    position = np.cumsum(is_there) - 1
    return np.flatnonzero(is_there), position[keys]


# Largest key up to which few keys are counted: for more, the array of all keys costs more than sorting a few.
_COUNTED = 2_000


def facet_groups(group_of_item: IntArray, facet: Coded | None) -> FacetGroups:
    """Group items by record group and one facet; items without a value of the facet are left out.

    Args:
        group_of_item: Record group of each item.
        facet: The value of each item, or None for the facet `all`.
    """
    if facet is None:
        distinct, of_item = numbered(group_of_item)
        return FacetGroups(of_item, distinct, pa.nulls(len(distinct), pa.string()))
    if facet.size == 1:
        return FacetGroups(np.full(len(group_of_item), -1), np.zeros(0, np.int64), pa.nulls(0, pa.string()))
    has_value = facet.codes > 0
    key = group_of_item * facet.size + facet.codes
    distinct, inverse = numbered(key[has_value])
    of_item = np.full(len(key), -1, dtype=np.int64)
    of_item[has_value] = inverse
    values = facet.values.cast(pa.string()).take(pa.array(distinct % facet.size - 1))
    return FacetGroups(of_item, distinct // facet.size, values)


def count_outcomes(group_of_item: IntArray, size: int, outcomes: npt.NDArray[np.uint8], width: int) -> IntArray:
    """Count items by group, metric and outcome.

    Args:
        group_of_item: Group of each of n items, from 0 to size - 1.
        size: Number of groups.
        outcomes: n x m outcome ids below `width`.
        width: Number of outcome ids.

    Returns:
        size x m x width counts.
    """
    metrics = outcomes.shape[1]
    key = outcomes + np.arange(metrics) * width
    key += (group_of_item * (metrics * width))[:, None]
    return np.bincount(key.ravel(order="K"), minlength=size * metrics * width).reshape(size, metrics, width)


def sum_scores(
    group_of_item: IntArray, size: int, outcomes: npt.NDArray[np.uint8], scores: FloatArray, width: int
) -> tuple[IntArray, FloatArray, FloatArray]:
    """Add up the scores of some metrics and their squares by group, metric and outcome.

    Args:
        group_of_item: Group of each of n items, from 0 to size - 1.
        size: Number of groups.
        outcomes: n x m outcome ids below `width`.
        scores: n x m scores, NaN for no score.
        width: Number of outcome ids.

    Returns:
        Three size x m x width arrays: the number of scores, their sum, the sum of their squares.
    """
    metrics = outcomes.shape[1]
    inside = np.isfinite(scores)
    key = (((group_of_item * metrics)[:, None] + np.arange(metrics)) * width + outcomes)[inside]
    values = scores[inside]
    shape = (size, metrics, width)
    n = size * metrics * width
    present: IntArray = np.bincount(key, minlength=n).astype(np.int64, copy=False)
    with np.errstate(over="ignore"):
        total: FloatArray = np.bincount(key, weights=values, minlength=n).astype(np.float64, copy=False)
        squares: FloatArray = np.bincount(key, weights=values * values, minlength=n).astype(np.float64, copy=False)
    return present.reshape(shape), total.reshape(shape), squares.reshape(shape)
