"""Folds the spans of a trace to one unit per metric: good, bad, unknown or error."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gapwatch.scorers.plan.codes import (
    ERROR,
    FAIL,
    NOT_APPLICABLE,
    PASS,
    PENDING,
    SAMPLED_OUT,
    SHED_LOAD,
    UNKNOWN,
    WARN,
)
from gapwatch.scorers.portfolio.claim import LabelClaim, MeasureClaim
from gapwatch.scorers.portfolio.metric import Metric
from gapwatch.scorers.slices.columns import FloatArray, IntArray
from gapwatch.scorers.ticks.tick_counts import BAD, ERROR_UNIT, GOOD, UNKNOWN_UNIT

Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class UnitRows:
    """Rows of one block, split by record.

    Attributes:
        starts: First row of each of the u records that have rows in the block.
        records: `ord` of each of the u records.
        rows: Number of rows in the block.
    """

    starts: IntArray
    records: IntArray
    rows: int

    @property
    def one_each(self) -> bool:
        """True if every record has exactly one row, so that there is nothing to fold."""
        return len(self.starts) == self.rows


def unit_rows(ord_: IntArray) -> UnitRows:
    """Split rows, sorted by record, into records."""
    if len(ord_) == 0:
        return UnitRows(np.zeros(0, np.int64), np.zeros(0, np.int64), 0)
    starts = np.flatnonzero(np.concatenate(([True], ord_[1:] != ord_[:-1])))
    return UnitRows(starts, ord_[starts], len(ord_))


def fold_any(units: UnitRows, outcomes: Bytes) -> Bytes:
    """Fold outcomes: bad if one span fails, else good if one passes or warns, else error or unknown if it applied.

    Error: at least one span has no verdict because its judge or scorer failed.

    Args:
        units: u records over n rows.
        outcomes: n x m outcome ids.

    Returns:
        u x m units; 0 where the metric applied to no evaluated span, or where a span waits for a judge.
    """
    if len(units.starts) == 0:
        return np.zeros((0, outcomes.shape[1]), np.uint8)
    # The outcome with the highest rank decides the unit.
    ranked = _RANK[outcomes]
    top = ranked if units.one_each else np.maximum.reduceat(ranked, units.starts, axis=0)
    return _UNIT_OF_RANK[top]


_RANK = np.full(16, 1, np.uint8)  # unknown, skip
_RANK[[NOT_APPLICABLE, SAMPLED_OUT, SHED_LOAD]] = 0
_RANK[ERROR] = 2
_RANK[[PASS, WARN]] = 3
_RANK[FAIL] = 4
# A unit that waits for a judge is counted when the judge has answered, once and whole.
_RANK[PENDING] = 5
_UNIT_OF_RANK = np.array([0, UNKNOWN_UNIT, ERROR_UNIT, GOOD, BAD, 0], np.uint8)
_DECIDED = (PASS, WARN, FAIL)


def fold_numbers(units: UnitRows, outcomes: Bytes, scores: FloatArray, metric: Metric) -> FloatArray:
    """Return the score of each unit, folded over its spans; NaN for no score.

    Args:
        units: u records over n rows.
        outcomes: n outcome ids.
        scores: n scores.
        metric: A metric with scores; its `per_trace` names the fold.
    """
    decided = np.isin(outcomes, _DECIDED)
    values = np.where(decided, scores, np.nan)
    if units.one_each:
        return values
    fold: str = metric.per_trace
    if fold == "any":
        limit = metric.claim.limit if isinstance(metric.claim, MeasureClaim) else None
        fold = "min" if limit is not None and limit.min is not None else "max"
    if fold in ("max", "min"):
        return (np.fmax if fold == "max" else np.fmin).reduceat(values, units.starts)
    count = np.add.reduceat(decided.astype(np.int64), units.starts)
    if fold == "last":
        position = np.where(decided, np.arange(units.rows), -1)
        last = np.maximum.reduceat(position, units.starts)
        return np.where(last >= 0, values[last], np.nan)
    with np.errstate(over="ignore", invalid="ignore"):
        total = np.add.reduceat(np.where(decided, scores, 0.0), units.starts)
    if fold == "sum":
        lacking = np.add.reduceat((outcomes == UNKNOWN).astype(np.int64), units.starts)
        return np.where((count > 0) & (lacking == 0), total, np.nan)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def fold_measure(units: UnitRows, outcomes: Bytes, scores: FloatArray, metric: Metric) -> Bytes:
    """Fold the scores of a measure by max, sum, mean or last, and compare the result with the limit."""
    assert isinstance(metric.claim, MeasureClaim)
    numbers = fold_numbers(units, outcomes, scores, metric)
    any_of = fold_any(units, outcomes[:, None])[:, 0]
    limit = metric.claim.limit
    with np.errstate(invalid="ignore"):
        bad = np.zeros(len(numbers), bool)
        if limit is not None and limit.max is not None:
            bad = numbers > limit.max
        elif limit is not None and limit.min is not None:
            bad = numbers < limit.min
    lacking = np.where(any_of == ERROR_UNIT, ERROR_UNIT, UNKNOWN_UNIT)
    unit = np.where(np.isnan(numbers), lacking, np.where(bad, BAD, GOOD))
    return np.where(any_of > 0, unit, 0).astype(np.uint8)


def worst_label(units: UnitRows, label_codes: IntArray, labels: list[str | None], metric: Metric) -> IntArray:
    """Return the code of the worst label of each unit, 0 for a unit without a known label.

    Args:
        units: u records over n rows.
        label_codes: n codes, 0 for no label.
        labels: Text of each code, from code 1 on.
        metric: Metric with a label claim; the last of its labels is the worst.
    """
    assert isinstance(metric.claim, LabelClaim)
    order = {label: rank for rank, label in enumerate(metric.claim.labels or (), start=1)}
    rank_of_code = np.array([0, *(order.get(label or "", 0) for label in labels)])
    ranks = rank_of_code[label_codes]
    worst = ranks if units.one_each else np.maximum.reduceat(ranks, units.starts)
    code_of_rank = np.zeros(len(order) + 1, np.int64)
    for code, rank in enumerate(rank_of_code):
        if rank:
            code_of_rank[rank] = code
    result: IntArray = code_of_rank[worst]
    return result
